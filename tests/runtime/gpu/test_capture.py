"""Plans as CUDA graphs, with a driver that runs on the CPU: which nodes are made, and what a replay computes."""

import itertools

import pytest
import torch

import tograph as tg
from tests.runtime.gpu.fake_driver import Cuda, install
from tests.runtime.gpu.fake_graphs import Graph
from tests.runtime.kernels.loop_programs import divide, halve, nested
from tograph.runtime.execution import scheduler
from tograph.runtime.gpu import capture, planner, pointers, program
from tograph.runtime.gpu.execute import Chunked
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.gpu.storage import Failed
from tograph.runtime.graph import interp
from tograph.runtime.kernels import device, driver
from tograph.runtime.kernels.loop_ir import Unsupported

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture(params=[13, 12])
def bindings(request):
    return request.param


def captured(fn, *args):
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    made = planner.plan(retarget(graph, "cuda:0"), whole=False)
    made.device = "cpu"
    return graph, capture.Captured(made)


def check(fn, *args):
    graph, made = captured(fn, *args)
    want = interp.run(graph, args)
    for _ in range(2):  # memory is used again
        for a, b in zip(made.run(*args), want, strict=True):
            assert type(a) is type(b)
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))
    return made


def kinds(graph: Graph) -> list[str]:
    return [kind for kind, *_ in graph.nodes]


def test_a_loop_is_one_conditional_node(cuda):
    made = check(halve, torch.tensor([3.0, 4.0]))
    assert kinds(made.graphs[0].root).count("CONDITIONAL") == 1 and len(made.streams) == 2
    assert cuda.calls.count("cuStreamBeginCaptureToGraph") == 1
    assert not cuda.capturing


def test_a_call_starts_one_graph_and_nothing_else(cuda):
    _, made = captured(halve, torch.tensor([3.0, 4.0]))
    cuda.calls.clear()
    made.run(torch.tensor([3.0, 4.0]))
    # The context of the thread is asked for by the host alone.
    assert [c for c in cuda.calls if c != "cuCtxGetCurrent"] == ["cuGraphLaunch"]


def test_branches_are_two_nodes_set_before_either_runs(cuda):
    def branch(x):
        total = x.sum()
        while x.sum() > 1:
            if x[0] > 2:
                x = x - 1
            else:
                x = x * 0.5
            total = total + x.sum()
        return x, total

    check(branch, torch.tensor([4.0, 3.0]))
    assert cuda.calls.count("cuGraphConditionalHandleCreate") == 3


def test_a_switch_takes_the_last_body_for_other_numbers(cuda):
    def switch(i, x):
        return tg.switch_case(i, [lambda: x + 1, lambda: x * 2, lambda: x - 3])

    for i in (0, 1, 2, 7, -1):
        check(switch, torch.tensor(i), torch.tensor([1.0, 5.0]))


def test_loops_in_loops(cuda):
    made = check(nested, torch.eye(2) + 0.1, torch.tensor([[2.0, 1.0], [0.5, 3.0]]))
    assert len(made.streams) == 3


def test_a_failure_ends_the_loop(cuda):
    _, made = captured(divide, torch.tensor(1000), torch.tensor(3))
    assert int(made.run(torch.tensor(1000), torch.tensor(3))[0]) == 4
    with pytest.raises(Failed):
        made.run(torch.tensor(1000), torch.tensor(0))  # would run for ever
    assert int(made.run(torch.tensor(1000), torch.tensor(3))[0]) == 4


def test_the_probe_runs(cuda, monkeypatch):
    probe = capture.probe_plan("cuda:0")
    probe.device = "cpu"
    monkeypatch.setattr(capture, "probe_plan", lambda place: probe)
    assert capture.probed("cuda:0") == ""


def test_the_host_prints_between_graphs(cuda, capsys):
    def telling(x):
        steps = 0
        while x.sum() > 1:
            print(f"{steps} {x.sum():.1f}")
            if x.sum() > 5:
                print("large", x)
            while x.max() > 2:
                x = x - 1
            x = x * 0.5
            steps += 1
        return x, steps

    _, made = captured(telling, torch.tensor([3.0, 4.0]))
    x, steps = made.run(torch.tensor([3.0, 4.0]))
    got = capsys.readouterr().out
    want, count = telling(torch.tensor([3.0, 4.0]))
    assert got == capsys.readouterr().out and (steps, type(steps)) == (count, int)
    torch.testing.assert_close(x, want)
    # The loop that prints nothing.
    assert sum(kinds(g.root).count("CONDITIONAL") for g in made.graphs) == 1
    assert {g.held for g in made.graphs} == {made.pool.handle}


