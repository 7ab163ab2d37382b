"""Detached tensors that are written while gradients are on: one memory, two histories."""

import pytest
import torch

import tograph as tg


def straight(w, x, n):
    v = (w * x).detach()
    v.add_(w)
    return (v * w).sum()


def of_an_argument(w, x, n):
    v = x.detach()
    v += w
    return (v * x).sum() + x.sum()


def through_a_view(w, x, n):
    v = x.data
    v[0] = w[0]
    return (v * x).sum() + x.sum()


def each_written(w, x, n):
    y = w * x
    v = y.detach()
    v.add_(w)
    y.mul_(2)
    return (v * y).sum()


def in_a_branch(w, x, n):
    v = (w * x).detach()
    if n > 1:
        v.add_(w)
    v.mul_(3)
    return (v * w).sum()


def in_a_loop(w, x, n):
    y = w * x
    v = y.detach()
    for i in range(n):
        v.add_(w * i)
        if v.sum() > 4:
            v.mul_(w)
    return (v * y).sum()


def several(w, x, n):
    y = w * x
    a = y.detach()
    a.mul_(w)
    b = y.detach()
    if n > 1:
        b.add_(w)
    else:
        a.add_(w)
    y.mul_(w)
    return (a * b * y).sum()


def made_by_branches(w, x, n):
    y = w * x
    if n > 1:
        y.detach().mul_(w)
    if n < 1:
        y.detach()[0] = w[1]
    v = y.detach()
    v.add_(w)
    y.mul_(w)
    return (v * y).sum()


@pytest.mark.parametrize(
    "f",
    [straight, of_an_argument, through_a_view, each_written, in_a_branch, in_a_loop, several, made_by_branches],
    ids=lambda f: f.__name__,
)  # fmt: skip
@pytest.mark.parametrize("n", [0, 3])
def test_as_in_eager(f, n):
    def run(f, n):
        w, x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.ones(3)
        y = f(w, x, n)
        return y.detach(), *torch.autograd.grad(y, w, allow_unused=True), x

    found, wanted = run(tg.function(f), torch.tensor(n)), run(f, n)
    assert (found[1] is None) == (wanted[1] is None)
    torch.testing.assert_close(found, wanted)


def test_inside():
    def f(w, x):
        y = w * x
        v = y.detach()
        v.add_(w)
        return torch.autograd.grad((v * w).sum(), w)[0]

    w, x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.ones(3)
    torch.testing.assert_close(tg.function(f)(w, x), f(w, x))
