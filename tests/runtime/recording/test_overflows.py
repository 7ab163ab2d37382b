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


def outcome(f, *args):
    try:
        return repr(f(*args))
    except RuntimeError as error:
        return repr(error)


BEYOND = {
    "full": lambda y, n: torch.full((3,), n, dtype=y.dtype),
    "like": torch.full_like,
    "new": lambda y, n: y.new_full((3,), n),
    "fill": lambda y, n: y.clone().fill_(n),
    "where": lambda y, n: torch.where(y > 1, y, n),
    "pad": lambda y, n: torch.nn.functional.pad(y, (1, 1), value=n),
    "scatter": lambda y, n: y.scatter(0, torch.tensor([0]), n),
    "diagonal": lambda y, n: torch.diag(y).fill_diagonal_(n),
}


@pytest.mark.parametrize("fill", BEYOND.values(), ids=BEYOND)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float16])
def test_known_numbers_that_do_not_fit(fill, dtype):
    def chosen(y, c):
        if c > 0:
            y = fill(y, 1 << 40)
        return y

    def repeated(y, c):
        while c > 0:
            y = fill(y, 1 << 40)
            c = c - 1
        return y

    for f in (chosen, repeated):
        g = tg.function(f)
        for c in (1, 0, 1, 1):
            y = torch.tensor([3, 1, 7], dtype=dtype)
            assert outcome(g, y, torch.tensor(c)) == outcome(f, y, torch.tensor(c))


@pytest.mark.parametrize("n", [255, 256, -255, -256, 3.5, -0.5, math.nan, 1e39, True])
def test_known_numbers_at_the_bounds(n):
    for dtype in (torch.uint8, torch.int64, torch.float32):
        full = lambda y: torch.full((2,), n, dtype=dtype)  # noqa: B023
        g = tg.function(full)
        for _ in range(2):
            assert outcome(g, torch.ones(1)) == outcome(full, torch.ones(1))


def test_what_torch_has_no_kernel_for_stays_in_its_loop():
    @tg.function
    def f(n):
        z = torch.zeros(2, 2)
        while n > 0:
            z = torch.eye(2, dtype=torch.uint16).float()
            n = n - 1
        return z

    for n in (0, 0, 1, 1, 0):
        if n:
            with pytest.raises(NotImplementedError, match="eye"):
                f(torch.tensor(n))
        else:
            assert f(torch.tensor(n)).sum() == 0
