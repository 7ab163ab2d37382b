"""Numbers that only the run knows, in tensors of small integers and floats that cannot hold them."""

import math

import pytest
import torch

import tograph as tg
from tests.converters.both import compare

FILLS = {
    "full": lambda n: torch.full((2,), n.item(), dtype=torch.uint8),
    "fill": lambda n: torch.zeros(2, dtype=torch.int8).fill_(n.item()),
    "item": lambda n: torch.zeros(2, dtype=torch.int16).index_fill_(0, torch.tensor([0]), 1).masked_fill(torch.tensor([True, False]), n.item()),
    "tensor": lambda n: torch.tensor([n.item(), 1], dtype=torch.int32),
    "alpha": lambda n: torch.add(torch.ones(2, dtype=torch.int8), torch.ones(2, dtype=torch.int8), alpha=n.item()),
    "sum": lambda n: torch.ones(2, dtype=torch.uint8) + n.item(),
}  # fmt: skip
NUMBERS = [3, 300, -5, -300, 2**40, 2.5, -2.5, 1e30, float("inf"), float("nan")]


@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
@pytest.mark.parametrize("whole", [True, False])
def test_same(fill, whole):
    numbers = [n for n in NUMBERS if isinstance(n, int) == whole]
    if whole or fill not in (FILLS["alpha"], FILLS["tensor"]):
        compare(fill, *[(torch.tensor(n, dtype=None if whole else torch.float64),) for n in numbers])  # fmt: skip


def test_a_staged_try_catches_it():
    @tg.function
    def f(n):
        try:
            return torch.full((2,), n.item(), dtype=torch.uint8)
        except RuntimeError:
            return torch.zeros(2, dtype=torch.uint8)

    assert [f(torch.tensor(n)).tolist() for n in (3, 300, 3, 300)] == [[3, 3], [0, 0]] * 2


def full(v, dtype):
    return torch.full((2,), v.item(), dtype=dtype)


def filled(v, dtype):
    return torch.ones(3, dtype=dtype).fill_(v.item())


def masked(v, dtype):
    return torch.ones(3, dtype=dtype).masked_fill(torch.tensor([True, False, True]), v.item())


def one(v, dtype):
    """Torch does not look here where the type is a half."""
    return torch.full((1,), v.item(), dtype=dtype)


def number(v, dtype):
    return torch.tensor(v.item(), dtype=dtype)


def tried(v, dtype):
    try:
        return torch.full((2,), v.item(), dtype=dtype)
    except RuntimeError as error:
        return str(error)


FLOATS = [1.0, 65504.0, 1e6, 1e39, -1e39, math.inf, math.nan]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("f", [full, filled, masked, one, number, tried])
def test_floats_that_do_not_fit(f, dtype):
    g = tg.function(f)
    for n in FLOATS:
        v = torch.tensor(n, dtype=torch.float64)
        for _ in range(2):
            assert outcome(g, v, dtype) == outcome(f, v, dtype), n


def outcome(f, v, dtype):
    try:
        return repr(f(v, dtype))
    except RuntimeError as error:
        return repr(error)
