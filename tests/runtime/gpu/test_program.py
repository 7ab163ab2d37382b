"""Which tier runs a graph on a GPU, and what there is to see of it without one."""

import concurrent.futures
import re
import types
import warnings

import pytest
import torch

import tograph as tg
from tests.runtime.kernels.loop_programs import divide
from tograph import cli, disk
from tograph.runtime.execution import scheduler
from tograph.runtime.gpu import capture, program
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.plan import check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.graph.text import parse_graph
from tograph.runtime.kernels import driver, setter, triton_jit

pytest.importorskip("triton")
SPEC = tg.TensorSpec([5], torch.float32, device="cuda:0")


def halve(x):
    while x.sum() > 1:
        x = x * 0.5
    return x + 1


def no_gpu():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")


# ---- without a GPU


def test_a_trace_for_a_gpu_is_made_without_one():
    no_gpu()
    made = tg.function(halve).get_concrete_function(SPEC)
    assert str(made.graph.outputs[0].type) == "f32[5]@cuda:0"
    made.scheduled.compile()
    assert (made.scheduled.level, made.scheduled.reason) == ("host", "there is no CUDA device")


def test_a_function_that_only_makes_tensors_on_a_gpu_has_a_plan():
    no_gpu()
    made = parse_graph("f(%n: int) {\n  %0: f32[3]@cuda:0 = aten.full.default([3], %n, device=device(\"cuda:0\"))\n  %1: f32[3]@cuda:0 = aten.sin.default(%0)\n  return %1\n}")  # fmt: skip
    runner = scheduler.build(made)
    runner.compile()
    assert runner.reason == "there is no CUDA device"  # and not one of native code
    assert program.described(made).startswith("plan f on cuda:0: ")


def test_the_cpu_is_as_before_where_a_function_has_a_gpu_trace_too():
    no_gpu()
    f = tg.function(halve)
    f.get_concrete_function(SPEC)
    assert torch.equal(f(torch.ones(5)), torch.ones(5) / 8 + 1)
    assert f.get_concrete_function(torch.ones(5)).scheduled.level == "native"


def test_machine_code_of_the_cpu_is_not_given_another_devices_tensors():
    """Tensors of the meta device stand for those of any other one."""
    f = tg.function(lambda x: torch.relu(x * 2) + 1)
    for _ in range(3):
        f(torch.ones(8))
    assert f(torch.ones(8, device="meta")).device.type == "meta" and f.trace_count == 2


def test_what_keeps_a_graph_on_the_host_is_said():
    no_gpu()

    def drawing(x):
        while x.sum() > 1:
            x = x * torch.poisson(x / x.sum())
        return x

    made = tg.function(drawing).get_concrete_function(SPEC)
    made.scheduled.compile()
    assert re.search(r"test_program.py:\d+: .*draws random numbers", made.scheduled.reason)


def test_the_plan_of_a_cpu_trace_can_be_seen(capsys):
    assert cli.main(["dump", "samples/neural_ode.py:train", "--stage", "plan"]) == 0
    text = capsys.readouterr().out
    assert "WHILE handle" in text and "forbidden" not in text
    assert re.search(r"^plan train on cuda:0: .* kernel.* buffers, \d+ bytes$", text, re.M)


def test_the_plan_says_why_there_is_none():
    made = tg.function(torch.unique).get_concrete_function(torch.ones(3))
    assert "the host runs it op by op: " in program.described(made.value_graph)


def test_retargeting_leaves_the_graph_alone():
    graph = tg.function(lambda x: x + torch.zeros(3)).get_concrete_function(torch.ones(3)).graph
    before = str(graph)
    assert "@cuda:0" in str(retarget(graph, "cuda:0")) and str(graph) == before
    assert str(retarget(retarget(graph, "cuda:0"), "cpu", "cuda:0")) == before


# ---- the setter and the probe


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_the_setter_assembles_with_its_symbol_undefined(architecture):
    image, report = triton_jit.assemble(setter.ptx(), architecture)
    assert b"cudaGraphSetConditional" in image and "0 bytes spill stores" in report
    for name in (setter.SET, setter.INVERTED, setter.SET_INDEX):
        assert name.encode() in image
    assert ".extern .func cudaGraphSetConditional" in setter.ptx()


def test_the_probe_is_a_while_node_with_a_known_answer(interpreted):
    made = capture.probe_plan("cuda:0")
    assert check(made) == [] and made.nodes()["while"] == 1
    runner = Stepwise(made, "cpu")
    assert [int(runner.run(torch.tensor(n))[0]) for n in (5, 0, 3)] == [15, 0, 6]


def test_without_a_driver_the_reason_is_said():
    no_gpu()
    assert driver.available() in ("there is no CUDA device",) or "cuda-bindings" in driver.available()  # fmt: skip
    with pytest.raises(driver.DriverError, match=r"cuda-bindings|no CUDA device"):
        capture.Captured(capture.probe_plan("cuda:0"))
    assert capture.probed("cuda:0")


# ---- the choice of a tier, with the CPU in the place of a GPU


@pytest.fixture
def pretended(monkeypatch, interpreted):
    """A device that is the CPU, without conditional nodes."""
    monkeypatch.setattr(disk, "_warned", set())  # in whichever order tests run
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(capture, "lacking", lambda plan: "the probe failed")
    chunked = program.Chunked
    monkeypatch.setattr(program, "Chunked", lambda plan: chunked(plan, "cpu", chunk=2))


