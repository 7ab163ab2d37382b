"""Dual tensors of torch.autograd.forward_ad that a function makes: as eager PyTorch, through staged control flow."""

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call

import tograph as tg

D = torch.float64


def unpacked(y):
    return tuple(forward_ad.unpack_dual(y))


def straight(x, t):
    with forward_ad.dual_level():
        d = forward_ad.make_dual(x, t)
        return unpacked(d.sin() * 2 + d), unpacked(torch.cumsum(d, 0)), unpacked(d.detach())


def a_branch(x, t):
    with forward_ad.dual_level():
        d = forward_ad.make_dual(x, t)
        y = d.exp() if x.sum() > 0 else d * d
        return unpacked(y)


def a_loop(x, t):
    with forward_ad.dual_level():
        d = forward_ad.make_dual(x, t)
        while True:
            d = d * 1.5 + d.sin()
            if d.abs().sum() > 5:
                break
    return d


def loop_and_more(x, t):
    forward_ad.enter_dual_level()
    d, n = forward_ad.make_dual(x, t), 0
    while d.abs().sum() < 5:
        d = d * 1.5 + (d.sin() if n > 1 else d)
        n += 1
    found = unpacked(torch.where(d > 1, d * d, d.sin()))
    forward_ad.exit_dual_level()
    return found


def without_gradients(x, t):
    with torch.no_grad(), forward_ad.dual_level():
        d = forward_ad.make_dual(x, t)
        for _ in range(torch.tensor(2)):
            d = d * 1.1 if d.sum() > 0 else d.exp()
        return unpacked(d)


def without_gradients_in_a_branch(x, t):
    with torch.no_grad(), forward_ad.dual_level():
        d = forward_ad.make_dual(x, t)
        for _ in range(torch.tensor(2)):
            d = d * 1.1
        return unpacked(d.sin() if d.sum() > 0 else d * 3), unpacked(d)


def in_the_body(x, t):
    total = torch.zeros_like(x)
    with forward_ad.dual_level():
        for i in range(torch.tensor(3)):
            d = forward_ad.make_dual(x * (i + 1), t)
            total = total + unpacked(d.sin() * d)[1]
    return total


def level_in_the_body(x, t):
    total = torch.zeros_like(x)
    for _ in range(torch.tensor(3)):
        with forward_ad.dual_level():
            total = total + unpacked(forward_ad.make_dual(total + x, t) ** 2)[1]
    return total


def unpacked_in_a_branch(x, t):
    with forward_ad.dual_level():
        d = forward_ad.make_dual(x, t)
        if x.sum() > 0:
            r = unpacked(d.exp())[1] * 2
        else:
            r = unpacked(d)[1]
        return r, unpacked(d * d)


def columns(x, t):
    def step(d):
        while d.norm() < 3:
            d = d + 0.3 * d.tanh()
        return d

    found = []
    for j in range(3):
        with forward_ad.dual_level():
            e = torch.zeros_like(x)
            e[j] = 1.0
            found.append(unpacked(step(forward_ad.make_dual(x, e)))[1])
    return torch.stack(found, 1)


def handled(x, t):
    with forward_ad.dual_level():
        d = forward_ad.make_dual(x, t)
        try:
            if x.sum() > 0:
                raise ValueError("positive")
            y = d * 2
        except ValueError:
            y = d * d
        return unpacked(y)


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3).double()

    def forward(self, x):
        y = self.layer(x)
        while y.norm() < 2:
            y = y * 1.3 + self.layer(y).tanh()
        return y


torch.manual_seed(0)
MODEL = Growing()


def a_module(x, t):
    with forward_ad.dual_level():
        return unpacked(MODEL(forward_ad.make_dual(x, t)))


def parameters(x, t):
    with forward_ad.dual_level():
        p = {n: forward_ad.make_dual(w, torch.ones_like(w)) for n, w in MODEL.named_parameters()}
        return unpacked(functional_call(MODEL, p, (x,)))


