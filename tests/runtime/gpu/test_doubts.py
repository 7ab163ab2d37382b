"""Calls that cannot fail, since the inputs that decide it have not changed, do not wait for the device."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tests.runtime.gpu.simulated import simulate
from tograph.errors import LateFailureError, OutOfRangeError
from tograph.runtime.gpu import planner
from tograph.runtime.gpu.doubts import Passed
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.gpu.storage import Failed
from tograph.runtime.graph.text import parse_graph
from tograph.runtime.kernels.loop_ir import ASSERTED

pytest.importorskip("triton")


def planned(fn, *args):
    return planner.plan(retarget(tg.function(fn).get_concrete_function(*args).value_graph, "cuda:0"))  # fmt: skip


def loss(x, w, target):
    return F.cross_entropy(torch.relu(x @ w), target)


def row(x, n, k):
    return x.sum(0) * x[int(n) // int(k)].exp()


def looped(x, n, k):
    while n > 0:
        n = n // k
        x = x @ x
    return x


def drawn(x, n, k):
    return x[int(torch.rand(3).sum() * int(n))] + k


NUMBERS = torch.tensor(7), torch.tensor(2)
DECIDING = {
    loss: ((2.0 * torch.eye(4), torch.tensor([0, 3, 1, 2])), {2}),
    row: (NUMBERS, {1, 2}),
    looped: (NUMBERS, {1, 2}),
    drawn: (NUMBERS, None),
}


@pytest.mark.parametrize("fn", DECIDING)
def test_the_inputs_that_decide(fn):
    given, deciding = DECIDING[fn]
    graph = tg.function(fn).get_concrete_function(torch.eye(4), *given).value_graph
    made = planner.plan(retarget(graph, "cuda:0"), whole=False)
    assert made.error is not None and made.doubts == deciding


@pytest.fixture
def waits(monkeypatch, interpreted):
    """How often the host has waited for what the device has computed."""
    seen, cpu = [], torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: seen.append(x) or cpu(x))
    return seen


def test_a_call_with_inputs_that_have_passed_does_not_wait(waits):
    x, w, target = torch.randn(4, 4), torch.eye(4), torch.tensor([0, 3, 1, 2])
    runner = Stepwise(planned(loss, x, w, target), "cpu")
    for k in range(3):
        (got,) = runner.run(x + k, w, target)
        torch.testing.assert_close(got, loss(x + k, w, target))
    assert len(waits) == 1
    runner.run(x, w, target.clone())
    runner.run(x, w, target)
    assert len(waits) == 3  # another tensor
    target[0] = 1
    runner.run(x, w, target)
    assert len(waits) == 4
    target[0] = 4
    for _ in range(2):
        with pytest.raises(Failed):
            runner.run(x, w, target)
    target[0] = 2
    torch.testing.assert_close(runner.run(x, w, target)[0], loss(x, w, target))
    assert len(waits) == 7


def test_what_was_written_unseen_is_found_later(waits):
    x, w, target = torch.randn(4, 4), torch.eye(4), torch.tensor([0, 3, 1, 2])
    runner = Stepwise(planned(loss, x, w, target), "cpu")
    runner.run(x, w, target)
    target.data[0] = 9
    runner.run(x, w, target)
    assert len(waits) == 1 and runner.memory.late() == ASSERTED and runner.memory.late() == 0
    with pytest.raises(Failed):
        runner.run(x, w, target)


def test_a_failure_that_comes_late_is_an_error_of_the_next_call(monkeypatch):
    simulate(monkeypatch)
    fn = tg.function(loss)
    x, w, target = torch.randn(4, 4), torch.eye(4), torch.tensor([0, 3, 1, 2])
    for _ in range(3):
        assert torch.allclose(fn(x, w, target), loss(x, w, target))
    target.data[0] = 9
    fn(x, w, target)
    with pytest.raises(LateFailureError, match="a call of loss before this one"):
        fn(x, w, target)
    with pytest.raises(OutOfRangeError, match=r"class number[\s\S]*test_doubts.py"):
        fn(x, w, target)  # torch's kernels would assert that, which ends the context
    target.data[0] = 1
    assert torch.allclose(fn(x, w, target), loss(x, w, target))


def test_every_number_that_has_passed_is_known(waits):
    """A gradient waits once for each number of trips, not whenever it changes."""

    def at(x, n):
        return x[n] * 2

    x = torch.randn(8)
    graph = parse_graph(AT.replace("DEVICE", "cuda:0"))
    runner = Stepwise(planner.plan(graph), "cpu")
    assert runner.plan.doubts == {1}
    for n in (3, 5, 3, 5, 7, 3):
        torch.testing.assert_close(runner.run(x, n)[0], at(x, n))
    assert len(waits) == 3
    with pytest.raises(Failed):
        runner.run(x, 8)
    torch.testing.assert_close(runner.run(x, 7)[0], at(x, 7))
    assert len(waits) == 4


AT = """
at(%x: f32[8]@DEVICE, %n: int) {
  %0: f32[]@DEVICE = aten.select.int(%x, 0, %n)
  %1: f32[]@DEVICE = aten.mul.Tensor(%0, 2)
  return %1
}
"""


def test_of_lists_the_lengths_decide():
    """Their memory is another one in each call."""
    plan = planner.plan(parse_graph(LAST.replace("DEVICE", "cuda:0")))
    assert plan.error is not None and plan.doubts == {1, 2}
    passed, found = Passed(plan.doubts), []
    for count, n in ((3, 1), (3, 2), (3, 1), (4, 1), (3, 2)):
        found.append(passed.known([torch.randn(256, 4), count, n]))
        passed.note()
    assert found == [False, False, True, False, True]


LAST = """
last(%xs: list<f32[4]@DEVICE>, %n: int) {
  %0: f32[4]@DEVICE = tg.list_get(%xs, %n)
  %1: f32[4]@DEVICE = aten.exp.default(%0)
  return %1
}
"""
