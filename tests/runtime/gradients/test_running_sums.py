"""Derivatives of running sums of as many rows as the run selects, one and none among them."""

import pytest
import torch

import tograph as tg


def rows(x, some):
    return x[some].cumsum(0).square()


def by_keywords(x, some):
    return torch.cumsum(input=x[some].float(), dim=-2, dtype=torch.float64).sin()


def along_an_axis(x, some):
    y = x[some] if some.any() else None
    return torch.cumsum(x[some], axis=0).cos() if y is None else y.cumsum(axis=0).sin()


def inside(x, some):
    return torch.autograd.grad(x[some].cumsum(0).pow(3).sum(), x, create_graph=True)[0]


@pytest.mark.parametrize("f", [rows, by_keywords, along_an_axis, inside])
def test_first_and_second_derivative(f):
    torch.manual_seed(0)
    staged = tg.function(f)
    for count in (3, 1, 2, 0, 1):
        x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
        some = torch.arange(3) < count
        found = []
        for g in (f, staged):
            (first,) = torch.autograd.grad(g(x, some).pow(2).sum(), x, create_graph=True)
            found.append([first, *torch.autograd.grad(first.pow(2).sum(), x)])
        torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)  # f32 sums in other orders
    assert staged.trace_count == 1


def test_of_a_known_size():
    @tg.function
    def f(x, c):
        y = x if c else None
        total = x.sum() if y is None else torch.cumsum(y, axis=0)
        return total, x.cumsum(axis=1), torch.cumsum(x, 0, dtype=torch.float64), x.cumsum(-1)

    x = torch.arange(6.0).reshape(2, 3)
    for c in (True, False):
        found = f(x, torch.tensor(c))
        expected = (
            x.cumsum(0) if c else x.sum(), x.cumsum(1), x.cumsum(0, dtype=torch.float64), x.cumsum(1),
        )  # fmt: skip
        torch.testing.assert_close(found, expected)
