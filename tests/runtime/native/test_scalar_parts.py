"""Numbers in registers: conversions between all dtypes round as eager PyTorch does."""

import itertools

import pytest
import torch

import tograph as tg

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
ALL = [*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool]


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(ALL, 2)))
def test_conversions(source, target):
    @tg.function
    def f(x):
        return torch.stack([x.to(target), x.to(target)])

    # the second lies just above the middle of two halves, and in the middle once it is an f32
    for value in (2.5, 1 + 2**-11 + 2**-30, 250.0):
        x = torch.tensor(value, dtype=torch.float64).to(source)
        for _ in range(2):  # the first call runs before anything is compiled
            assert torch.equal(f(x), f.python_function(x))
