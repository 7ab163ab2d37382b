"""Functions of numpy on numbers that only the run knows."""

import datetime
import decimal
import fractions
import math
import pathlib
import uuid
import warnings

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.errors import SymbolicValueError


def floats(n):
    return (
        np.sqrt(n), np.exp(n), np.log(n), np.log1p(n), np.tanh(n), np.arctan2(n, 2.0), np.hypot(3.0, n), np.isnan(n), np.isfinite(n), np.floor(n),
        np.rint(n), np.power(n, 0.5), np.abs(n), np.sign(n), np.square(n), np.maximum(n, 1.0), np.minimum(2, n), np.clip(n, -1.0, 1.0), np.clip(n, 0, None),
    )  # fmt: skip


def integers(n):
    return (
        np.sqrt(n),
        np.exp(n),
        np.abs(n),
        np.sign(n),
        np.maximum(n, 3),
        np.minimum(n, 0.5),
        np.clip(n, 0, 2),
    )


def check(result, wanted):
    for x, y in zip(result, wanted, strict=True):
        assert not isinstance(x, torch.Tensor)
        kind = (
            bool if isinstance(y, np.bool_) else int if isinstance(y, (int, np.integer)) else float
        )
        assert type(x) is kind
        assert math.isclose(x, y, rel_tol=1e-14) or (x != x and y != y)


@pytest.mark.filterwarnings("ignore")
def test_floats():
    f = tg.function(lambda x: floats(x.item()))
    for n in (2.0, 0.25, 0.0, -1.5, 800.0, math.inf, math.nan):
        check(f(torch.tensor(n, dtype=torch.float64)), floats(n))


@pytest.mark.filterwarnings("ignore")
def test_integers():
    f = tg.function(lambda x: integers(int(x)))
    for n in (2, 0, -3, 40):
        check(f(torch.tensor(n)), integers(n))


def test_annealing():
    def anneal(x, steps):
        best, t = float(x), 1.0
        while t > steps.item():
            new = best - 0.1 * np.cos(best)
            if np.exp(-(new - best) / t) > 0.5:
                best = new
            t = t * 0.9
        return best

    x, steps = torch.tensor(1.0, dtype=torch.float64), torch.tensor(0.2, dtype=torch.float64)
    assert math.isclose(tg.function(anneal)(x, steps), anneal(x, steps), rel_tol=1e-12)


@pytest.mark.parametrize("call", [lambda n: np.floor(int(n)), lambda n: np.sqrt(n, dtype=np.float32), np.sinc])  # fmt: skip
def test_others_are_refused(call):
    with pytest.raises(SymbolicValueError):
        tg.function(lambda x: call(x.item()))(torch.tensor(2.0))


def test_truth():
    def f(x, n):
        done, late = bool(x.sum() > 1), n.item() > 3
        both = (
            np.logical_and(done, late),
            np.logical_or(done, False),
            np.logical_xor(n.item(), x.sum().item()),
            np.logical_not(done),
        )
        return [int(v) for v in both], [1 if v else 0 for v in both]  # fmt: skip

    staged = tg.function(f)
    for x, n in ((2.0, 5), (0.5, 5), (-1.0, 0), (0.0, 0)):
        given = torch.tensor(x), torch.tensor(n)
        assert staged(*given) == f(*given)
    assert staged.trace_count == 1


def test_the_complement_of_a_bool_of_numpy_negates_it():
    def f(x):
        v = x.sum().item()
        bad = np.isnan(v)
        high = np.float64(2.0) < v
        found = [
            ~bad,
            ~high,
            ~(bad | high),
            ~(high & np.True_),
            ~(True ^ bad),
            ~~bad,
            bad & high | np.False_,
        ]
        return [1 if v else 0 for v in found], ~(v > 1)

    staged = tg.function(f)
    for x in (1.0, 3.0, math.nan):
        with warnings.catch_warnings(action="ignore"):  # ~ of a bool of Python
            assert staged(torch.tensor([x])) == f(torch.tensor([x]))
    assert staged.trace_count == 1


def test_functions_of_one_argument_give_a_tensor_for_a_tensor():
    def f(x):
        if x.sum() > 0:
            x = x * 2
        return np.log(x), np.isnan(x), np.sqrt(x.double()), np.sign(-x), np.floor(x), np.rint(x)

    staged = tg.function(f)
    for x in (torch.tensor(1.25), torch.tensor([0.5, -3.25])):
        with warnings.catch_warnings(action="ignore"):
            wanted = f(x)
        torch.testing.assert_close(staged(x), wanted, equal_nan=True)


def test_ranges_of_numpy_by_numbers_that_only_the_run_knows():
    def f(x):
        first, last, step = float(x), 4 * float(x), float(x) / 3
        total = 0.0
        for e in np.arange(first, last, step):
            total += e * e
        grown = [first] + [np.exp(e) for e in np.arange(first, last, step)] + [last]
        n = 0
        for k, i in enumerate(np.arange(1, int(x))):
            n += i * k
        return total, grown, float(np.arange(first, last, step)[-1]), n

    staged = tg.function(f)
    for x in (torch.tensor(1.5), torch.tensor(0.37), torch.tensor(7.2)):
        total, grown, last, n = staged(x)
        assert (total, pytest.approx(grown), last, n) == f(x)
    assert staged.trace_count == 1
    with pytest.raises(IndexError, match="out of bounds"):
        tg.function(lambda x: float(np.arange(float(x))[5]))(torch.tensor(2.0))
    with pytest.raises(SymbolicValueError, match=r"torch\.arange"):
        tg.function(lambda x: np.arange(float(x)) * 2)(torch.tensor(2.0))


@pytest.mark.parametrize(
    ("start", "step"),
    [(np.int64(6), lambda n, i: n + 1), (np.sqrt(2.0), lambda n, i: n * 2), (np.float64(8), lambda n, i: n / 2 + i), (np.bool_(False), lambda n, i: n or i > 1)],
    ids=["int64", "float64", "with_the_index", "bool"],
)  # fmt: skip
def test_a_number_of_numpy_that_a_loop_changes(start, step):
    def f(n):
        found = start
        for i in range(n):
            found = step(found, i)
        return found

    converted = tg.function(f)
    for n in (3, 1, 5):
        assert converted(torch.tensor(n)) == f(n)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.prod((2, 3)), lambda: np.float32(2.5), lambda: np.float64("nan"), lambda: decimal.Decimal("1.50"), lambda: fractions.Fraction(1, 2),
        lambda: datetime.timedelta(1), lambda: pathlib.Path("a"), lambda: uuid.UUID(int=3), lambda: torch.finfo(torch.float32), lambda: torch.iinfo(torch.int8),
    ],
)  # fmt: skip
def test_a_value_that_each_iteration_makes_anew(make):
    def f(n):
        found = None
        for _ in range(n):
            found = make()
        return found

    converted = tg.function(f)
    for n in (2, 0, 3):
        assert repr(converted(torch.tensor(n))) == repr(f(n))
        assert type(converted(torch.tensor(n))) is type(f(n))
