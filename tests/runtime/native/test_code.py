"""What native code calls of the C library."""

import math

import pytest
import torch

import tograph as tg


@pytest.mark.parametrize("divide", [torch.remainder, torch.fmod])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32, torch.float64])
def test_a_remainder_by_nan_is_nan(divide, dtype):
    @tg.function
    def f(x, c):
        if c > 0:
            y = divide(x, math.nan)
        else:
            y = x * 1.5
        return y

    x = torch.tensor([200, 1, 7]).to(dtype)
    for c in (1, 0, 1, 1):
        assert f(x, torch.tensor(c)).isnan().tolist() == [c > 0] * 3


def test_a_remainder_of_whole_numbers_by_nan_is_nan():
    @tg.function
    def f(n, v):
        s = 0.0
        while n < 3:
            s = n.item() % (v.item() + s)
            n = n + 1
        return s

    for _ in range(3):
        assert math.isnan(f(torch.tensor(0), torch.tensor(math.nan)))
        assert f(torch.tensor(0), torch.tensor(4.0)) == 2.0
