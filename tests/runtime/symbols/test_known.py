"""Numbers that follow from constants are Python's while tracing."""

import pytest
import torch

import tograph as tg


def test_a_power_of_a_number_of_a_constant():
    def f(x):
        scale = 2 ** float(torch.tensor(4 / 64).log2().round())
        return torch.nn.functional.layer_norm(x, (3,), eps=scale)

    x = torch.randn(2, 3)
    torch.testing.assert_close(tg.function(f)(x), f(x))


def test_one_that_fails():
    def f(x):
        scale = 0.0 ** float(torch.tensor(-1.0).round())
        return torch.nn.functional.layer_norm(x, (3,), eps=scale)

    with pytest.raises(Exception) as found:
        tg.function(f)(torch.randn(2, 3))
    assert isinstance(found.value, (ZeroDivisionError, tg.errors.GraphBoolError))
