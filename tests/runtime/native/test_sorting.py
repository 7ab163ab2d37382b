"""Sorts of rows of numbers in native code: values, places, ties, NaN, and what is left to torch."""

import math

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit
from tograph.runtime.native import callees

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
SIZES = (2, 3, 15, 16, 17, 33, 64, 100, 1000)


def looped(form):
    """``form`` as often as the run says, so that the graph is native at its first call."""

    def f(x, n):
        found, k = form(x), 0
        while k < n:
            found = form(x)
            k += 1
        return found

    return f


def asked(g):
    native = g.concrete_functions[-1].scheduled.native
    assert native is not None, g.concrete_functions[-1].scheduled.reason
    return native.low.asked


def numbers(n, dtype):
    """Numbers with many ties."""
    return torch.randint(0, max(n // 3, 2), (n,), generator=torch.Generator().manual_seed(n)).to(dtype)  # fmt: skip


FORMS = {
    "up": lambda x: torch.sort(x + 1, stable=True),
    "down": lambda x: torch.sort(x + 1, stable=True, descending=True),
    "default": lambda x: torch.sort(x + 1, 0, True),
    "places": lambda x: torch.argsort(x + 1, stable=True),
    "values": lambda x: torch.sort(x + 1, stable=True)[0] * 2,
    "strided": lambda x: torch.sort((x + 1)[::2], stable=True),
}


# Of each width the code of one type is optimised.
TYPES = [torch.float32, torch.int64, *(pytest.param(t, marks=pytest.mark.unoptimised) for t in (torch.float64, torch.int32))]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FORMS)
def test_sorts_are_those_of_eager(name, dtype):
    f = looped(FORMS[name])
    g = tg.function(f)
    every = name == "up" or dtype is torch.float32  # the others each size with some form and type
    for n in SIZES if every else SIZES[[*FORMS].index(name) % 3 :: 3]:
        x = numbers(n, dtype)
        got, want = g(x, torch.tensor(1)), f(x, torch.tensor(1))
        if name == "default":  # the order of ties is open
            got, want = (got[0], (x + 1)[got[1]]), (want[0], want[0])
            assert torch.equal(got[1], want[1])
        torch.testing.assert_close(got, want, rtol=0, atol=0)
        if n > 3 or name != "strided":
            assert asked(g) == []


@pytest.mark.parametrize("descending", [False, True])
def test_nan_is_more_than_all_numbers(descending):
    inf, nan = math.inf, math.nan
    x = torch.tensor([1.0, nan, -inf, 0.0, nan, inf, -0.0, 2.0] * 9)
    f = looped(lambda x: torch.sort(x * 1, stable=True, descending=descending))
    g = tg.function(f)
    got, want = g(x, torch.tensor(1)), f(x, torch.tensor(1))
    assert torch.equal(got[1], want[1]) and asked(g) == []
    torch.testing.assert_close(got[0], want[0], rtol=0, atol=0, equal_nan=True)


def test_lists_of_numbers_whose_length_the_run_knows():
    def f(x, n):
        found, k = [], 0
        while k < n:
            found.append(x[k].item())
            k += 1
        found.sort(reverse=True)
        return sum(found[:3]), len(sorted(found))

    g, x = tg.function(f), numbers(1500, torch.float64)
    for count in (0, 0, 1, 2, 20, 40, 1023, 1024, 1500, 1500):
        assert g(x, torch.tensor(count)) == f(x, count)
    assert g.concrete_functions[-1].scheduled.declined == 0


def test_many_numbers_that_the_run_selects_are_sorted_by_torch(monkeypatch):
    f = looped(lambda x: torch.sort(x[x > 0], stable=True))
    g, asks = tg.function(f), []
    monkeypatch.setattr(
        callees.Call, "__call__", lambda *a, run=callees.Call.__call__: asks.append(1) or run(*a)
    )
    for n in (1000, 4000):
        x = numbers(n, torch.float32)
        torch.testing.assert_close(g(x, torch.tensor(1)), f(x, torch.tensor(1)), rtol=0, atol=0)
        assert len(asks) == (2 if n == 4000 else 0)


@pytest.mark.parametrize(
    "form",
    [
        lambda x: torch.sort(x.repeat(200).view(20, -1) + 1, stable=True),
        lambda x: torch.sort((x + 1).half(), stable=True),
        lambda x: torch.sort(x.repeat(10_000) + 1, stable=True)[0],
    ],
    ids=["matrix", "half", "long"],
)
def test_other_sorts_are_asked_of_torch(form):
    f = looped(form)
    g, x = tg.function(f), numbers(8, torch.float32)
    torch.testing.assert_close(g(x, torch.tensor(1)), f(x, torch.tensor(1)), rtol=0, atol=0)
    cf = g.concrete_functions[-1]
    assert cf.scheduled.native is None or asked(g)


def rows(x):
    a = torch.sort(x, stable=True)
    b = torch.sort(x * 2, stable=True, descending=True)
    median = x.unfold(-1, 3, 1).sort()[0][..., 1]
    return *a, *b, median * 2, torch.argsort(x, stable=True).argsort(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_short_rows_of_a_matrix(dtype):
    for size in ((7, 5), (30, 17), (3, 64), (1, 4)):
        f, x = looped(rows), (torch.randn(size) * 9).to(dtype)
        if dtype is torch.float32:
            x[0, 1] = float("nan")
        g = tg.function(f)
        for a, b in zip(g(x, torch.tensor(1)), f(x, torch.tensor(1)), strict=True):
            torch.testing.assert_close(a, b, equal_nan=True, rtol=0, atol=0)
        assert asked(g) == []
