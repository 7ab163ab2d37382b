"""Losses of tensors of two types, and of halves: eager PyTorch's values."""

import pytest
import torch
import torch.nn.functional as F

from tests.runtime.native.checks import compiled, r
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


@pytest.mark.parametrize("other", [torch.bool, torch.uint8, torch.int64, torch.float64], ids=str)
def test_two_types(other):
    def f(x, y):
        z = x * 2 + 1
        return F.mse_loss(z, y), F.smooth_l1_loss(y, z), F.mse_loss(z, y, reduction="none") * 2

    compiled(f, r(7, 6), (r(7, 6, seed=1).abs() * 2).to(other))


@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves_round_the_difference(loss, dtype):
    def f(x, y):
        return loss(x, y, reduction="none") * 2

    compiled(f, r(64, dtype=dtype), r(64, dtype=dtype, seed=1), rtol=0, atol=0)
