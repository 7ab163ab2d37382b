"""Results whose gradient the function itself has taken: whether they require one a run tells, and a second one raises."""

import pytest
import torch

import tograph as tg


def trained(x, n):
    loss, i = torch.tensor(100.0), 0
    while i < n:
        loss = (W * x).square().sum()
        loss.backward()
        i += 1
    return loss


def chosen(x, n):
    loss = x.sum()
    if n > 0:
        loss = (W * x).square().sum()
        loss.backward()
    return loss


def among_others(x, n):
    return trained(x, n), (V * x).sum(), trained(x, n - 1)


W, V = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))


@pytest.fixture(autouse=True)
def no_gradients():
    yield
    W.grad = V.grad = None


@pytest.mark.parametrize("f", [trained, chosen, among_others])
def test_a_run_that_takes_no_gradient_gives_what_requires_none(f):
    staged, x = tg.function(f), torch.ones(3)
    for n in (0, 1, 2, 0):
        want, got = f(x, torch.tensor(n)), staged(x, torch.tensor(n))
        for a, b in zip(*([y] if isinstance(y, torch.Tensor) else y for y in (want, got))):
            assert torch.equal(a, b)
            assert (a.requires_grad, a.is_leaf) == (b.requires_grad, b.is_leaf)


def test_a_second_gradient_raises_where_the_run_took_the_first():
    staged, x = tg.function(among_others), torch.ones(3)
    first, other, second = staged(x, torch.tensor(1))
    with pytest.raises(RuntimeError, match="a second time"):
        first.backward()
    assert not second.requires_grad
    other.backward()
    assert torch.equal(V.grad, x)


def with_history(x, n):
    loss = x.sum()
    if n > 0:
        H.mul_(W)
        loss = H.sum()
        loss.backward()
    return loss


def test_what_a_write_gave_a_history_requires_a_gradient():
    global H
    staged = tg.function(with_history)
    for f in (with_history, staged):
        H = torch.ones(3)
        assert f(torch.ones(3), torch.tensor(1)).requires_grad


H = torch.ones(3)
