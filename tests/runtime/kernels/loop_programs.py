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


def all_move(x):
    """Elements of which none stays while another one moves."""
    while (x > 1).any():
        x = x * 0.5
    return x


def nested(a, x):
    """A loop in a loop, with a product between."""
    total = 0
    while x.sum() > 1:
        inner = a @ x
        while inner.max() > 0.5:
            inner = inner * 0.5
            total += 1
        x = x * 0.6 + inner * 0.1
    return x, total


def divide(x, y):
    """It fails for 0 in the middle of the loop."""
    while x > 10:
        x = x // y
    return x


def one_slow():
    """Elements of which one takes longer than all others."""
    x = torch.full((600,), 3.0)
    x[400] = 1000.0
    return x
