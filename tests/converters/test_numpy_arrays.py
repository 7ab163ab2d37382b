"""Functions of numpy over arrays and lists whose items only the run knows."""

import warnings

import numpy as np
import pytest
import torch

import tograph as tg
from tests.converters.test_staged_array import X, same

USES = [
    lambda a, k, s: (np.sort(a), np.argsort(a), np.flip(k), np.diff(a), np.diff(k), np.ravel(k), np.transpose(a)),
    lambda a, k, s: (np.any(k), np.all(k), np.count_nonzero(a), np.any(np.array(a) > 2), (np.array(a) > -9).all()),
    lambda a, k, s: (np.round(a), np.round(a, 1), np.around(a, decimals=-1), np.array(a).round(1)),
    lambda a, k, s: (np.where(np.array(a) > 0, a, 0), np.where(np.array(k) > 1, 1, -1), np.where(k, k, a), np.where(k, s, a)),
    lambda a, k, s: (np.clip(a, 0, 1), np.clip(k, 1, 2.5), np.array(a).clip(-1, 2), np.clip(a, s, None), np.clip(s, 0, 1)),
    lambda a, k, s: (np.percentile(a, 50), np.quantile(a, 0.25), np.percentile(k, [10, 90]), np.ptp(a), np.ptp(k)),
    lambda a, k, s: (np.average(a), np.average(k), np.average(a, weights=np.array(k) + 1)),
    lambda a, k, s: (np.append(a, 1.0), np.concatenate([a, k]), np.concatenate((a, [1.0, s])), np.stack([k, k]), np.stack([a, k], axis=1), np.hstack([a, k])),
    lambda a, k, s: (np.allclose(a, a), np.isclose(a, k), np.isclose(a, s, atol=1.0), np.array_equal(a, a), np.array_equal(a, k), np.array_equal(a, a[1:])),
    lambda a, k, s: (np.sin(a), np.exp(k), np.maximum(a, 0), np.minimum(a, k), np.abs(k), np.fabs(k), np.log10(np.abs(a)), np.square(a), np.floor(a), np.hypot(a, k), np.isfinite(a)),
    lambda a, k, s: (np.dot(a, k), np.dot(k, k), np.inner(a, a), np.outer(a, k), np.matmul(a, a)),
]  # fmt: skip


def gathered(use, x, n):
    values, places = [], []
    for i in range(n):
        if x[i] > -2:
            values.append(x[i].item())
            places.append(i)
    return use(values, places, x[0].item())


@pytest.mark.parametrize("use", USES)
def test_as_numpy(use):
    converted = tg.function(lambda x, n: gathered(use, x, n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (6, 3):
            n = torch.tensor(n)
            same(converted(X, n), gathered(use, X, n))


def test_percentiles_out_of_range_and_of_nan():
    f = tg.function(lambda x, n, q: gathered(lambda a, k, s: np.percentile(a, q), x, n))
    for q in (-1, 100.5):
        with pytest.raises(ValueError, match="Percentiles must be in the range"):
            f(X, torch.tensor(4), q)
    g = tg.function(lambda x: np.percentile([x[0].item(), x[1].item()], 50))
    assert np.isnan(g(torch.tensor([torch.nan, 1.0]))) and g(torch.tensor([2.0, 1.0])) == 1.5


@pytest.mark.parametrize(
    "use",
    [lambda a, k, s: np.ptp(a), lambda a, k, s: np.percentile(a, 50), lambda a, k, s: np.average(a, weights=a)],
)  # fmt: skip
def test_of_no_items(use):
    kinds = []
    for f in (gathered, tg.function(lambda use, x, n: gathered(use, x, n))):
        with warnings.catch_warnings(), pytest.raises(Exception) as raised:
            warnings.simplefilter("ignore")
            f(use, X, torch.tensor(0))
        kinds.append(raised.type)
    assert kinds[0] is kinds[1]
