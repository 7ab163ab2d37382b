"""Padding, gradients of parts, and scatters of rows that a mask picks: native code asks torch for none of them."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")

MASKS = ([True, False, True], [False] * 3, [True] * 3)
PADS = [(1, 0), (3, 5), (-1, 0), (-1, -1), (-2, -2), (0, 0, 1, 0), (1, 1, 1, 1), (-1, 2)]


@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize("turned", [False, True])
def test_pads(pads, turned):
    def f(x, mask):
        return F.pad(x[mask] * 2, pads, value=1.5).cumsum(1)

    staged = tg.function(f)
    for mask in map(torch.tensor, MASKS):
        x = torch.randn(4, 3).t() if turned else torch.randn(3, 4)
        x, y = x.requires_grad_(), x.detach().clone().requires_grad_()
        expected, found = f(x, mask), staged(y, mask)
        expected.sum().backward()
        found.sum().backward()
        assert torch.equal(found, expected) and found.stride() == expected.stride()
        torch.testing.assert_close(y.grad, x.grad)


def test_pads_and_scatters_are_native():
    def f(x, mask, order):
        y = F.pad(x[mask].cumsum(1), (1, 0))[:, 1:]
        return torch.zeros_like(y).scatter_add(1, order[mask], y)

    staged = tg.function(f)
    order = torch.tensor([[0, 0, 3, 2], [1, 1, 1, 1], [3, 2, 1, 0]])
    for mask in map(torch.tensor, MASKS * 2):
        x = torch.randn(3, 4)
        torch.testing.assert_close(staged(x, mask, order), f(x, mask, order))
    native = staged.concrete_functions[0].scheduled.native
    assert [c.node.op for c in native.low.asked] == []


def test_gradients_of_parts():
    def f(x, w, mask):
        y = x[mask]
        z = y[:, 1:] * w - y[:, :-1]
        return z[:, 0] + z[..., -1] * y[:, 2] + z[:, ::2].sum(1)

    staged = tg.function(f)
    for mask in map(torch.tensor, MASKS):
        grads = []
        for g in (f, staged):
            x = torch.arange(12.0).reshape(3, 4).requires_grad_()
            w = torch.tensor(2.0, requires_grad=True)
            g(x, w, mask).sum().backward()
            grads.append((x.grad, w.grad))
        torch.testing.assert_close(*grads)


def test_more_positions_than_rows():
    """eager PyTorch's error, also behind calls that fit."""

    @tg.function
    def f(x, mask, order):
        return x.scatter_add(1, order[mask], torch.ones(9, 2)[: order.shape[0]][mask])

    x = torch.zeros(2, 3)
    order = torch.tensor([[0, 2]] * 4)
    few, many = (torch.tensor([k < n for k in range(4)]) for n in (2, 3))
    for _, mask in itertools.product(range(2), (few, many)):
        if mask is few:
            assert f(x, mask, order).tolist() == [[1, 0, 1]] * 2
        else:
            with pytest.raises(RuntimeError, match="Expected index"):
                f(x, mask, order)
