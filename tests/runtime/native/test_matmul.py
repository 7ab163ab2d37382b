"""Products of all forms and odd sizes as generated code, against torch in f64."""

import dataclasses

import pytest
import torch

import tograph as tg
from tests.runtime.native.checks import compiled
from tograph.runtime.kernels import jit
from tograph.runtime.native import code, micro_kernels, threading, tiling

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")

SIZES = [(1, 1, 1), (1, 17, 5), (3, 1, 7), (5, 16, 1), (7, 31, 33), (8, 48, 16), (9, 49, 17), (13, 100, 65), (33, 130, 3), (64, 64, 64)]  # fmt: skip


def check(f, *args):
    staged = tg.function(f)
    cf = staged.get_concrete_function(*args)
    cf.scheduled.compile()
    assert cf.scheduled.level == "native", cf.scheduled.reason
    want = f(*(x.double() for x in args))
    for _ in range(2):
        got = staged(*args)
        assert got.dtype == args[0].dtype
        assert got.shape == want.shape
        scale = 1e-5 if got.dtype == torch.float32 else 1e-13
        bound = scale * (1 + want.abs().max())
        assert bool(((got.double() - want).abs() <= bound).all())
    return cf.scheduled.llvm


def r(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64).to(dtype)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_forms(m, n, k, dtype):
    def products(a, b, bt, at):
        return a @ b + a @ bt.t() - at.t() @ b + at.t() @ bt.t()

    check(products, r(m, k, dtype=dtype), r(k, n, dtype=dtype, seed=1), r(n, k, dtype=dtype, seed=2), r(k, m, dtype=dtype, seed=3))  # fmt: skip


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("m", "n"), [(9, 33), (16, 96), (150, 20)])
def test_a_long_shared_dimension_is_taken_in_pieces(m, n, threads, monkeypatch):
    monkeypatch.setattr(threading, "PRODUCT", 1)
    monkeypatch.setattr(micro_kernels, "LONG", 40)
    monkeypatch.setattr(micro_kernels, "DEPTH", 16)

    def products(a, b, at, c):
        return a @ b + torch.addmm(c, at.t(), b)

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        llvm = check(products, r(m, 77), r(77, n), r(77, m), r(n))
    finally:
        torch.set_num_threads(before)
    assert "%K = add i64 77, 0" in llvm


@pytest.mark.parametrize("in_place", [False, True])
def test_what_is_added_to_a_product_in_pieces_is_added_to_the_whole_sum(in_place):
    """Each term is less than half of what tells numbers next to a large one apart."""

    def added(c, a, b):
        return c.clone().add_(a @ b) if in_place else c + a @ b

    compiled(added, torch.full((16, 16), 1e8), torch.ones(16, 2048), torch.ones(2048, 16), rtol=0, atol=0)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("m", "n"), [(9, 33), (16, 96), (300, 20)])
def test_what_a_loop_adds_up_is_taken_in_pieces(m, n, threads, dtype, monkeypatch):
    monkeypatch.setattr(threading, "PRODUCT", 1)
    monkeypatch.setattr(micro_kernels, "LONG", 40)
    monkeypatch.setattr(micro_kernels, "DEPTH", 16)

    def gradient(c, x, g, steps):
        while steps > 0:
            c = c + x.t() @ g
            g = g * 0.5
            steps = steps - 1
        return c

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        llvm = check(gradient, r(m, n, dtype=dtype), r(77, m, dtype=dtype), r(77, n, dtype=dtype), torch.tensor(3))  # fmt: skip
    finally:
        torch.set_num_threads(before)
    assert "%K = add i64 77, 0" in llvm


def test_each_product_that_a_loop_adds_up_is_rounded_once():
    """Each term is less than half of what tells numbers next to a large one apart."""

    def added(c, a, b, steps):
        while steps > 0:
            c = c + a.t() @ b
            steps = steps - 1
        return c

    compiled(added, torch.full((16, 16), 1e8), torch.ones(2048, 16), torch.ones(2048, 16), torch.tensor(3), rtol=0, atol=0)  # fmt: skip


@pytest.mark.parametrize("shape", [(33,), (1, 33), (7, 33), (7, 1), (1,), ()])
@pytest.mark.parametrize("turned", [False, True])
def test_what_is_added(shape, turned):
    def product(c, a, b):
        return torch.addmm(c, a, b.t() if turned else b)

    check(product, r(*shape), r(7, 20), r(33, 20) if turned else r(20, 33))


@pytest.mark.parametrize("shape", [(20, 1), (1, 1), (1,), ()])
def test_what_is_added_to_a_column(shape):
    check(lambda c, a, b: torch.addmm(c, a.t(), b), r(*shape), r(7, 20), r(7, 1))


def test_vectors_and_batches():
    check(lambda a, v: a @ v, r(19, 35), r(35))
    check(lambda v, a: v @ a, r(19), r(19, 35))
    check(lambda a, v: a.t() @ v, r(19, 35), r(19))
    check(lambda a, v: a.t() @ v[:, None], r(600, 35), r(600))
    check(lambda a, b: torch.bmm(a, b) * 1, r(3, 7, 9), r(3, 9, 21))
    # matrices of a batch that are not whole matrices apart: heads of attention, slices, one matrix for all
    check(
        lambda x: torch.bmm(x.view(6, 4, 5).transpose(0, 1), x.view(6, 4, 5).transpose(0, 1).mT),
        r(6, 2, 10),
    )
    check(lambda a, b: torch.bmm((a * 2)[:, :3], b[:, :, 1:4]) + 1, r(4, 6, 5), r(4, 5, 7))
    check(lambda a, b: torch.bmm((a + 1)[::2], (b * 2)[None].expand(2, 5, 3)), r(4, 6, 5), r(5, 3))
    check(lambda a, b: torch.bmm(a.transpose(0, 1), b.permute(1, 2, 0)), r(9, 3, 7), r(21, 3, 7))
    check(lambda a, b: torch.bmm(a.mT, b.mT) * 2, r(3, 9, 8), r(3, 7, 9))
    check(lambda c, a, b: torch.baddbmm(c, a, b), r(3, 1, 21), r(3, 7, 9), r(3, 9, 21))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("k", "n"), [(1, 3000), (7, 2999), (8, 1024), (9, 1025), (23, 2051), (40, 17)])  # fmt: skip
