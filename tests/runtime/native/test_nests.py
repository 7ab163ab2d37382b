"""Folds of few long rows, in parts for all threads, against eager PyTorch."""

import pytest
import torch

import tograph as tg
from tests.runtime.native.checks import compiled, r
from tograph.runtime.kernels import jit
from tograph.runtime.native import matmul, nests, threading

pytestmark = [
    pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite"),
    pytest.mark.skipif(not threading.available(), reason="needs threads that code can use"),
]


@pytest.fixture(autouse=True)
def short_rows_are_long(monkeypatch):
    """As if sizes that a test can afford were work for all threads."""
    monkeypatch.setattr(nests, "WORK_PER_THREAD", 16)
    monkeypatch.setattr(matmul, "LONG", 64)


def in_parts(f, *args):
    """Whether ``f`` folds in parts."""
    cf = compiled(f, *args, calls=4, equal_nan=True)
    return any(k.name.endswith("_parts") for k in cf.kernels)


FOLDS = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: (x * 2.0).mean(),
    "extremes": lambda x: (x.amax(), x.amin()),
    "places": lambda x: (x.argmax(), x.argmin()),
    "logic": lambda x: ((x > 3).any(), (x < 3).all()),
    "several": lambda x: (x.sum() + 1, x.exp().sum().log(), (x * x).sum().sqrt()),
}


@pytest.mark.parametrize("n", [1000, 1024, 4099])
@pytest.mark.parametrize("name", sorted(FOLDS))
def test_one_row(name, n):
    """Parts are equal; what they leave is one of its own, so that nothing behind the end is read."""
    cf = compiled(FOLDS[name], r(n), calls=4, equal_nan=True)
    names = {k.name.rpartition("_")[2] for k in cf.kernels}
    assert "parts" in names
    assert ("rest" in names) == (n == 4099)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.bool], ids=str)  # fmt: skip
def test_dtypes(dtype):
    assert in_parts(lambda x: (x.sum(), x.any()), r(3000, dtype=dtype))


def test_rows_and_columns():
    assert in_parts(lambda x: (x.sum(0), x.amax(0)), r(900, 5))
    assert in_parts(lambda x: x.sum(0), r(900, 32))
    assert in_parts(lambda x: x.sum(1), r(3, 900))
    assert in_parts(lambda x: x.sum(1), r(3, 901)[:, 1:])
    assert not in_parts(lambda x: x.sum(1), r(900, 8))  # rows enough


def test_the_first_of_equals_and_not_a_number():
    equal = torch.zeros(1000)
    assert in_parts(lambda x: (x.argmax(), x.argmin()), equal)
    equal[[300, 700]] = 1
    assert in_parts(lambda x: (x.argmax(), x.max(0)), equal)
    equal[[650, 900]] = float("nan")
    assert in_parts(lambda x: (x.argmax(), x.amax(), x.sum()), equal)


def test_a_dot_product():
    assert in_parts(torch.dot, r(3000), r(3000, seed=1))
    assert in_parts(torch.dot, r(3000, dtype=torch.float64), r(6000, dtype=torch.float64)[::2])


def test_in_a_loop():
    def descend(x, n):
        for _ in tg.range(n):
            x = x - 0.1 * x / (x * x).sum().sqrt()
            if x.abs().max() < 1:
                break
        return x, (x * x).sum()

    assert in_parts(descend, r(2000), torch.tensor(20))


def test_a_row_of_which_more_is_needed_after_the_fold():
    assert not in_parts(lambda x: torch.softmax(x, 0), r(1000))


@pytest.mark.parametrize("rows", [2049, 4096, 5001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_a_fold_over_rows_in_many_pages_is_one_of_parts(rows, dtype):
    x = (torch.randn(rows, 1030) * 5).to(dtype)

    def f(x):
        return (x * 3).sum(0), (x + 1).max(0)

    staged = tg.function(f)
    for _ in range(2):
        got = staged(x)
    total, (values, indices) = f(x)
    torch.testing.assert_close(got[0], total, rtol=1e-5, atol=1e-2)
    assert torch.equal(got[1].values, values) and torch.equal(got[1].indices, indices)
    (concrete,) = staged.concrete_functions
    parts = [k.loops for k in concrete.kernels if k.name.endswith("_parts")]
    assert parts and all(k.outer[0].size >= 8 and k.outer[1].size == 1030 for k in parts)
    assert "llvm.prefetch" in "".join(k.llvm for k in concrete.kernels)
