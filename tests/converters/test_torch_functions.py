"""Functions of torch that take Python numbers which are known only when the graph runs."""

import enum

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.errors import UnsupportedOpError

X = torch.tensor([1.1, 2.3], dtype=torch.float64)


def grown(x):
    xs = []
    for v in x:
        if v > 0:
            xs.append(float(v) * 1.1)
    return xs


EXACT = {
    "as_tensor": lambda x: torch.as_tensor(float(x.sum()), dtype=x.dtype),
    "tensor": lambda x: torch.tensor(x.sum().item(), dtype=x.dtype),
    "list": lambda x: torch.tensor([[float(x[0]), 1.1]], dtype=x.dtype),
    "beside a tensor": lambda x: torch.tensor([x[0], float(x[1]) * 1.1, 1.1]),
    "default type": lambda x: torch.tensor([float(x[0]), 1]),
    "grown list": lambda x: torch.tensor(grown(x), dtype=x.dtype),
    "grown list, default type": lambda x: torch.tensor(grown(x)),
    "integer": lambda x: torch.tensor(float(x[0]) * 1e8, dtype=torch.int64),
    "bool": lambda x: torch.tensor(float(x[0]) - 1.1, dtype=torch.bool),
    "complex": lambda x: torch.tensor([float(x[0]), 0.1], dtype=torch.complex128),
    "complex list": lambda x: torch.tensor([float(x[0]), 1j]),
    "asarray": lambda x: torch.asarray([float(x[0]), 1.1], dtype=x.dtype),
    "new_tensor": lambda x: x.new_tensor([float(x[0]), 1.1]),
    "Tensor": lambda x: torch.Tensor([float(x[0]), 1.1]),
    "DoubleTensor": lambda x: torch.DoubleTensor([float(x[0]), 1.1]),
    "full": lambda x: torch.full((2,), float(x[0]), dtype=x.dtype),
}


@pytest.mark.parametrize("name", EXACT)
def test_numbers_become_tensors_without_rounding_on_the_way(name):
    staged = tg.function(EXACT[name])
    for scale in (1, 3, 1):
        expected, got = EXACT[name](X * scale), staged(X * scale)
        assert expected.dtype == got.dtype
        assert torch.equal(expected, got), (expected, got)


def test_tensor_of_a_list_of_tuples():
    def rows(x):
        ys = []
        for v in x:
            if v > 0:
                ys.append((float(v), int(v)))
        return torch.tensor(ys, dtype=x.dtype), torch.tensor(ys)

    for expected, got in zip(rows(X), tg.function(rows)(X), strict=True):
        assert torch.equal(expected, got)
        assert expected.dtype == got.dtype


class Level(enum.IntEnum):
    HIGH = 3


def with_numbers_of_numpy(x):
    s, n = float(x), int(x)
    y = s * np.float64(2.0) + np.float64(2.0) * s + np.sqrt(2.0) * s - s / np.float64(3)
    y = y + np.int64(2) * n + n * np.int64(2) + Level.HIGH * n + n * Level.HIGH
    k = 0
    while np.float64(1.0) < y and k < Level.HIGH:
        y, k = y * np.float64(0.5), k + 1
    return y, k, s > np.float64(1), max(s, np.float64(1.0)), min(np.float64(9), s), -abs(s)


def test_staged_numbers_beside_numbers_of_numpy_and_of_enums():
    staged = tg.function(with_numbers_of_numpy)
    for x in (1.5, 20.0, 0.01, 1.5):
        assert staged(torch.tensor(x)) == pytest.approx(with_numbers_of_numpy(torch.tensor(x)))


TABLE = torch.tensor([1.0, 2.0, 3.0])


def test_numpy_of_a_captured_tensor_in_code_that_is_not_converted_is_refused():
    """It gave an array of memory that was free."""
    f = tg.do_not_convert(lambda: TABLE.numpy())
    with pytest.raises(tg.errors.SymbolicValueError, match="known only when the graph runs"):
        tg.function(lambda x: x * float(f().sum()))(torch.tensor(1.5))


@pytest.mark.parametrize("f", [lambda s: s / np.float32(3), lambda s: np.array([s, 1.0], ndmin=2), lambda s: np.ones(2, dtype=np.int8) * s, lambda s: np.linspace(0, s, 3)])  # fmt: skip
def test_numpy_on_a_staged_number_is_refused(f):
    with pytest.raises(tg.errors.SymbolicValueError, match="known only when the graph runs"):
        tg.function(lambda x: f(float(x)))(torch.tensor(1.5))


@pytest.mark.parametrize("x", [torch.tensor(1.0), torch.tensor(-1.0)])
def test_a_tensor_of_lists_that_a_branch_picks(x):
    def rows(x):
        row, a, b = [int(x), 2], 1, 2.5
        if x > 0:
            row, a, b = [1, 2, int(x)], 3.0, 4
        return (
            torch.tensor([row, row]),
            torch.tensor(row, dtype=torch.float64),
            torch.tensor([[a, b], [b, a]]),
        )

    for wanted, made in zip(rows(x), tg.function(rows)(x), strict=True):
        torch.testing.assert_close(made, wanted)


def test_a_tensor_of_a_class_of_its_own_is_not_made_inside():
    class Points(torch.Tensor):
        pass

    for make in (lambda x: x.as_subclass(Points), lambda x: torch.Tensor.as_subclass(x, Points)):
        with pytest.raises(UnsupportedOpError, match="makes a Points"):
            tg.function(make)(torch.ones(2))
    assert type(torch.ones(2).as_subclass(Points)) is Points


def test_one_hot_lies_in_order_whatever_its_indices_do():
    def f(i):
        return torch.nn.functional.one_hot(i.t(), 5), torch.nn.functional.one_hot(i.t() + 1)

    i = torch.tensor([[0, 1, 2], [3, 0, 1]])
    g = tg.function(f)
    for _ in range(2):
        for a, b in zip(g(i), f(i), strict=True):
            assert torch.equal(a, b) and a.stride() == b.stride()
