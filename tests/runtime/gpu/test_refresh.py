"""Inputs that move from call to call: read where they are by nodes that are told, with a driver that runs on the CPU."""

import pytest
import torch

import tograph as tg
from tests.runtime.gpu.fake_driver import Cuda, plan_on_cpu
from tograph import disk
from tograph.runtime.gpu import capture, joining, pointers, program, refresh
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.kernels import driver
from tograph.runtime.kernels.loop_ir import Unsupported

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture(params=[13, 12])
def bindings(request):
    return request.param


@pytest.fixture
def cuda(cuda, monkeypatch):
    monkeypatch.setattr(capture, "probed", lambda place: "")
    monkeypatch.setattr(pointers, "SMALLEST", 1)
    monkeypatch.setattr(refresh, "LARGE", 16)
    monkeypatch.setattr(joining, "LARGE", 16)  # what is copied is larger than what kernels copy
    monkeypatch.setattr(disk, "_warned", set())
    plan_on_cpu(monkeypatch)
    return cuda


def started(fn, *args):
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    made = program.Program(retarget(graph, "cuda:0"))
    made.plan.device = "cpu"
    return made


def calls(made, fn, inputs, count=6):
    """Calls with fresh memory each time, beside plain Python; how many nodes were told in each."""
    keep, told = [], []
    for k in range(count):
        given = inputs(k)
        keep.append(given)  # so that the next ones are elsewhere
        for a, b in zip(made.run(given), fn(*given), strict=True):
            torch.testing.assert_close(a, b)
            assert all(a.data_ptr() != x.data_ptr() for x in given)
        told.append(made._runner.told)
    return told


def layer(x, w):
    return torch.relu(x * 2 + 1), x + w, x @ w


def loop(x, w):
    y = x.exp()
    while x.sum() > 1:
        x = x * 0.5 - w
    return x, y


W = torch.eye(3) + 0.5


def test_kernels_are_told_where_an_input_is(cuda):
    made = started(lambda x, w: (torch.relu(x * 2 + 1), x.sum(0)), torch.ones(3, 3), W)
    fn = lambda x, w: (torch.relu(x * 2 + 1), x.sum(0))  # noqa: E731
    told = calls(made, fn, lambda k: [torch.rand(3, 3), W])
    assert made.pointers.moving == {0} and told[:3] == [0, 0, 0] and min(told[3:]) > 0
    assert (
        cuda.calls.count("cuGraphExecKernelNodeSetParams") == sum(told) + 1
    )  # one that tells nothing new
    held = {x.untyped_storage().data_ptr() for x in made._runner.memory.of.values()}
    assert made._runner.refresh.moving and len(held) > 0


def test_the_same_address_is_not_told_twice(cuda):
    fn = lambda x: (torch.relu(x * 2 + 1),)  # noqa: E731
    made = started(fn, torch.ones(3, 3))
    a, b = torch.rand(3, 3), torch.rand(3, 3)
    told = calls(made, fn, lambda k: [[a, b, a, a, a, b, b][k]], 7)
    assert told == [0, 0, 0, 0, 0, 1, 0]


def test_a_copy_into_the_state_of_a_loop_is_told(cuda):
    made = started(loop, torch.ones(3, 3), W * 0.01)
    told = calls(made, loop, lambda k: [torch.rand(3, 3) * 9, W * 0.01])
    assert 0 in made.pointers.moving and min(told[3:]) == 2
    assert "cuGraphExecMemcpyNodeSetParams" in cuda.calls


def test_what_a_body_or_a_library_function_reads_is_copied(cuda):
    made = started(layer, torch.ones(3, 3), W)
    calls(made, layer, lambda k: [torch.rand(3, 3), torch.rand(3, 3)])
    assert made.pointers.moving == frozenset()

    def inside(x, w):
        while x.sum() > 1:
            x = x * w * 0.5
        return (x,)

    made = started(inside, torch.ones(3, 3), W)
    calls(made, inside, lambda k: [torch.rand(3, 3) + 1, torch.rand(3, 3)])
    assert made.pointers.moving == {0}


def test_other_layouts_and_addresses_between_vectors(cuda):
    fn = lambda x: (torch.relu(x * 2 + 1),)  # noqa: E731
    made = started(fn, torch.ones(3, 3))

    def given(k):
        return [[torch.rand(3, 3), torch.rand(3, 3).t(), torch.rand(10)[1:].reshape(3, 3)][k % 3]]

    calls(made, fn, given, 9)
    assert made.pointers.moving == {0}


def test_an_input_that_moves_later_is_told_from_then_on(cuda):
    fn = lambda x, w: (torch.relu(x * 2 + w),)  # noqa: E731
    made = started(fn, torch.ones(3, 3), W)
    x = torch.rand(3, 3)
    calls(made, fn, lambda k: [x, W], 4)
    assert made.pointers.bound == {0, 1} and not made.pointers.moving
    calls(made, fn, lambda k: [torch.rand(3, 3), W], 3)
    assert made.pointers.bound == {1} and made.pointers.moving == {0}


