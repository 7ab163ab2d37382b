"""Every value of f16 through what torch's CPU kernels compute in another way for f16."""

import pytest
import torch

import tograph as tg

VALUES = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.float16)


@pytest.mark.parametrize("exponent", [0.5, -0.5, 2, 3, -1, -2])
def test_powers_are_those_of_eager_pytorch(exponent):
    def f(x):
        return x**exponent

    cf = tg.function(f).get_concrete_function(VALUES)
    cf.scheduled.compile()
    assert cf.scheduled.level == "native", cf.scheduled.reason
    found, wanted = cf(VALUES), f(VALUES)
    assert torch.equal(found.isnan(), wanted.isnan())
    real = ~wanted.isnan()
    assert torch.equal(found[real].view(torch.int16), wanted[real].view(torch.int16))
