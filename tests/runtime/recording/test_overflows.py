"""Numbers that only the run knows, in tensors of small integers that cannot hold them."""

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
