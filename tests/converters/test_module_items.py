"""Modules of a ``torch.nn.Sequential`` by their index, in staged branches and loops too."""

import pytest
import torch
from torch import nn

import tograph as tg


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))


X = torch.tensor([[0.5, -1.0, 2.0]])


def test_in_staged_branches_and_loops():
    m = layers()

    def f(x):
        weight = m[0].weight
        if x.sum() > 0:
            x, weight = m[0](x), m[-1].weight.detach().clone()
        while x.abs().sum() < 5:
            x = m[1](m[2](x)) + x * 2
        return x, weight

    converted = tg.function(f)
    for x in (X, -X, X * 9, X):
        torch.testing.assert_close(converted(x), f(x))
    m[0], m[2] = nn.Linear(3, 3), nn.Linear(3, 3)
    torch.testing.assert_close(converted(X), f(X))


def test_the_gradient_and_a_write_there():
    def made(m):
        def f(x):
            loss = m(x).pow(2).sum()
            if loss > 0:
                (g,) = torch.autograd.grad(loss, m[0].weight)
                with torch.no_grad():
                    m[0].weight -= 0.1 * g
            return loss.detach()

        return f

    plain, converted = layers(), layers()
    f, g = made(plain), tg.function(made(converted))
    for _ in range(3):
        torch.testing.assert_close(g(X), f(X))
    torch.testing.assert_close(list(converted.parameters()), list(plain.parameters()))


def test_an_index_out_of_range_fails_where_the_branch_runs():
    m = layers()

    @tg.function
    def f(x):
        if x.sum() > 0:
            x = m[7](x)
        return x

    assert torch.equal(f(-X), -X)
    with pytest.raises(IndexError, match="out of range"):
        f(X)
