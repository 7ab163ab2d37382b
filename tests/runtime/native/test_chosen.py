"""Elements that a mask chooses, in native code: their number is known only at run time."""

import pytest
import torch

import tograph as tg
from tests.runtime.native.checks import check
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def masks(x, n):
    t, total = 0, torch.zeros(6)
    while t < n:
        m = x[:, 0] > 0.3 * t
        y = x[m]
        total = total + y.sum(0) + x[:, x[0] > 0].sum() + x[x > 0].sum() * 2 + y.shape[0]
        total = (
            total
            + torch.masked_select(x, x < 0).abs().sum()
            - x.nonzero().sum()
            + (x[0] > 0).nonzero().squeeze(1).sum()
        )
        r, c = torch.where(x > 0.5)
        total = total + x[r, c].sum() * r.numel()
        t += 1
    return total, y


def empty(x, n):
    t, total = 0, torch.zeros(6)
    while t < n:
        y = x[x[:, 0] > 100]
        total = total + y.sum(0) + 1
        t += 1
    return total, y


def kept(x, n):
    """What is left becomes less from iteration to iteration."""
    i, total = x[:, 0].argsort(), 0
    while len(i) > 1:
        best, rest = i[0], i[1:]
        i = rest[(x[best] - x[rest]).abs().sum(1) > n]
        total += best
    return total, i


def written_out(x, n):
    t, out = 0, torch.zeros(7, 6)
    while t < n:
        found = (x > 0.2 * t).nonzero()
        out[: len(found), :2] += found[:7]
        t += 1 + (len(found) > 7) * 10
    return out


@pytest.mark.parametrize("f", [masks, empty, kept])
def test_values(f):
    check(f, ops=["aten.sort.default"])


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.float64])
def test_types(dtype):
    def f(x, n):
        y, t = (x * 2).to(dtype), 0
        while t < n:
            x = x + y[x > 0].sum() * 0.01 + y.nonzero().sum() * 0.01
            t += 1
        return x, y[x > 0]

    check(f)


def test_a_mask_of_another_size():
    def f(x, m, n):
        t = 0
        while t < n:
            x = x + x[m].sum()
            t += 1
        return x

    g, x, n = tg.function(f), torch.randn(4, 3), torch.tensor(2)
    torch.testing.assert_close(
        g(x, torch.ones(4, dtype=torch.bool), n), f(x, torch.ones(4, dtype=torch.bool), n)
    )
    with pytest.raises(IndexError):
        g(x, torch.ones(3, dtype=torch.bool), n)
