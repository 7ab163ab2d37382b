"""What a ``raise`` says is no reason against native code: the host makes it."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


class OutlierError(ValueError):
    def __init__(self, step, value):
        super().__init__(f"outlier at {step}: {value:.2f}")
        self.step, self.value = step, value


def gated(x, strict):
    """On the other path the branch goes on, so that it has results beside the exception."""
    distance = (x - 1) @ (x - 1)
    if distance > 3:
        if strict:
            raise OutlierError(1, distance)
        return x
    return x * 2


def test_fields_of_an_exception_in_a_branch_with_results_are_left_to_the_host():
    staged = tg.function(gated)
    near, far = torch.ones(2), torch.full((2,), 5.0)
    torch.testing.assert_close(staged(near, True), near * 2)
    with pytest.raises(OutlierError, match="^outlier at 1: 32.00") as caught:
        staged(far, True)
    assert caught.value.step == 1
    torch.testing.assert_close(caught.value.value, torch.tensor(32.0))
    torch.testing.assert_close(staged(near, True), near * 2)
    [made] = staged.concrete_functions
    assert (made.scheduled.level, made.scheduled.reason) == ("native", "")
