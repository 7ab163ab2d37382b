"""Kernels of nodes: what they do with the numbers beside tensors."""

import pytest
import torch

from tests.runtime.native.checks import compiled
from tograph.runtime.graph.types import DTYPES
from tograph.runtime.kernels import jit
from tograph.runtime.kernels.exprs import Maker

HALVES = [torch.float16, torch.bfloat16]
native = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def compared(x):
    return x == 0.1, x != 0.3, x == torch.tensor(0.1), torch.where(x == 0.1, x, 0.3), x >= 1.7


def added(x):
    return x + 0.1, x - 0.3, 0.3 - x, x % 0.3, x * 0.1, x / 0.3, x + torch.tensor(0.1), torch.lerp(x, -x, 0.3)  # fmt: skip


def of_tensors(x):
    number = torch.tensor(0.1)
    return x * number, number * x, x / number, number - x, torch.fmod(x, number)


def by_factors(x):
    return torch.add(x, x * 2, alpha=0.3), torch.sub(x, x * 3, alpha=0.7)


def staged(x):
    s = x.sum().item() * 0 + 0.1
    return x + s, x * s, x == s


@native
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("f", [compared, added, of_tensors, by_factors, staged])
def test_numbers_beside_halves_round_as_in_eager(f, dtype):
    near = torch.tensor([0.1, 0.3, 1.7, -0.1]).repeat(16)
    x = torch.randn(128, generator=torch.Generator().manual_seed(0))
    compiled(f, torch.cat([near, x]).to(dtype), rtol=0, atol=0)


def test_a_constant_is_rounded_before_it_becomes_another_type():
    for dtype in ("f16", "bf16", "f32"):
        kept = Maker().const(0.1, dtype).cast("f64").expr.value
        assert kept == torch.tensor(0.1, dtype=DTYPES[dtype]).double().item()
