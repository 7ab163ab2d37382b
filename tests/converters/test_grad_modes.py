"""What turns gradients on and off by a condition."""

import pytest
import torch

import tograph as tg
from tograph.errors import GraphBoolError


@pytest.mark.parametrize("mode", [torch.set_grad_enabled, torch.inference_mode])
def test_by_a_staged_condition(mode):
    @tg.function
    def f(x):
        with mode(bool(x.sum() > 0)):
            return x * 2

    with pytest.raises(GraphBoolError, match=r"write an `if`"):
        f(torch.ones(2))


def test_by_a_known_condition():
    @tg.function
    def f(x):
        with torch.set_grad_enabled(mode=False):
            y = x * 2
        with torch.inference_mode(mode=False):
            return y, x * 3

    y, z = f(torch.ones(2, requires_grad=True))
    assert not y.requires_grad and z.requires_grad
