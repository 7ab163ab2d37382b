"""Gradients taken inside that would go on into what an argument was computed from outside of the function."""

import pytest
import torch

import tograph as tg
from tograph.errors import GradientError


def test_backward_into_the_history_of_an_argument():
    encoder, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)

    @tg.function
    def step(h):
        loss = head(h).sum()
        loss.backward()
        return loss

    leaf = torch.ones(1, 2, requires_grad=True)
    step(leaf)
    assert leaf.grad is not None
    with pytest.raises(
        GradientError, match="what argument 'h' was computed from outside"
    ) as caught:
        step(encoder(torch.ones(1, 2)))
    assert "loss.backward()" in str(caught.value)
    step(encoder(torch.ones(1, 2)).detach())
    assert encoder.weight.grad is None


def test_a_gradient_by_way_of_an_argument():
    @tg.function
    def slope(x, u, c):
        y = (x * u).sum()
        if c > 0:
            y = y * 2
        return torch.autograd.grad(y, x)[0]

    x, w, c = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True), torch.tensor(1)
    for _ in range(2):
        assert slope(x, w * 3, c).tolist() == [6, 6]
    for u in (x * 3, x.exp().sum() * w, x.view(2)):
        with pytest.raises(GradientError, match="by way of argument 'u'"):
            slope(x, u, c)
    assert slope(x, w * 3, c).tolist() == [6, 6] and slope.trace_count == 1
    y = x * 2  # no leaf, and the other argument is computed from it
    assert slope(y, w, c).tolist() == [2, 2]
    with pytest.raises(GradientError, match="by way of argument 'u'"):
        slope(y, y.sin(), c)


def test_a_gradient_of_a_captured_tensor_by_way_of_an_argument():
    w = torch.ones(2, requires_grad=True)

    @tg.function
    def f(h):
        return torch.autograd.grad((h * w).sum(), w)[0]

    assert f(torch.ones(2)).tolist() == [1, 1]
    with pytest.raises(GradientError, match="by way of argument 'h'"):
        f(w * 2)


def test_what_is_detached_from_an_argument_has_no_history():
    @tg.function
    def attack(h):
        x = h.detach().requires_grad_()
        (x * x).sum().backward()
        [g] = torch.autograd.grad((x * h).sum(), x)
        return h - 0.1 * x.grad, g

    w = torch.ones(2, requires_grad=True)
    for h in (w, w * 3):
        moved, g = attack(h)
        torch.testing.assert_close(moved, h * 0.8)
        assert g.tolist() == h.tolist()
        torch.autograd.grad(moved.sum(), w)


def test_hooks_of_an_argument():
    calls, times = [], {k: lambda g, k=k: g * k for k in (3, 5)}

    def f(x):
        [g] = torch.autograd.grad((x * x).sum(), x, create_graph=True)
        if x.is_leaf:
            (x * 2).sum().backward()
        return g

    def raised(p):
        p.grad.add_(1)

    def found(f, x, *factors):
        for k in factors:
            x.register_hook(times[k])
        if x.is_leaf:
            x.register_post_accumulate_grad_hook(raised)
        g = f(x)
        return g, torch.autograd.grad(g.sum(), x)[0], x.grad if x.is_leaf else None

    for scale in (None, 2.0):
        staged = tg.function(f)
        for factors in ((), (3,), (3, 5, 3), ()):
            for g in (f, staged):
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                calls.append(found(g, x if scale is None else x * scale, *factors))
            torch.testing.assert_close(calls[-1], calls[-2])


def test_an_argument_with_a_history_requires_a_gradient_where_gradients_are_off():
    def f(x):
        y = x * 2
        return x.requires_grad, x.is_leaf, y.requires_grad

    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        for a in (x, x.detach()):
            assert tg.function(f)(a) == f(a)
    y, staged = x * 2, tg.function(f)
    with torch.no_grad():
        assert staged(y) == f(y) == (True, False, False)
    assert staged(y) == f(y) == (True, False, True)
