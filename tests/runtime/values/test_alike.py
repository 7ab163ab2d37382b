"""Functions that the body of a staged loop or branch makes, where they are used behind it or by a comprehension."""

import torch

from tests.converters.both import Cases

cases = Cases()


@cases.tensors((1.0,), (30.0,))
def used_by_a_comprehension(x):
    rows, i = torch.stack([x, x + 1]), 0
    while rows.sum() < 20:

        def grown(v):
            return v + i + 1

        rows = torch.stack([grown(v) for v in rows])
        i += 1
    return rows


@cases.tensors((1.0,), (30.0,))
def used_behind_the_loop(x):
    n, cost = 0, lambda v: v
    while x < 20:
        step = x * 2
        cost = lambda v: v * step + n  # noqa: E731
        x = cost(x) + 1
        n += 1
    return cost(x), x, n


@cases.tensors((1.0,), (9.0,))
def that_writes(x):
    seen = []
    total = x * 0
    for i in range(20):

        def add(v, scale=2):
            nonlocal total
            total = total + v * scale
            return total

        seen = [add(v) for v in (x, x + 1)]
        if total > 30:
            break
    add(x)
    return total, i, seen


@cases.tensors((1.0,), (30.0,))
def only_in_the_loop(x):
    while x < 20:
        inner = lambda v: v + 1  # noqa: E731
        x = x * 2
    return inner(x)


test_same = cases.test()
