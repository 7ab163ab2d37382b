"""Loops over elements."""

import math

import pytest
import torch

import tograph as tg


@pytest.mark.parametrize("scan", [torch.cumsum, torch.cumprod])
@pytest.mark.parametrize("n", [1, 9, 40])
def test_a_scan_of_one_infinite_value(scan, n):
    f = tg.function(lambda y: scan(y, 0))
    for value in (math.inf, -math.inf):
        for _ in range(3):
            y = torch.tensor([value]).expand(n)
            assert torch.equal(f(y), scan(y, 0))
