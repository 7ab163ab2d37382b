"""Graphs on a device: their regions and loops become Triton kernels. The device is the CPU here, with Triton's interpreter."""

import pytest
import torch

import tograph as tg
from tests.runtime.kernels.loop_programs import all_move, divide, halve_each, one_slow
from tests.runtime.kernels.triton_samples import flat
from tests.runtime.kernels.triton_worker import interpret
from tograph.bench import programs
from tograph.runtime.execution import host
from tograph.runtime.graph import interp
from tograph.runtime.kernels import device, lower, split_rows, triton_jit, triton_loops
from tograph.runtime.kernels.loop_ir import Unsupported
from tograph.runtime.kernels.regions import fuse
from tograph.runtime.passes import write_in_place

pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def launches(monkeypatch):
    """The kernels that were started; a start runs the interpreter."""
    started = []

    def launch(source, arguments):
        started.append(source.name)
        whole = {n: arguments[n] for n in source.signature}
        given = {n: flat(x) if isinstance(x, torch.Tensor) else x for n, x in whole.items()}
        after = interpret(source, given)
        for name, x in whole.items():
            if isinstance(x, torch.Tensor):
                torch.as_strided(x, after[name].shape, (1,)).copy_(after[name])

    for module in (device, lower):
        monkeypatch.setattr(module, "is_gpu", lambda place: place == "cpu")
    monkeypatch.setattr(device, "launch", launch)
    monkeypatch.setattr(lower, "MIN_POINTS", 0)
    pays = lambda group: len(group.nodes) > 1 or group.costly  # as on a GPU, however small
    monkeypatch.setattr(lower, "fuse", lambda graph: fuse(graph, pays))
    return started


def lowered(fn, *args):
    graph = write_in_place(tg.function(fn).get_concrete_function(*args).value_graph)
    made, found = lower.lower(graph, host.build)
    return graph, host.build(made), found


def check(fn, *args):
    graph, program, found = lowered(fn, *args)
    for got, want in zip(program.run(*args), interp.run(graph, args), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), torch.as_tensor(want), equal_nan=True)
    return found


def test_regions_run_as_triton_kernels(launches):
    def block(x, y):
        return torch.softmax(x * y + 1, -1) * 2, (x - y).exp().sum(0)

    found = check(block, torch.randn(6, 33), torch.randn(6, 33).t().contiguous().t())
    assert launches and all("@triton.jit" in k.triton for f in found for k in f.kernels)


def test_a_long_row_is_two_kernels(monkeypatch, launches):
    monkeypatch.setattr(split_rows, "LONG", 64)
    monkeypatch.setattr(split_rows, "PART", 20)
    check(lambda x: (x * 2).sum(), torch.linspace(-1, 2, 99))
    assert len(launches) == 2 and launches[0] == launches[1] + "_parts"


def test_a_loop_is_one_start(launches):
    check(programs.newton, torch.tensor(2.0), torch.tensor(9, dtype=torch.int32))
    assert launches == ["newton_loop0"]


def test_numbers_come_back_as_pythons_own(launches):
    def halve(x):
        steps, size = 0, 0.0
        while x.sum() > 1:
            x = x * 0.5
            steps += 1
            size += 0.5
        return x, steps, size

    graph, program, _ = lowered(halve, torch.ones(5))
    _, steps, size = program.run(torch.ones(5))
    assert (type(steps), steps, type(size), size) == (int, 3, float, 1.5)


def test_a_loop_over_blocks_gives_numbers_of_its_longest_block(monkeypatch, launches):
    monkeypatch.setattr(triton_loops, "MOST", 64)
    check(halve_each, one_slow())
    assert "halve_each_loop0" in launches


def test_a_loop_that_fails_in_the_kernel_raises_as_the_host_does(launches):
    _, program, found = lowered(divide, torch.tensor(1000), torch.tensor(3))
    assert program.run(torch.tensor(1000), torch.tensor(3))[0] == 4
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        program.run(torch.tensor(1000), torch.tensor(0))
    assert "failed with code 1" in found[0].reasons[0]


def test_a_loop_that_keeps_failing_is_left_to_the_host(monkeypatch, launches):
    monkeypatch.setattr(triton_loops, "MOST", 64)
    x = one_slow()
    _, program, _ = lowered(all_move, x)
    for _ in range(device.PATIENCE + 2):
        assert torch.equal(program.run(x)[0], x / 1024)
    assert launches == ["all_move_loop0"] * device.PATIENCE


def test_a_kernel_that_does_not_start_runs_op_by_op_with_one_warning(monkeypatch):
    def refuse(source, arguments):
        raise Unsupported("Triton: no C compiler")

    monkeypatch.setattr(device, "launch", refuse)
    x = torch.randn(50)
    graph, program, _ = lowered(lambda x: torch.exp(x) * 3 + 1, x)
    with pytest.warns(RuntimeWarning, match="does not start, its ops run one by one: Triton: no C"):
        first = program.run(x)[0]
    assert torch.equal(first, x.exp() * 3 + 1) and torch.equal(program.run(x)[0], first)


def test_without_a_gpu_tritons_launcher_says_so():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    x = torch.randn(50)
    _, _, found = lowered(lambda x: torch.exp(x) * 3 + 1, x)
    found[0](x)
    with pytest.raises(Unsupported, match="Triton: "):
        triton_jit.launch(found[0].kernels[0].source, [x, x])
