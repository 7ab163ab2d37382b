"""Reductions of numpy over numbers that only the run knows."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.errors import StagingError

X = torch.tensor([0.5, -1.0, 2.5, 3.0, -4.0, 7.0], dtype=torch.float64)


def gathered(reduce, x, n):
    values, places, signs = [], [], []
    for i in range(n):
        if x[i] > 0:
            values.append(x[i].item())
            places.append(i)
        signs.append(x[i].item() > 0)
    return reduce(values), reduce(places), reduce(signs)


def some(reduce, x, n):
    u = x[0].item()
    return reduce([u, 3, n.item()]), reduce((n.item(), int(u))), reduce([u > 0, u > 1])


REDUCTIONS = [np.sum, np.prod, np.mean, np.std, np.var, np.median, np.max, np.min, np.argmax, np.argmin, np.linalg.norm]  # fmt: skip


@pytest.mark.parametrize("program", [gathered, some])
@pytest.mark.parametrize("reduce", REDUCTIONS, ids=lambda f: f.__name__)
def test_as_numpy(reduce, program):
    f = tg.function(lambda x, n: program(reduce, x, n))
    for n, x in itertools.product(map(torch.tensor, (6, 3)), (X, X * 2)):
        wanted = program(reduce, x, n)
        for found, value in zip(f(x, n), wanted, strict=True):
            assert type(found) is type(value.item())
            assert math.isclose(found, value, rel_tol=1e-14)


@pytest.mark.parametrize("reduce", REDUCTIONS, ids=lambda f: f.__name__)
def test_no_items(reduce):
    def f(x, n):
        values = []
        for i in range(n):
            values.append(x[i].item())
        return reduce(values)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = f(X, 0)
        except ValueError as error:
            with pytest.raises(ValueError, match=f"^{error}"):
                tg.function(f)(X, torch.tensor(0))
        else:
            found = tg.function(f)(X, torch.tensor(0))
            assert found == wanted or (math.isnan(found) and math.isnan(wanted))


def test_not_a_number():
    def f(x):
        values = [x[0].item(), x[1].item(), 2.0]
        return np.median(values), np.max(values), np.argmax(values)

    x = torch.tensor([1.0, math.nan])
    median, highest, place = tg.function(f)(x)
    assert math.isnan(median) and math.isnan(highest) and place == f(x)[2]


def test_options():
    def f(x, n):
        values = []
        for i in range(n):
            values.append(x[i].item())
        return np.std(values, ddof=1), np.var(values, axis=0, ddof=1), np.mean(values[-2:], axis=-1)

    found = tg.function(f)(X, torch.tensor(5))
    np.testing.assert_allclose(found, f(X, 5), rtol=1e-14)


def rows(x):
    return np.mean([[x[0].item(), 1.0], [2.0, 3.0]])


def out(x):
    return np.mean([x[0].item(), 1.0], keepdims=True)


def test_of_known_numbers():
    values = np.arange(4.0)
    assert tg.function(lambda: (np.mean([1, 2]), np.max(values), np.std(values, 0)))() == (
        1.5,
        3.0,
        np.std(values),
    )


@pytest.mark.parametrize("program", [rows, out])
def test_what_is_left_to_numpy_is_refused(program):
    with pytest.raises(StagingError, match="known only when the graph runs"):
        tg.function(program)(X)