def test_one_row_times_a_matrix_beyond_the_cache(k, n, dtype, monkeypatch):
    monkeypatch.setattr(micro_kernels, "FAR", 0)
    row, b, c = r(1, k, dtype=dtype), r(k, n, dtype=dtype), r(n, dtype=dtype)
    check(lambda x, b: x @ b, row, b)
    check(lambda c, x, b: torch.addmm(c, x, b), c, row, b)
    check(lambda c, x, b: torch.addmm(c, x, b), r(1, 1, dtype=dtype), row, b)


def test_products_on_all_threads(monkeypatch):
    monkeypatch.setattr(threading, "PRODUCT", 1)
    text = check(lambda a, b: a @ b @ b.t(), r(40, 70), r(70, 200))
    assert ("@spread(" in text) == threading.available()
    check(lambda a, b: a @ b, r(1, 3000), r(3000, 2000))


def test_equal_products_are_one_function():
    def steps(h, w, v):
        for _ in range(4):
            h = torch.tanh(h @ w) @ v
        return h

    assert check(steps, r(9, 12), r(12, 12), r(12, 12)).count("define internal void @product") == 1


def test_not_a_number_and_infinities():
    a = torch.tensor([[float("inf"), 1.0, 0.0], [0.0, float("nan"), 1.0], [1.0, 2.0, 3.0]])
    b = torch.ones(3, 20)
    f = tg.function(lambda a, b: a @ b)
    for _ in range(3):
        got = f(a, b)
    assert torch.equal(got.isnan(), (a @ b).isnan())
    assert torch.equal(got.isinf(), (a @ b).isinf())
    assert torch.equal(got[2], torch.full((20,), 6.0))


@pytest.mark.parametrize("product", [torch.mm, torch.mv, torch.dot, torch.bmm])
def test_factors_of_several_dtypes_are_an_error_where_they_are_multiplied(product):
    @tg.function
    def f(x, y, wrong):
        return product(x, y) if wrong else product(x, x if x.dim() != 2 or y.dim() == 2 else x[0])

    rank = {"mm": (2, 2), "mv": (2, 1), "dot": (1, 1), "bmm": (3, 3)}[product.__name__]
    x, y = torch.ones((3,) * rank[0]), torch.ones((3,) * rank[1], dtype=torch.int64)
    for _ in range(2):  # the first call runs before anything is compiled
        assert torch.equal(f(x, y, torch.tensor(False)), f.python_function(x, y, False))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="dtype|same type|scalar type"):
            f(x, y, torch.tensor(True))


@pytest.mark.parametrize("avx512", [True, False])
def test_a_tile_fits_the_registers(avx512, monkeypatch):
    """Of 16 registers a step takes those of the tile, one for each of its vectors of columns, and one for the element of a row."""
    monkeypatch.setattr(tiling, "host", lambda: dataclasses.replace(jit.host(), avx512=avx512))
    for rows in range(1, 40):
        for vectors in range(1, 20):
            high, wide = tiling.tile(rows, vectors, False)
            assert 1 <= high <= rows
            assert 1 <= wide <= vectors
            assert (
                high * wide <= 24 if avx512 else (high + 1) * wide < 16 or rows == 1 and wide <= 12
            )
    assert tiling.tile(64, 48, False) == ((8, 3) if avx512 else (6, 2))


@pytest.mark.parametrize("avx512", [True, False])
@pytest.mark.parametrize(("m", "n", "k"), [(7, 33, 31), (20, 65, 40), (32, 48, 64)])
def test_tiles_of_both_kinds_of_hosts(m, n, k, avx512, monkeypatch):
    for module in (tiling, micro_kernels):
        monkeypatch.setattr(module, "host", lambda: dataclasses.replace(jit.host(), avx512=avx512))

    def products(a, b, bt):
        return torch.tanh(a @ b) + a @ bt.t()

    check(products, r(m, k), r(k, n, seed=1), r(n, k, seed=2))


@pytest.mark.parametrize("dim", [None, (), 0, (0,)])
def test_a_sum_of_rows_in_a_branch(dim):
    def f(x, n):
        total = x[0] * 0 if dim == 0 or dim == (0,) else x[0, 0] * 0
        while n > 0:
            if x[0, 0] < 9:
                total = total + (x * n).sum(dim=dim)
            n = n - 1
        return total

    x = r(5, 3)
    torch.testing.assert_close(tg.function(f)(x, torch.tensor(3)), f(x, 3))


def test_tiles_of_which_there_are_few_are_not_unrolled():
    """A last column of tiles is a sixteenth of the work, and took LLVM as long as all others."""
    width = jit.host().vector_bytes // 4
    text = check(lambda a, b: a @ b, r(32, 16), r(16, 48 * width + 1))
    steps = [t for t in text.splitlines() if "label %along" in t and "!llvm.loop" in t]
    kept = [t for t in steps if t.endswith(code.KEPT)]
    assert 0 < len(kept) < len(steps)
