"""A forward part that runs again for a gradient draws what it drew, from whichever generator."""

import pytest
import torch

import tograph as tg

OWN = torch.Generator()


def _drawn(x, n, g):
    while n > 0:
        x = (x * 0.9 + torch.rand(4, generator=g) * x + torch.rand(4)).sin()
        n = n - 1
    return x.sum()


def _gradients(f, g):
    for each in (OWN, torch.default_generator):
        each.manual_seed(3)
    x = torch.linspace(-1, 1, 4).requires_grad_()
    y = f(x, torch.tensor(3), g)
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    torch.rand(3, generator=g)
    (second,) = torch.autograd.grad(first.sum(), x)
    return y, first, second


@pytest.mark.parametrize("g", [OWN, torch.default_generator], ids=["own", "default"])
def test_gradients_of_gradients_draw_the_same_numbers(g):
    f, states = tg.function(_drawn), []
    for _ in range(2):
        for found, plain in zip(_gradients(f, g), _gradients(_drawn, g), strict=True):
            torch.testing.assert_close(found, plain)
    for call in (f, _drawn):
        _gradients(call, g)
        states.append([each.get_state() for each in (OWN, torch.default_generator)])
    assert all(map(torch.equal, *states))
