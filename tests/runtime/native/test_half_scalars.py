"""Single numbers of half precision that branches and loops choose: native on machines without instructions for them."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def chosen(s, x, n):
    t = s
    for i in range(n):
        if x[i] > 0:
            s = s * 2
        else:
            t = torch.where(s > t, -s, t.abs())
        if s != t:
            t = t + 1
    return s, t, s == t, torch.isnan(t), s.to(torch.int32), bool(t)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("start", [1.5, -0.25, 0.0, float("nan"), float("inf")])
def test_choices(dtype, start):
    staged = tg.function(chosen)
    args = torch.tensor(start, dtype=dtype), torch.tensor([1.0, -1.0, -2.0, 3.0]), torch.tensor(4)
    cf = staged.get_concrete_function(*args)
    cf.scheduled.compile()
    assert cf.scheduled.level == "native", cf.scheduled.reason
    for got, want in zip(staged(*args), chosen(*args), strict=True):
        if not isinstance(want, torch.Tensor):
            assert got == want
            continue
        assert got.dtype == want.dtype
        assert torch.equal(got.nan_to_num(7.0), want.nan_to_num(7.0))


def test_a_constant_of_bf16():
    def f(c):
        return torch.tensor(-3.14159, dtype=torch.bfloat16) if c > 0 else torch.tensor(1e30, dtype=torch.bfloat16)  # fmt: skip

    staged = tg.function(f)
    for c in (torch.tensor(1.0), torch.tensor(-1.0)):
        assert torch.equal(staged(c), f(c))
