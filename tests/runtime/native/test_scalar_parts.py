"""Numbers in registers: conversions between all dtypes round as eager PyTorch does, and floats divide as in Python."""

import itertools
import math

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

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


def divided(x, y):
    a, b = x.item(), y.item()
    turned = (a + math.pi) % (2 * math.pi) - math.pi
    return a % b, a // b, divmod(a, b), a % 1.0, turned, a // -0.3, -a % b, a // 2


@pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
def test_floor_division_of_floats():
    staged = tg.function(divided)
    values = [0.0, -0.0, 1.0, -1.0, 2.5, -0.3, 0.1, 7.9, 1e300, 5e-324, math.inf, -math.inf, math.nan]  # fmt: skip
    for a, b in itertools.product(values, values):
        given = [torch.tensor(v, dtype=torch.float64) for v in (a, b)]
        if b:
            assert repr(staged(*given)) == repr(divided(*given))
        else:
            with pytest.raises(ZeroDivisionError):
                staged(*given)
    assert staged.concrete_functions[0].scheduled.level == "native"
