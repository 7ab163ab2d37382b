"""``np.array`` of numbers that only the run knows."""

import warnings

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.errors import SymbolicValueError

X = torch.tensor([0.5, -1.0, 2.5, 3.0, -4.0, 7.0], dtype=torch.float64)

USES = [
    lambda a, k: (a, k),
    lambda a, k: (a * 2, 1 - a, k / 2, k + 0.5, k + a, a / k.sum(), 2**a, a**0.5, -k),
    lambda a, k: (a - a.mean(), a.std(), k.sum(), a.max(), k.min(), a.argmax(), k.prod(), a.var(ddof=1)),
    lambda a, k: (a[0], a[-1], a[1:], a[::2], a[a > 0], k[1]),
    lambda a, k: ((a > 0).sum(), (k >= 2).mean(), a == a, a != 0.5),
    lambda a, k: (len(a), list(a), [v * 2 for v in k], a.tolist(), max(a), sum(k)),
    lambda a, k: (a.shape, a.size, a.ndim, a.dtype, k.dtype, isinstance(a, np.ndarray)),
    lambda a, k: (torch.tensor(a), torch.from_numpy(k), torch.as_tensor(a), torch.tensor(k, dtype=torch.float32)),
    lambda a, k: (np.mean(a), np.sum(k), np.median(a), np.cumsum(k), np.cumprod(a)),
    lambda a, k: (np.sqrt(a), np.exp(a), np.abs(a), np.isnan(a), np.floor(a)),
    lambda a, k: (np.float64(2) * a, a * np.float64(3), k - np.int64(1), np.float32(2) * a),
    lambda a, k: (a.astype(int), k.astype(np.float32), np.asarray(a), np.array(k, dtype=float), a.copy()),
    lambda a, k: (str(a), f"{k}", repr([a, k])),
    lambda a, k: (a[::-1], k[::-2], a[[0, -1]], a.reshape(-1, 1), a.reshape((1, -1)).T, a.flatten(), k.ravel(), a.transpose()),
    lambda a, k: (a // 2, k // 2, a % 2, k % 3, -a % 1.5, a @ a, k @ k, a @ k, a.dot(k), abs(a)),
    lambda a, k: (np.ones(3) * a[0], a[0] + np.arange(3), np.arange(3) - k[1], np.array([1.0, 2.0]) / a[1], np.ones((2, 2)) * a[0], np.arange(3) > a[0], a[:2] * np.ones(2)),
    lambda a, k: ({"a": a}, [a, k], [i for i, v in enumerate(a) if v > 0]),
]  # fmt: skip


def same(x, y):
    if isinstance(y, (np.ndarray, torch.Tensor)):
        assert type(x) is type(y) and x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-14)
    elif isinstance(y, (list, tuple)):
        assert type(x) is type(y) and len(x) == len(y)
        for a, b in zip(x, y, strict=True):
            same(a, b)
    elif isinstance(y, dict):
        same(list(x.items()), list(y.items()))
    else:
        y = y.item() if isinstance(y, np.generic) else y
        assert type(x) is type(y) and (x == y or abs(x - y) <= 1e-14 * abs(y))


