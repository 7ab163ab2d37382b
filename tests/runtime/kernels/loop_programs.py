"""Loops that tests of kernels and of plans share: of a whole vector, and of each element for itself."""

import torch


def halve(x):
    """A condition on all elements, and a count."""
    steps = 0
    while x.sum() > 1:
        x = x * 0.5
        steps += 1
    return x, steps


def halve_each(x):
    """Elements that end on their own; the count is that of the slowest one."""
    steps, alive = 0, x > 1
    while alive.any():
        x = torch.where(alive, x * 0.5, x)
        alive = x > 1
        steps += 1
    return x, steps


def one_slow():
    """Elements of which one takes longer than all others."""
    x = torch.full((600,), 3.0)
    x[400] = 1000.0
    return x