PROGRAMS = [straight, a_branch, a_loop, loop_and_more, without_gradients, without_gradients_in_a_branch, in_the_body, level_in_the_body, unpacked_in_a_branch, columns,
            handled, a_module, parameters]  # fmt: skip


def arguments(sign, requires_grad):
    torch.manual_seed(0)
    x = sign * (torch.rand(3, dtype=D) + 0.1)
    return x.requires_grad_(requires_grad), torch.rand(3, dtype=D).requires_grad_(requires_grad)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("f", PROGRAMS)
def test_tangents(f, requires_grad):
    staged, found = tg.function(f), []
    for g in (f, staged):
        for sign in (1, -1):
            args = arguments(sign, requires_grad)
            made = torch.utils._pytree.tree_leaves(g(*args))
            graded = [y for y in made if y is not None and y.requires_grad]
            total = sum((y * y).sum() for y in graded)
            grads = torch.autograd.grad(total, args, allow_unused=True) if graded and requires_grad else ()  # fmt: skip
            found.append((made, [y is not None and y.requires_grad for y in made], grads))
    assert staged.trace_count == 1
    torch.testing.assert_close(found[2:], found[:2])


@pytest.mark.parametrize("f", [a_branch, loop_and_more])
def test_derivatives_of_tangents(f):
    assert torch.autograd.gradgradcheck(tg.function(f), arguments(1, True))


def test_a_zero_derivative_stays_zero_beside_infinity():
    def f(x, t):
        with forward_ad.dual_level():
            d = forward_ad.make_dual(x, t)
            return unpacked(d * 2 * torch.full((3,), torch.inf, dtype=D)), unpacked(d / (x * 0))

    args = arguments(1, False)
    torch.testing.assert_close(tg.function(f)(*args), f(*args))


def test_in_place():
    def f(x, t):
        with forward_ad.dual_level():
            d = forward_ad.make_dual(x, t) * 1
            d.mul_(d.sin())
            if x.sum() > 0:
                d.add_(d * d)
            d[0] = d[1] * d[2]
            return unpacked(d)

    for sign in (1, -1):
        args = arguments(sign, False)
        torch.testing.assert_close(tg.function(f)(*args), f(*args))


def test_tangents_that_a_graph_would_lose_are_refused():
    def made_in_a_branch(x, t):
        with forward_ad.dual_level():
            y = x * 2
            if x.sum() > 0:
                y = forward_ad.make_dual(x, t) * 2
            return unpacked(y)

    def unpacked_in_a_body(x, t):
        with forward_ad.dual_level():
            d, s = forward_ad.make_dual(x, t), x * 0
            for _ in range(torch.tensor(3)):
                d = d * d
                s = s + unpacked(d)[1]
        return s

    def listed(x, t):
        with forward_ad.dual_level():
            d = forward_ad.make_dual(x, t)
            xs = [d]
            for _ in range(torch.tensor(3)):
                d = d * 1.5
                xs.append(d)
            return unpacked(torch.stack(xs).sum(0))

    def python(x, t):
        with forward_ad.dual_level():
            d = forward_ad.make_dual(x, t)
            return unpacked(tg.py_function(torch.sin, [d], tg.TensorSpec([3], D)))

    args = arguments(1, False)
    for f, text in ((made_in_a_branch, "before the branch"), (unpacked_in_a_body, "carries dual"), (listed, "in a list"), (python, "py_function")):  # fmt: skip
        with pytest.raises(tg.errors.GradientError, match=text):
            tg.function(f)(*args)


def test_a_level_around_the_call_is_not_used_inside():
    f = tg.function(lambda x: unpacked(x * 2)[1])
    x, t = arguments(1, False)
    with forward_ad.dual_level():
        with pytest.raises(tg.errors.GradientError, match="open it inside"):
            f(forward_ad.make_dual(x, t))
