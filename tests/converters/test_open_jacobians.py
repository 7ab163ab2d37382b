"""Jacobians of results whose number of elements only the run knows."""

import pytest
import torch

import tograph as tg

X = torch.arange(4.0) - 0.5


def appended(x, n):
    rows = []
    for i in range(4):
        if x[i] > n:
            rows.append(x[i] * x[0])
    return torch.stack(rows)


def selected(x, n):
    return x[x > n].sin() * x[0]


@pytest.mark.parametrize("transform", [torch.func.jacrev, torch.func.jacfwd, torch.func.hessian])
@pytest.mark.parametrize("g", [appended, selected])
def test_as_in_eager(g, transform):
    def f(x, n):
        return transform(lambda x: g(x, n))(x)

    staged = tg.function(f)
    for n in (-1.0, 1.0):
        torch.testing.assert_close(staged(X, torch.tensor(n)), f(X, torch.tensor(n)))


def test_without_elements_and_differentiated_outside():
    def f(x, n):
        return torch.func.jacrev(lambda x: selected(x, n))(x)

    found = []
    for g in (f, tg.function(f)):
        x = X.clone().requires_grad_()
        rows = g(x, torch.tensor(0.6))
        (rows * rows).sum().backward()
        found.append((rows, x.grad, g(X, torch.tensor(9.0))))
    torch.testing.assert_close(*found)
