"""Hooks of modules that torch's own tools register around a call."""

import torch
from torch.utils.flop_counter import FlopCounterMode

import tograph as tg


def test_flops_of_a_call_with_gradients():
    layer = torch.nn.Linear(3, 3)

    def f(x):
        y = layer(x)
        if y.sum() > -1e9:
            y = y @ layer.weight
        return y.sum()

    staged, counts = tg.function(f), []
    for g in (f, staged, staged):
        with FlopCounterMode(display=False) as mode:
            g(torch.randn(4, 3, requires_grad=True)).backward()
        counts.append(mode.get_total_flops())
    assert counts[0] == counts[1] == counts[2] > 0
