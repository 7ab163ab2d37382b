"""Calls that cannot fail, since the inputs that decide it have not changed, do not wait for the device."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tests.runtime.gpu.simulated import simulate
from tograph.errors import LateFailureError, OutOfRangeError
from tograph.runtime.gpu import planner
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.gpu.storage import Failed
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