@pytest.mark.parametrize("use", USES)
def test_as_numpy(use):
    def f(x, n):
        values, places = [], []
        for i in range(n):
            if x[i] > -2:
                values.append(x[i].item())
                places.append(i)
        return use(np.array(values), np.array(places))

    converted = tg.function(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (6, 3):
            same(converted(X, torch.tensor(n)), f(X, torch.tensor(n)))


def test_rows():
    def f(x, n):
        rows = []
        for i in range(n):
            rows.append((i, x[i].item()))
        a, b = np.array(rows), np.array([[x[0].item(), 1], [2, n.item()]])
        return (
            a,
            a[0],
            a[:, 1],
            a[1:, 0].mean(),
            b,
            b * 2,
            np.array((x[0].item(), 3)),
            np.array([n.item(), 1]),
        )

    converted = tg.function(f)
    for n in (4, 2):
        same(converted(X, torch.tensor(n)), f(X, torch.tensor(n)))


def test_each_call_has_an_array_of_its_own():
    f = tg.function(lambda x: np.array([x[0].item(), 2.0]))
    first = f(X)
    first[0] = 9
    assert f(X)[0] == 0.5


@pytest.mark.parametrize(
    "use",
    [
        lambda a: a + [1.0], lambda a: a.fill(2), lambda a: bool(a), lambda a: a.astype(int) // a.astype(int), lambda a: np.maximum(a, 0.0, where=a > 0),
        lambda a: a[2:0:-1], lambda a: a.sort(), lambda a: np.unique(a), lambda a: np.sort(a, axis=0, kind="stable"), lambda a: a + np.ones(2, dtype=np.int8),
    ],
)  # fmt: skip
def test_other_uses_are_refused(use):
    def f(x):
        return use(np.array([x[0].item(), 2.0]))

    with pytest.raises(SymbolicValueError, match="an array of numpy whose elements"):
        tg.function(f)(X)


def test_a_change_in_place_is_refused():
    def f(x):
        a = np.array([x[0].item(), 2.0])
        a[0] = 3.0
        return a

    with pytest.raises(SymbolicValueError, match="an array of numpy whose elements"):
        tg.function(f)(X)


def test_an_attribute_that_arrays_do_not_have():
    with pytest.raises(AttributeError, match="'numpy.ndarray' object has no attribute 'means'"):
        tg.function(lambda x: np.array([x[0].item()]).means())(X)


def arrays_of_tensors(x, n):
    while x.sum() < n:
        x = x * 2
    a, rows = x.cpu().numpy(), x.reshape(2, -1).detach().numpy()
    best = a[0]
    for v in a:
        if v > best:
            best = v
    places = (x > 1).nonzero().numpy()
    return (
        a,
        rows,
        rows.tolist(),
        places,
        best * 0.1,
        float(best) + int(a[1]),
        np.argmax(a),
        rows.max(),
        a.mean().item(),
        np.asarray(x) + 1,
        x.sum().numpy(),
        torch.from_numpy(a) * 2,
        f"{a[1]} {rows.sum()}",
    )


def test_the_array_of_a_tensor():
    converted = tg.function(arrays_of_tensors)
    for x in (torch.tensor([0.1, 0.7, 1.3, 0.3]), torch.tensor([1.1, 0.1, 0.2, 2.3])):
        found, expected = (f(x, torch.tensor(9.0)) for f in (converted, arrays_of_tensors))
        assert repr(found) == repr(expected).replace("np.int64(2)", "2").replace("np.int64(3)", "3")
    assert converted.trace_count == 1


def test_the_array_of_a_tensor_that_is_written():
    def f(x):
        a = (x := x * 2).numpy()
        x += 1
        return a

    with pytest.raises(tg.errors.AliasError, match="the array of a tensor"):
        tg.function(f)(X)
    with pytest.raises(RuntimeError, match="requires grad"):
        tg.function(lambda x: x.numpy())(X.clone().requires_grad_())


OF_TENSORS = [
    lambda a: (np.clip(a, 0, 1), np.maximum(a, 0.5), np.where(a > 0, a, 0.0), np.add(a, 1), np.append(a, 3.0)),
    lambda a: (a * 2.5 + 1, a / 3, a.max() - a.min(), (a - a.mean()) / a.std(), np.sum(a * a), np.var(a)),
    lambda a: (np.sqrt(np.abs(a)), np.floor(a), np.square(a), np.round(a, 1), np.diff(a), np.linalg.norm(a)),
    lambda a: (np.float64(2) * a, np.float32(2) * a, np.ones(4) * a, a.astype(np.float64) * 2, a[0] * a[1]),
]  # fmt: skip


@pytest.mark.parametrize("use", OF_TENSORS)
def test_arrays_of_single_precision_have_the_dtypes_of_numpy(use):
    x = torch.tensor([0.3, 1.26, -0.4, 0.9])
    found, expected = tg.function(lambda x: use(x.numpy()))(x), use(x.numpy())
    for a, b in zip(found, expected, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-6)
