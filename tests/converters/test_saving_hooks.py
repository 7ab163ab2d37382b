"""Hooks of what autograd saves, inside of a function: derivatives of a gradient that goes through them."""

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

import tograph as tg


def copied(x):
    with saved_tensors_hooks(lambda t: t * 1.0, lambda t: t):
        y = (x**3).sum() + (x.exp() * x).sum()
    return torch.autograd.grad(y, x, create_graph=True)[0]


def as_it_is(x):
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = (x**3).sum() + (x.exp() * x).sum()
    return torch.autograd.grad(y, x, create_graph=True)[0]


def moved(x):
    with save_on_cpu():
        y = ((x @ x.sin()) ** 3).sum()
    return torch.autograd.grad(y, x, create_graph=True)[0]


def lossy(x):
    with saved_tensors_hooks(lambda t: t.to(torch.float32), lambda t: t.to(torch.float64)):
        y = (x**3).sum() + (x.sin() * x).sum()
    g = torch.autograd.grad(y, x, create_graph=True)[0]
    if x.sum() > 0:
        g = torch.autograd.grad(g.sum(), x, create_graph=True)[0]
    return g


@pytest.mark.parametrize("f", [copied, as_it_is, moved, lossy])
def test_derivatives_outside(f):
    found = []
    for g in (f, tg.function(f)):
        x = torch.tensor([0.3, 0.5], dtype=torch.float64, requires_grad=True)
        y = g(x)
        found.append((y, *torch.autograd.grad(y.sin().sum(), x)))
    torch.testing.assert_close(*found, atol=1e-6, rtol=1e-6)


def around_a_branch(x):
    with saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        y = x * x
        if x.sum() > 0:
            y = y * y
    return torch.autograd.grad(y.sum(), x)[0]


def in_a_branch(x):
    y = x
    if x.sum() > 0:
        with saved_tensors_hooks(lambda t: t * 2, lambda t: t):
            y = x * x
    return torch.autograd.grad(y.sum(), x)[0]


@pytest.mark.parametrize("f", [around_a_branch, in_a_branch])
def test_what_a_branch_saves_for_hooks_is_refused(f):
    with pytest.raises(tg.errors.GradientError, match="saved_tensors_hooks"):
        tg.function(f)(torch.ones(2, requires_grad=True))


def test_a_branch_that_saves_nothing_may_stand_under_hooks():
    def f(x):
        with saved_tensors_hooks(lambda t: t * 2, lambda t: t):
            y = x * x
            if x.sum() > 0:
                y = y + 1
        return torch.autograd.grad(y.sum(), x)[0]

    x = torch.ones(2, requires_grad=True)
    torch.testing.assert_close(tg.function(f)(x), f(x))
