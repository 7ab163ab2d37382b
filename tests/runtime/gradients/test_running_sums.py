"""Derivatives of running sums of as many rows as the run selects, one and none among them."""

import pytest
import torch

import tograph as tg


def rows(x, some):
    return x[some].cumsum(0).square()


def by_keywords(x, some):
    return torch.cumsum(input=x[some].float(), dim=-2, dtype=torch.float64).sin()


def inside(x, some):
    return torch.autograd.grad(x[some].cumsum(0).pow(3).sum(), x, create_graph=True)[0]


@pytest.mark.parametrize("f", [rows, by_keywords, inside])
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
