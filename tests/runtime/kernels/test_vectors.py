"""Every other element, read and written by vectors: parts of complex numbers, steps of two, pairs that are stacked."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")

DTYPES = [torch.float32, torch.float64, torch.int32, torch.int64, torch.float16, torch.int8]


def both(f, *args):
    g = tg.function(f)
    cf = g.get_concrete_function(*args)
    cf.scheduled.compile()
    assert cf.scheduled.level == "native", cf.scheduled.reason
    for _ in range(2):
        for got, want in zip(g(*args), f(*args), strict=True):
            assert torch.equal(got, want)
            assert got.stride() == want.stride()
    return cf.scheduled.llvm


def programs(x):
    a, b = x[::2], x[1::2]
    y = torch.stack([a + 1, b * 2], -1)
    z = torch.zeros_like(x)
    z[1::2] = a - b
    return a + b, y, z, x.view(-1, 2).sum(1, dtype=x.dtype), x.flip(0)[::2] + a


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [600, 1024, 1090, 1918])
def test_steps_of_two(n, dtype):
    x = torch.randint(-50, 50, (n,)).to(dtype)
    both(programs, x)


def test_vectors_are_shuffled():
    text = both(lambda x: (x[::2] * 3, x[1::2] + 1), torch.randn(4000))
    assert "i32 0, i32 2, i32 4, i32 6" in text
    text = both(lambda x: (torch.stack([x + 1, x * 2], -1),), torch.randn(4000))
    assert "i1 true, i1 false, i1 true, i1 false" in text


def test_columns_of_pairs():
    def f(x):
        return x[:, 0] * x[:, 1], x[..., 1] - x[..., 0] * 2

    both(f, torch.randn(1000, 2))
    both(lambda x: (x[:, ::2].cos(), x[:, 1::2].sum(0)), torch.randint(0, 9, (33, 600)).double())
