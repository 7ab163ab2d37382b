"""Loops over elements."""

import math

import pytest
import torch

import tograph as tg


@pytest.mark.parametrize("n", [1, 9, 40])
def test_a_scan_of_one_infinite_value(n):
    f = tg.function(lambda y: (y.cumsum(0), y.cumprod(0), y.sum()))
    for value in (math.inf, -math.inf):
        for _ in range(3):
            y = torch.tensor([value]).expand(n)
            for made, right in zip(f(y), (y.cumsum(0), y.cumprod(0), y.sum()), strict=True):
                assert torch.equal(made, right)