# ---- what can go wrong


def with_program(fn, *args):
    """The program of a graph, as the scheduler would make it for a GPU."""
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    runner = scheduler.build(graph)
    made = program.Program(retarget(graph, "cuda:0"))
    made.plan.device = "cpu"
    runner._native, runner._left, runner.level = made, 0, "device"
    return runner, made


@pytest.fixture
def on_cpu(monkeypatch):
    """Plans that are made for a GPU run on the CPU, loops and branches as nodes."""
    made = planner.plan

    def plan(graph, whole=True, capacity=None, **_):
        graph = graph if program.on_gpu(graph) else retarget(graph, "cuda:0")
        found = made(graph, False, capacity)
        found.device = "cpu"
        return found

    monkeypatch.setattr(program.planner, "plan", plan)


def test_a_driver_that_is_too_old_gives_chunks_and_one_notice(monkeypatch, on_cpu):
    install(monkeypatch, Cuda(version=12020))
    with pytest.warns(
        RuntimeWarning, match="the driver knows CUDA 12.2, conditional nodes need 12.4"
    ):
        runner, made = with_program(halve, torch.tensor([3.0, 4.0]))
    assert made.tier == 2 and "12.2" in made.notes[0]
    assert int(runner.run(torch.tensor([3.0, 4.0]))[1]) == 3


def test_a_switch_needs_a_later_driver(monkeypatch, on_cpu):
    def switch(i, x):
        return tg.switch_case(i, [lambda: x @ x, lambda: x @ x.t()])

    install(monkeypatch, Cuda(version=12060))
    monkeypatch.setattr(capture, "probed", lambda place: "")
    with pytest.warns(RuntimeWarning, match=r"conditional nodes need 12\.8"):
        _, made = with_program(switch, torch.tensor(1), torch.eye(2))
    assert made.tier == 2


def test_an_op_that_cannot_be_captured_gives_chunks(monkeypatch, on_cpu):
    emulated = install(monkeypatch, Cuda())
    monkeypatch.setattr(capture, "probed", lambda place: "")

    def refuse(self, step):
        if torch.cuda.current_stream().cuda_stream in self.cuda.capturing:
            raise RuntimeError("operation not permitted when stream is capturing")

    emulated.cuda = cuda = driver._cu()
    monkeypatch.setattr(emulated, "_call", refuse)

    def product(x):
        while x.sum() > 1:
            x = x @ x * 0.3
        return x

    with pytest.warns(RuntimeWarning, match="not permitted when stream is capturing"):
        runner, made = with_program(product, torch.eye(2))
    assert made.tier == 2 and not cuda.capturing
    torch.testing.assert_close(runner.run(torch.eye(2))[0], product(torch.eye(2)))


def test_too_little_memory_leaves_the_graph_to_the_host(monkeypatch, on_cpu):
    install(monkeypatch, Cuda())
    monkeypatch.setattr(capture, "probed", lambda place: "")

    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(capture, "Captured", full)
    with pytest.warns(RuntimeWarning, match="halve runs op by op: out of device memory"):
        with pytest.raises(Unsupported, match=r"out of device memory: the plan needs \d+ bytes"):
            with_program(halve, torch.ones(2))


def test_a_kernel_that_does_not_compile_leaves_the_call_to_the_host(monkeypatch, on_cpu):
    install(monkeypatch, Cuda(version=12020))

    def refuse(source, arguments):
        raise Unsupported("Triton: no such instruction")

    def double(x):
        while x.sum() < 100:
            x = x * 2
        return x

    monkeypatch.setattr(device, "launch", refuse)
    with pytest.warns(RuntimeWarning, match="runs in chunks"):
        runner, made = with_program(double, torch.tensor([3.0, 4.0]))
    with pytest.warns(RuntimeWarning, match="op by op: Triton: no such instruction"):
        assert int(runner.run(torch.tensor([3.0, 4.0]))[0][0]) == 48
    assert any("no such instruction" in n for n in made.notes)


def test_tensors_on_two_gpus_are_refused():
    graph = tg.function(lambda x, y: (x + 1, y + 1)).get_concrete_function(
        tg.TensorSpec([2], torch.float32, device="cuda:0"),
        tg.TensorSpec([2], torch.float32, device="cuda:1"),
    )
    with pytest.raises(Unsupported, match="cuda:0 and cuda:1"):
        planner.plan(graph.value_graph)


