"""Products of matrices whose number of rows only the run knows, in native code."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def plain(x, w, b):
    return x @ w


def turned(x, w, b):
    return x @ w.t().contiguous().t()


def linear(x, w, b):
    return F.linear(x, w.t(), b)


def batch_of_one(x, w, b):
    return F.linear(x[None], w.t(), b)[0]


def row_of_biases(x, w, b):
    return torch.addmm(b[None], x, w)


def left_by_columns(x, w, b):
    return x.t().contiguous().t() @ w


def growing(case):
    def f(x, w, b, n):
        i, total = 0, torch.zeros_like(b)
        out = case(x, w, b)
        while i < n:
            x = torch.cat([x, x[:1] * 0.5])
            out = case(x, w, b)
            total = total * 0.5 + out.sum(0)
            i += 1
        return out * 1, total

    return f


CASES = [plain, turned, linear, batch_of_one, row_of_biases, left_by_columns]


SHAPES = [(1, 5, 64), (7, 33, 20), (60, 160, 130)]
TYPES = [torch.float32, torch.float64]


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("k", range(len(CASES)))
def test_values(k, shape):
    """Each case with each shape, each of these with both types."""
    case, dtype = CASES[k], TYPES[(k + shape) % 2]
    rows, depth, columns = SHAPES[shape]
    x, w, b = (torch.randn(s, dtype=dtype) for s in ((rows, depth), (depth, columns), (columns,)))
    f, plain = tg.function(growing(case)), growing(case)
    for n in (1, 3, 13):
        args = x, w, b, torch.tensor(n)
        torch.testing.assert_close(f(*args), plain(*args), rtol=1e-4, atol=1e-4)
    scheduled = f.get_concrete_function(x, w, b, torch.tensor(3)).scheduled
    assert scheduled.level == "native", scheduled.reason
    assert not scheduled.declined


def test_no_rows_and_rows_that_are_left_out():
    def f(x, w, n):
        i, total = 0, w.sum(0)
        while i < n:
            total = total * 0.5 + (x[:i] @ w).sum(0) + (x[i:] @ w).sum(0)
            i += 1
        return total

    g, x, w = tg.function(f), torch.randn(70, 16), torch.randn(16, 32)
    for n in (0, 5, 71):
        torch.testing.assert_close(g(x, w, torch.tensor(n)), f(x, w, n), rtol=1e-4, atol=1e-4)
    assert g.get_concrete_function(x, w, torch.tensor(3)).scheduled.level == "native"


def test_matrices_that_do_not_fit_raise():
    def f(x, w, n):
        i, total = 0, w.sum()
        while i < n:
            total = total + (x[:, i:] @ w[1:]).sum()
            i += 1
        return total

    g, x, w = tg.function(f), torch.randn(70, 16), torch.randn(16, 32)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        g(x, w, torch.tensor(3))


def test_a_copy_of_the_weight_is_made_where_rows_pay_for_it():
    w, b = torch.randn(40, 70), torch.randn(40)

    def f(x):
        return F.linear(x, w, b)

    g = tg.function(f, reduce_retracing=True)
    for n in (3, 4, 1, 15, 16, 17, 90, 0):
        x = torch.randn(n, 70)
        torch.testing.assert_close(g(x), f(x), rtol=1e-4, atol=1e-4)
    assert g.concrete_functions[-1].scheduled.level == "native"