def test_small_inputs_are_copied(cuda, monkeypatch):
    monkeypatch.setattr(refresh, "LARGE", 1 << 20)
    fn = lambda x: (torch.relu(x * 2 + 1),)  # noqa: E731
    made = started(fn, torch.ones(3, 3))
    assert calls(made, fn, lambda k: [torch.rand(3, 3)]) == [0] * 6


def test_bindings_that_have_functions_for_nodes_of_any_kind_only(cuda, monkeypatch):
    for name in ("cuGraphKernelNodeGetParams", "cuGraphMemcpyNodeGetParams"):
        monkeypatch.delattr(Cuda, name)
    fn = lambda x, w: (torch.relu(x * 2 + 1) @ w, x.t().clone())  # noqa: E731
    made = started(fn, torch.ones(3, 3), W)
    calls(made, fn, lambda k: [torch.rand(3, 3), W])
    assert made.pointers.moving == {0} and "cuGraphExecNodeSetParams" in cuda.calls
    assert "cuGraphExecKernelNodeSetParams" not in cuda.calls


def test_an_address_that_only_some_nodes_were_told_is_told_again(cuda, monkeypatch):
    """Where the second node refuses, the first one reads elsewhere already; the next call may be back at the address before."""
    made = started(loop, torch.ones(3, 3), W * 0.01)
    a, b, w = torch.rand(3, 3) * 9, torch.rand(3, 3), W * 0.01
    assert calls(made, loop, lambda k: [[b, a, a, b, a][k], w], 5)[-1] == 2
    tell, told = driver.Node.set, []

    def once(self, *given):
        told.append(given)
        if len(told) == 2:
            raise driver.DriverError("no")
        tell(self, *given)

    with monkeypatch.context() as refusing:
        refusing.setattr(driver.Node, "set", once)
        with pytest.warns(RuntimeWarning, match="op by op: DriverError: no"):
            assert made.run([b, w]) is None
    assert len(told) == 2
    assert calls(made, loop, lambda k: [a, w], 1) == [2]


def test_nodes_that_take_no_address_are_left_alone_from_the_start(cuda, monkeypatch):
    """So no call of the program fails."""
    monkeypatch.setattr(Cuda, "refuses", True)
    fn = lambda x: (torch.relu(x * 2 + 1),)  # noqa: E731
    made = started(fn, torch.ones(3, 3))
    assert calls(made, fn, lambda k: [torch.rand(3, 3)]) == [0] * 6
    assert made.pointers.moving == frozenset() and not cuda.capturing


@pytest.mark.parametrize("wrong", ["extra", "kind", "values"])
def test_nodes_that_are_not_as_expected_are_left_alone(cuda, monkeypatch, wrong):
    """Then the input is copied, as before."""
    if wrong == "extra":
        monkeypatch.setattr(Cuda, "extra", 1)
    elif wrong == "kind":
        monkeypatch.setattr(driver, "TYPE", "CU_GRAPH_NODE_")
    else:
        monkeypatch.setattr(refresh.images, "pack", lambda source, given: [])
    fn = lambda x: (torch.relu(x * 2 + 1),)  # noqa: E731
    made = started(fn, torch.ones(3, 3))
    assert calls(made, fn, lambda k: [torch.rand(3, 3)]) == [0] * 6
    assert made.pointers.moving == frozenset() and not cuda.capturing
    assert "cuGraphExecKernelNodeSetParams" not in cuda.calls


def test_a_graph_that_cannot_be_captured_again_leaves_the_call_to_the_host(cuda, monkeypatch):
    fn = lambda x: (torch.relu(x * 2 + 1),)  # noqa: E731
    made = started(fn, torch.ones(3, 3))

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(capture, "captured", full)
    assert all(made.run([torch.rand(3, 3)]) is not None for _ in range(2))
    keep = torch.rand(3, 3)
    with pytest.warns(RuntimeWarning, match="op by op: the graph cannot be captured again: CUDA out of memory"):  # fmt: skip
        assert made.run([keep]) is None
    assert made.run([keep]) is None and "captured again" in made.notes[-1]


def test_a_plan_whose_capture_has_no_node_for_an_input_says_so(cuda):
    plan = program.planner.plan(retarget(tg.function(lambda x: x * 2).get_concrete_function(torch.ones(3, 3)).value_graph, "cuda:0"))  # fmt: skip
    with pytest.raises(driver.DriverError, match="no node reads"):
        capture.Captured(plan, moving={object(): torch.ones(3)})


def test_unsupported_is_no_runtime_error():
    """What gives up a capture catches one and not the other."""
    assert not issubclass(Unsupported, RuntimeError) and issubclass(driver.DriverError, RuntimeError)  # fmt: skip
