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


WEIGHT = torch.tensor([0.5, 1.0, 2.0, 0.25])
BINARY = {
    "plain": lambda x, y, how: F.binary_cross_entropy_with_logits(x, y, reduction=how),
    "weights": lambda x, y, how: F.binary_cross_entropy_with_logits(x, y, y[:, :1], reduction=how),
    "classes": lambda x, y, how: F.binary_cross_entropy_with_logits(x, y, pos_weight=WEIGHT, reduction=how),
    "margin": lambda x, y, how: F.soft_margin_loss(x, (y > 0.5) * 2.0 - 1, reduction=how),
}  # fmt: skip


@pytest.mark.parametrize("how", ["mean", "sum", "none"])
@pytest.mark.parametrize("loss", BINARY.values(), ids=BINARY)
def test_losses_of_logits(loss, how):
    def step(x, y):
        x = x.detach().requires_grad_()
        found = loss(x, y, how)
        return found.detach(), torch.autograd.grad((found * 1.5).sum(), x)[0]

    cf = compiled(step, r(6, 4) * 20, r(6, 4, seed=1).sigmoid())
    assert not cf.scheduled.native.low.asked
