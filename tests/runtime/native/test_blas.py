"""Products that the BLAS of torch does: large ones, and those whose sizes the run finds large."""

import re

import pytest
import torch

import tograph as tg
from tests.runtime.native.checks import compiled, r
from tograph.runtime.kernels import jit
from tograph.runtime.native import blas, matmul
from tograph.runtime.native.fortran import routines

pytestmark = pytest.mark.skipif(jit.llvm is None or routines("f32", "gemm") is None, reason="needs llvmlite, and BLAS in torch's libraries")  # fmt: skip

DTYPES = [torch.float32, torch.float64]


@pytest.fixture
def eager(monkeypatch):
    """All products of at least eight rows are large."""
    monkeypatch.setattr(blas, "LARGE", 1)
    monkeypatch.setattr(blas, "SOME", 1)


def calls(cf) -> int:
    text = cf.scheduled.llvm
    return len(re.findall(r"call void @(whole\(ptr @)?[sd]gemm_(batch_)?_chunk", text))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("m", "n", "k"), [(8, 2, 1), (9, 33, 17), (64, 5, 40)])
def test_forms(m, n, k, dtype, eager):
    def products(a, b, bt, at):
        return a @ b + 1, a @ bt.t(), at.t() @ b, at.t() @ bt.t(), a[:, : k - k // 2] @ b[k // 2 :]

    args = r(m, k, dtype=dtype), r(k, n, dtype=dtype), r(n, k, dtype=dtype), r(k, m, dtype=dtype)
    assert calls(compiled(products, *args)) >= 4


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_added(dtype, eager):
    def products(a, b, row, column, table, one):
        turned = torch.addmm(table.t(), b.t(), a.t())
        return [torch.addmm(x, a, b) for x in (row, column, table, one)], turned.exp(), a + 1

    args = r(12, 7, dtype=dtype), r(7, 9, dtype=dtype)
    more = r(9, dtype=dtype), r(12, 1, dtype=dtype), r(12, 9, dtype=dtype), r(1, dtype=dtype)
    assert calls(compiled(products, *args, *more)) == 5


def test_a_sum_that_a_loop_carries(eager):
    def f(a, b, n):
        total, i = torch.zeros(16, 9), 0
        while i < n:
            total = total + a[i].t() @ b[i]
            i += 1
        return total

    assert calls(compiled(f, r(5, 8, 16), r(5, 8, 9), torch.tensor(5))) == 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_several_matrices(dtype, eager):
    def f(a, b, c):
        turned = torch.bmm(b.transpose(1, 2), a.transpose(1, 2))
        return torch.bmm(a, b) + 1, torch.baddbmm(c, a, b), turned * 2, a[:1] @ b

    args = r(3, 10, 8, dtype=dtype), r(3, 8, 9, dtype=dtype), r(3, 10, 9, dtype=dtype)
    assert calls(compiled(f, *args)) >= 4


def test_numbers_are_those_of_eager_pytorch():
    def f(a, w, b):
        return torch.relu(torch.addmm(b, a, w)), torch.relu(a.t() @ a)

    a, w, b = r(256, 900), r(900, 700), r(700)
    assert calls(cf := compiled(f, a, w, b, rtol=0, atol=0)) == 2
    assert "@product" not in cf.scheduled.llvm


def test_what_is_not_a_number_in_the_place_of_the_result_does_not_count(eager):
    """The memory of a result holds what an earlier call left there."""

    def f(a, b):
        return (a @ b).exp().sum(1) + (a @ b * 2)[:, 0]

    g, a, b = tg.function(f), r(16, 8), r(8, 8)
    g(a * float("nan"), b)
    torch.testing.assert_close(g(a, b), f(a, b))


def spec(*shape):
    return tg.TensorSpec(shape, torch.float32)


def sizes(*tensors):
    """A signature in which no size is known."""
    return [tg.TensorSpec((None,) * x.dim(), x.dtype) for x in tensors]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("f", [
    lambda a, b: (a @ b).relu() + 1, lambda a, b: (a.t().contiguous().t() @ b, a), lambda a, b: (b.t() @ a.t()) * 2,
    lambda a, b: torch.addmm(b[0], a, b) * 1, lambda a, b: (torch.addmm(a @ b, a, b), a + 1),
])  # fmt: skip
def test_sizes_of_the_run(f, dtype):
    g = None
    for n, k, m in [(3, 4, 5), (90, 40, 60), (1, 1, 1), (200, 3, 2), (2, 300, 50), (0, 4, 3), (3, 0, 4), (70, 80, 90)]:  # fmt: skip
        a, b = r(n, k, dtype=dtype), r(k, m, dtype=dtype)
        g = g or tg.function(f, input_signature=sizes(a, b))
        if k or f.__code__.co_names.count("addmm") == 0:
            torch.testing.assert_close(g(a, b), f(a, b))
    assert calls(g.concrete_functions[0]) >= 1


@pytest.mark.parametrize("shape", [(None, 6), (6, None)])
def test_one_size_of_the_run(shape, monkeypatch):
    """Both forms: the micro-kernel's, and that of BLAS from some size on."""
    monkeypatch.setattr(blas, "LARGE", 4 * 6 * (20 + 16))

    def f(x, w):
        return (x @ w if shape[0] is None else x.t() @ w[: x.shape[1]].t()[:16].t(), x + 1)

    w = r(6, 16)
    g = tg.function(f, input_signature=[spec(*shape), spec(6, 16)])
    for n in (1, 5, 6, 19, 20, 21, 64) if shape[0] is None else (6, 6):
        x = r(*(n if s is None else s for s in shape))
        torch.testing.assert_close(g(x, w), f(x, w))


def test_a_depth_of_the_run(monkeypatch):
    monkeypatch.setattr(blas, "LARGE", 4 * 30 * 20)

    def f(a, b, c):
        return torch.addmm(c, a.t(), b) * 2

    g = tg.function(f, input_signature=[spec(None, 12), spec(None, 8), spec(12, 8)])  # fmt: skip
    for n in (1, 7, 29, 30, 31, 100):
        args = r(n, 12), r(n, 8), r(12, 8)
        torch.testing.assert_close(g(*args), f(*args))
    assert calls(g.concrete_functions[0]) == 1


def test_a_size_that_two_do_not_share_is_an_error():
    g = tg.function(lambda a, b: (a @ b) + 1, input_signature=sizes(r(2, 2), r(2, 2)))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        g(r(60, 40), r(41, 60))


def test_rows_that_a_mask_leaves_out_stay_with_the_micro_kernels(eager):
    def f(x, keep, w):
        return torch.where(keep[:, None], x, 0.0) @ w

    x, w = r(512, 32), r(32, 16)
    assert calls(compiled(f, x, x[:, 0] > 0, w)) == 0


def test_few_rows_are_one_pass():
    def f(x, w, wt):
        return x @ w, x @ wt.t()

    args = r(7, 1024), r(1024, 1024), r(1024, 1024)
    assert calls(compiled(f, *args, rtol=1e-3, atol=1e-3)) == 0


@pytest.mark.parametrize("open_", [False, True])
def test_without_such_a_routine(open_, eager, monkeypatch):
    for module in (blas, matmul):
        monkeypatch.setattr(module, "routines", lambda *_: None)

    def f(a, b):
        return (a @ b) * 3

    a, b = r(16, 9), r(9, 16)
    g = tg.function(f, input_signature=sizes(a, b) if open_ else None)
    cf = g.get_concrete_function(*(() if open_ else (a, b)))
    cf.scheduled.compile()
    assert cf.scheduled.level == "native"
    torch.testing.assert_close(g(a, b), f(a, b))
    assert calls(cf) == 0


def test_a_stack_is_one_call(eager):
    def f(a, b, c):
        return torch.bmm(a, b), torch.baddbmm(c, a, b.mT.contiguous().mT)

    text = compiled(f, r(3, 10, 8), r(3, 8, 9), r(1, 1, 9)).scheduled.llvm
    assert "@sgemm_batch_(" in text
    assert "@sgemm_(" not in text