def nested(x):
    total = 0
    while x.sum() > 1:
        y = x
        while (y @ y) > 0.5:
            y = y * 0.5
            total += 1
        x = x * 0.7 + y * 0.1
    return x, total


def test_a_failed_probe_gives_chunks_and_one_notice(pretended, monkeypatch):
    graph = tg.function(nested).get_concrete_function(torch.ones(5)).value_graph
    monkeypatch.setattr(
        program.planner, "plan", lambda g, capacity=None, **_: _plan(g, False, capacity)
    )
    with pytest.warns(RuntimeWarning, match="nested runs in chunks.*the probe failed"):
        made = program.Program(retarget(graph, "cuda:0"))
    assert made.tier == 2 and made.notes == ["no conditional nodes: the probe failed"]
    made.plan.device = "cpu"
    x, total = made.run([torch.ones(5)])
    want, steps = nested(torch.ones(5))
    torch.testing.assert_close(x, want)
    assert (type(total), total) == (int, steps)
    assert all("@triton.jit" in k.triton for k in made.kernels)
    for other in (torch.ones(6), torch.ones(5).double(), torch.ones(5, requires_grad=True)):
        assert made.run([other]) is None


_plan = program.planner.plan


def test_a_graph_that_fails_on_the_device_raises_on_the_host(pretended, monkeypatch):
    graph = tg.function(divide).get_concrete_function(torch.tensor(9), torch.tensor(3)).value_graph  # fmt: skip
    monkeypatch.setattr(
        program.planner, "plan", lambda g, capacity=None, **_: _plan(g, False, capacity)
    )
    with pytest.warns(RuntimeWarning, match="runs in chunks"):
        made = program.Program(retarget(graph, "cuda:0"))
    made.plan.device = "cpu"
    given = [torch.tensor(1000), torch.tensor(0)]
    runner = scheduler.build(graph)
    runner._native, runner._left = made, 0
    assert int(runner.run(torch.tensor(1000), torch.tensor(3))[0]) == 4
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        runner.run(*given)


def planned(monkeypatch, fn, *given):
    """A program in chunks on the CPU."""
    graph = tg.function(fn).get_concrete_function(*given).value_graph
    monkeypatch.setattr(
        program.planner, "plan", lambda g, capacity=None, **_: _plan(g, False, capacity)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one notice for each graph
        made = program.Program(retarget(graph, "cuda:0"))
    made.plan.device = "cpu"
    return graph, made


def test_what_a_library_function_raises_is_left_to_the_host(pretended, monkeypatch):
    """In a plan a branch that is not taken runs too, on what happens to be there."""
    graph, made = planned(monkeypatch, nested, torch.ones(5))

    def call(step):
        raise RuntimeError("no such product")

    made._runner._call = call
    runner = scheduler.build(graph)
    runner._native, runner._left = made, 0
    torch.testing.assert_close(runner.run(torch.ones(5))[0], nested(torch.ones(5))[0])
    assert runner.reason == "no conditional nodes: the probe failed; RuntimeError: no such product"


def test_a_default_device_does_not_keep_calls_from_the_device(pretended, monkeypatch):
    """It is a mode of torch; a trace is made for it. What a plan makes for the host is on the CPU all the same."""
    _, made = planned(monkeypatch, halve, torch.ones(5))
    with torch.device("meta"):
        x = torch.ones(5, device="cpu")
        assert torch.equal(made.run([x])[0], torch.ones(5, device="cpu") / 8 + 1)
        _, again = planned(monkeypatch, halve, x)
        assert torch.equal(again.run([x])[0], torch.ones(5, device="cpu") / 8 + 1)

    class Seeing(torch.overrides.TorchFunctionMode): ...

    x = torch.ones(5)
    with Seeing():
        assert made.run([x]) is None


def test_calls_of_several_threads_take_turns(pretended, monkeypatch):
    graph, made = planned(monkeypatch, halve, torch.ones(5))
    given = [torch.full((5,), float(n)) for n in range(8)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: made.run([x])[0], given))
    for x, got in zip(given, found):
        assert torch.equal(got, halve(x))


def test_a_graph_that_is_called_while_it_runs_runs_on_the_host(pretended, monkeypatch):
    _, made = planned(monkeypatch, halve, torch.ones(5))
    made._runner.play = lambda: inner.append(made.run([torch.ones(5)]))
    inner = []
    made.run([torch.ones(5)])
    assert inner == [None]


def test_a_run_on_another_stream_waits_for_the_one_before(monkeypatch, interpreted):
    made = Stepwise(capture.probe_plan("cuda:0"), "cpu")
    waits = []

    class Stream:
        def wait_stream(self, other):
            waits.append((streams.index(self), streams.index(other)))

    streams = [Stream(), Stream()]
    made._home = made._last = streams[0]
    made._known = {streams[0]}
    told = []
    memory = types.SimpleNamespace(record_stream=lambda stream: told.append(streams.index(stream)))
    monkeypatch.setattr(made.memory, "own_tensors", lambda: [memory])
    for now in (0, 0, 1, 1):
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: streams[now])
        made._follow()
    assert waits == [(1, 0)]
    made.leave()  # its memory belongs to the first one
    assert waits == [(1, 0), (0, 1)]
    assert told == [1]  # and is not given to others while the second one uses it