def test_a_list_that_is_full_is_planned_again_with_more_room(monkeypatch, on_cpu):
    def collect(x, n):
        out = []
        for _ in range(n):
            out.append(x)
            x = x * 2
        return torch.stack(out)

    install(monkeypatch, Cuda())
    monkeypatch.setattr(capture, "probed", lambda place: "")
    monkeypatch.setattr(planner, "bounded", _small(planner.bounded))
    runner, made = with_program(collect, torch.ones(2), torch.tensor(2))
    assert made.tier == 1 and made.plan.form.capacity == 2
    for n in (2, 7, 3):
        given = torch.ones(2), torch.tensor(n)
        torch.testing.assert_close(runner.run(*given)[0], interp.run(runner.graph, given)[0])
    assert made.plan.form.capacity == 8


def grow(x, y):
    while y.sum() > 1:
        y = y @ y * 0.5
        while x.sum() < 100:
            x = x * 2
    return x, y


def test_a_loop_in_a_kernel_does_not_run_on_memory_without_content(cuda):
    """On zeros it would never end."""
    given = torch.ones(3), torch.eye(2)
    graph = tg.function(grow).get_concrete_function(*given).value_graph
    plan = planner.plan(retarget(graph, "cuda:0"))
    assert any("loop" in s.source.name for s, _ in plan.walk() if hasattr(s, "source"))
    plan.device = "cpu"
    made = capture.Captured(plan)
    for y in (torch.eye(2), torch.zeros(2, 2)):
        for a, b in zip(made.run(given[0], y), grow(given[0], y), strict=True):
            torch.testing.assert_close(a, b)


def test_a_loop_in_a_kernel_ends_in_a_body_that_is_not_active():
    """The chunk goes on behind the last iteration, with what it left."""

    def shrink(x, y):
        while y.sum() > 1:
            y = y @ y * 0.5
            n = torch.zeros_like(x[0])
            while n != x[0]:  # never, for what comes behind the end
                n = n + 1
            x = x - 1
        return x, y

    given = torch.tensor([3.0, 1.0]), torch.eye(2) * 1.5
    graph = tg.function(shrink).get_concrete_function(*given).value_graph
    runner = Chunked(planner.plan(retarget(graph, "cuda:0")), "cpu")
    for a, b in zip(runner.run(*given), shrink(*given), strict=True):
        torch.testing.assert_close(a, b)


# ---- inputs that stay where they are


def test_weights_are_read_where_they_are(monkeypatch, on_cpu):
    def layer(x, w):
        y = x
        while y.sum() > 1:
            y = (y @ w.t()) * 0.1
        return y, w

    install(monkeypatch, Cuda())
    monkeypatch.setattr(capture, "probed", lambda place: "")
    monkeypatch.setattr(pointers, "SMALLEST", 1)
    w = torch.eye(2) + 0.5
    runner, made = with_program(layer, torch.ones(2, 2), w)

    def call(w):
        x = torch.rand(2, 2) * 9
        for a, b in zip(runner.run(x, w), layer(x, w), strict=True):
            torch.testing.assert_close(a, b)
            assert (a is w) == (b is w)  # what is given back is the caller's own
        keep.append(x)  # so that the next one is elsewhere

    keep = []
    for k in range(4):
        call(w)
        assert made.pointers.bound == (frozenset({1}) if k >= 2 else frozenset())
    w.mul_(0.9)  # no copy has to be made for that
    call(w)
    held = {x.untyped_storage().data_ptr() for x in made._runner.memory.of.values()}
    assert w.untyped_storage().data_ptr() not in held
    call(w * 1.1)  # elsewhere
    assert made.pointers.bound == frozenset()
    call(w)


def test_other_settings_of_torch_are_those_of_the_next_call(monkeypatch, on_cpu):
    """A library function is captured with the precision and the algorithms that it is to have."""

    def product(x):
        while x.sum() > 1:
            x = x @ x * 0.1
        return (x,)

    install(monkeypatch, Cuda())
    monkeypatch.setattr(capture, "probed", lambda place: "")
    runner, made = with_program(product, torch.eye(3))
    found = []
    for precision in ("highest", "high", "high", "highest"):
        torch.set_float32_matmul_precision(precision)
        torch.testing.assert_close(runner.run(torch.eye(3))[0], product(torch.eye(3))[0])
        found.append(made._runner)
    torch.set_float32_matmul_precision("highest")
    assert [a is b for a, b in itertools.pairwise(found)] == [False, True, False]


def _small(bounded):
    return lambda graph, device, capacity=None: bounded(graph, device, capacity or 2)
