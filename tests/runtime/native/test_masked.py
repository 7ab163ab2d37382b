"""Products that leave out rows of zeros give what the whole products give, with infinities and NaN."""

import pytest
import torch

from tests.runtime.native import checks
from tests.runtime.native.checks import r
from tograph.runtime.kernels import jit
from tograph.runtime.native import joined, micro_kernels, threading

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")

INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def small_products_count(monkeypatch):
    """As if sizes that a test can afford were large."""
    monkeypatch.setattr(joined, "LEAST", 1 << 8)


@pytest.fixture(params=[False, True], ids=["one", "all"])
def threads(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(threading, "PRODUCT", 1)


def looks(cf):
    """The products that look for rows of zeros."""
    return cf.scheduled.llvm.count("call void @look")


def mask(rows, alive):
    """Which of so many rows are alive."""
    made = torch.zeros(rows, dtype=torch.bool)
    made[list(alive)] = True
    return made


def masked(x, alive):
    return torch.where(alive.unsqueeze(1), x, 0.0)


def left(x, w, alive):
    return masked(x, alive).neg() @ w


def left_added(x, w, alive):
    return torch.addmm(w[0], torch.tanh(x * alive.unsqueeze(1)), w), x[:, :1] + x.masked_fill(~alive.unsqueeze(1), 0.0) @ w  # fmt: skip


def shared(x, w, alive):
    return masked(x, alive).t() @ (masked(x, alive) * 2)


def shared_left(x, w, alive):
    return masked(x, alive).t() @ torch.cat([x, x + 1], 1)


def forms(x, w, alive):
    return left(x, w, alive), *left_added(x, w, alive), shared(x, w, alive), shared_left(x, w, alive)  # fmt: skip


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rows_of_zeros(dtype):
    x, w = r(37, 19, dtype=dtype), r(19, 53, dtype=dtype)
    cf = checks.compiled(forms, x, w, mask(37, [0, 7, 8, 20, 21, 22, 33, 34, 35, 36]))
    assert looks(cf) == 5
    for alive in ([], range(37), [5], range(1, 37)):
        given = x, w, mask(37, alive)
        torch.testing.assert_close(tuple(cf(*given)), forms(*given))


def test_rows_of_zeros_along_a_long_shared_dimension(monkeypatch):
    monkeypatch.setattr(micro_kernels, "LONG", 16)
    x, w = r(37, 19), r(19, 53)
    assert looks(checks.compiled(forms, x, w, mask(37, [0, 7, 8, 33, 36]))) == 5


@pytest.mark.skipif(not threading.available(), reason="needs threads that code can use")
def test_products_that_run_together_look_together(monkeypatch):
    monkeypatch.setattr(threading, "PRODUCT", 1 << 8)

    def f(x, w, alive):
        g = masked(x, alive)
        return torch.relu(x).t() @ g, torch.tanh(x).t() @ (g * 2), g @ w

    cf = checks.compiled(f, r(37, 19), r(19, 53), mask(37, [0, 7, 8, 33, 36]))
    assert looks(cf) == 3
    texts = cf.scheduled.llvm.split("define ")
    assert [t.count("call void @look") for t in texts if t.startswith("internal void @joint")] == [3, 0]  # fmt: skip


def summed(x, w, alive):
    g = masked(x, alive)
    return g.sum(0), g @ w, torch.relu(x).t() @ g, torch.relu(x).t() @ torch.cat([g, g], 1)


def tables(cf, form):
    """The functions with certain parameters."""
    return [line for line in cf.scheduled.llvm.splitlines() if line.startswith("define") and form in line]  # fmt: skip


@pytest.mark.skipif(not threading.available(), reason="needs threads that code can use")
def test_sums_beside_products_leave_out_the_same_rows(monkeypatch):
    monkeypatch.setattr(threading, "PRODUCT", 1 << 8)
    x, w = r(37, 19), r(19, 53)
    cf = checks.compiled(summed, x, w, mask(37, [0, 7, 8, 33, 36]))
    assert looks(cf) == 3
    # Three products, and the sum, which takes the rows of one of them.
    assert len(tables(cf, "ptr noalias %L, ptr noalias %X")) == 4
    for alive in ([], range(37), [5], range(1, 37)):
        given = x, w, mask(37, alive)
        torch.testing.assert_close(cf(*given), summed(*given))
    x[0, 3], x[5, 4], w[7, 8] = INF, NAN, -INF
    for alive in ([], [0, 5], [1, 2]):
        given = x, w, mask(37, alive)
        torch.testing.assert_close(cf(*given), summed(*given), equal_nan=True)


@pytest.mark.skipif(not threading.available(), reason="needs threads that code can use")
@pytest.mark.parametrize("rows", [8, 9])
def test_one_of_those_that_run_together_is_a_single_tile(rows, monkeypatch):
    """It waits for the look, as the others do."""
    monkeypatch.setattr(threading, "PRODUCT", 1 << 8)

    def f(x, narrow, wide, alive):
        g = masked(x, alive)
        return g @ narrow, g @ wide

    cf = checks.compiled(f, r(rows, 64), r(64, 8), r(64, 96), mask(rows, [0, 5]))
    texts = cf.scheduled.llvm.split("define ")
    assert [t.count("call void @product") for t in texts if t.startswith("i32 @run")] == [0]


def test_what_zeros_meet_is_not_finite():
    x, w, alive = r(16, 19), r(19, 33), mask(16, [1, 5, 7, 9, 15])
    cf = checks.compiled(forms, x, w, alive)
    for value in (INF, -INF, NAN):
        x[0, 3] = x[2, 18] = w[5, 7] = w[18, 32] = value
        torch.testing.assert_close(tuple(cf(x, w, alive)), forms(x, w, alive), equal_nan=True)


def test_numbers_decide():
    """Rows of zeros are left out that no mask names, and rows that a mask times infinity made NaN are not."""
    x, w = r(16, 19), r(19, 33)
    x[3] = x[4] = 0
    x[5, 0] = INF
    alive = torch.ones(16, dtype=torch.bool)
    alive[3] = alive[5] = False
    checks.compiled(lambda x, w, m: (x * m.unsqueeze(1)) @ w, x, w, alive, calls=2, equal_nan=True)


def test_other_products_do_not_look():
    def products(x, w, alive):
        bound = torch.where(x > 0, x, 0.0)  # a mask of elements
        return bound @ w, masked(x, alive)[:, :1] * w[0], (masked(x, alive) + 1) @ w

    assert looks(checks.compiled(products, r(37, 19), r(19, 53), mask(37, [2]))) == 0


def test_looking_for_a_mask_ends():
    def product(x, w):
        for _ in range(40):
            x = x * x + x
        return x @ w

    assert looks(checks.compiled(product, r(8, 19) * 0.01, r(19, 5), calls=1)) == 0


def test_many_rows():
    """What is noted of them is not on the stack."""
    n = 1_000_000
    x, alive = r(n, 2), torch.arange(n) % 3 > 0
    cf = checks.compiled(left, x, r(2, 4), alive, calls=1)
    assert looks(cf) == 1
