"""``round(x)`` and ``round(x, digits)`` of numbers that only the run knows, in native code."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def rounded(x):
    found, n = [], 0
    for v in x.double():
        n += round(v.item()) + round(v.item(), None)
        found.append(round(v.item() * 3, 2))
        if round(n, -1) > 20:
            break
    return found, n, round(x.sum().item(), 3), round(n), round(n, -1), round(x[0].item() * 1e3, -2)


def test_as_python():
    g = tg.function(rounded)
    for seed in range(12):
        x = torch.randn(9, generator=torch.Generator().manual_seed(seed)) * 3
        assert g(x) == rounded(x)
    assert g(torch.tensor([2.675] * 9)) == rounded(torch.tensor([2.675] * 9))
    assert [cf.scheduled.reason for cf in g.concrete_functions] == [""]
    with pytest.raises(ValueError, match="cannot convert float NaN to integer"):
        g(torch.full([9], float("nan")))
