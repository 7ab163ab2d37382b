"""Ops that write parts of a result: every dimension, small and large."""

import pytest
import torch

import tograph as tg

CASES = {
    "cat 0": lambda x: torch.cat([x, x * 2], 0),
    "cat 1": lambda x: torch.cat([x, x * 2], 1),
    "cat of three": lambda x: torch.cat([x, x * 2, x], -1),
    "stack 1": lambda x: torch.stack([x, x * 3], 1),
    "stack 2": lambda x: torch.stack([x, x * 3], 2),
    "cat of transposed": lambda x: torch.cat([x.t(), x.t() * 2], 1),
}


@pytest.mark.parametrize("size", [(2, 3), (64, 65)])
@pytest.mark.parametrize("name", CASES)
def test_parts_lie_where_torch_puts_them(name, size):
    f = tg.function(CASES[name])
    x = torch.randn(size)
    for _ in range(3):  # the first call runs before anything is compiled
        assert torch.equal(f(x), f.python_function(x))
