"""Loops over elementwise state whose body asks its elements of what it has made, on a CPU and a GPU."""

import torch


def until_all_are_done(x, n):
    """What the answer is told is seen behind the loop."""
    ended, count, last = False, 0, -1
    while count < n and not ended:
        x = torch.where(x > 1, x * 0.5, x)
        count += 1
        ended = bool((x <= 1).all())
        last = last if ended else count
    return x, ended, count, last


def while_any_is_left(x, n):
    active, i = torch.ones_like(x, dtype=torch.bool), 0
    for i in range(n):
        x = torch.where(active, x * 0.5, x)
        active = active & (x > 1)
        if not active.any():
            break
    return x, active, i
