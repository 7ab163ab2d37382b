"""``.grad`` lies in memory as its leaf does, also where a run decides how the gradient does that comes to it."""

import pytest
import torch
from torch import nn

import tograph as tg


def passed_on(x, c):
    h = x
    if c > 0:
        h = h * 2
    h.sum().backward()
    return x.grad


def of_iterations(x, c):
    h = x
    for _ in range(c):
        h = h.sin()
    (h * 1).sum().backward()
    return x.grad


def in_a_branch(x, c):
    if c > 0:
        x.sum().backward()
    else:
        passed_on(x, x.sum() - 1e9)
    return x.grad


def turned(x, c):
    h = x
    if c > 0:
        h = h.tanh()
    h = NORM(h.transpose(0, 1)).transpose(0, 1)
    (g,) = torch.autograd.grad((h**3).sum(), x, create_graph=True)
    (g**2).sum().backward()
    return x.grad


NORM = nn.LayerNorm(3, dtype=torch.float64)


@pytest.mark.parametrize("f", [passed_on, of_iterations, in_a_branch, turned])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_strides(f, order):
    staged = tg.function(f)
    value = torch.randn(3, 3, dtype=torch.float64)
    for c in (-1, 1):
        leaves = [value.clone().permute(order).requires_grad_() for _ in range(2)]
        want, got = f(leaves[0], torch.tensor(c)), staged(leaves[1], torch.tensor(c))
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()
        passed_on(leaves[1], torch.tensor(0))  # another one is added to it
