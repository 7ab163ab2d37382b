"""``functools.cmp_to_key`` of functions that compare what only the run knows."""

import functools

import torch

import tograph as tg

from .both import Cases

cases = Cases()


def longest_first(a, b):
    if a[1] != b[1]:
        return b[1] - a[1]
    return a[0] - b[0]


@cases(([3, 1, 3, 2],), ([0, 0, 0, 0],))
def ordered(xs):
    items = [(i, v) for i, v in enumerate(xs)]
    key = functools.cmp_to_key(longest_first)
    return sorted(items, key=key), min(items, key=key), key(items[0]) < key(items[1]), key(items[0]) == key(items[2])  # fmt: skip


@cases(([3, 1, -3, 2],), ([-1, -2, -3, -4],))
def some_ordered(xs):
    kept = [v for v in xs if v > -2]
    kept.sort(key=functools.cmp_to_key(lambda a, b: 1 if abs(a) > abs(b) else -1), reverse=True)
    return kept


test_same = cases.test()


def test_floats_that_are_sorted_keep_their_64_bits():
    def f(x):
        p = [v / 3 for v in x.tolist()]
        near = sorted([p[0] + 1e-12, p[0], p[0] - 1e-12])
        return sorted(p), near, sorted([p[0], 0.1])[0], sorted(p, key=lambda v: 1 - v * 1e-12)

    x = torch.tensor([3.1, 1.7, 0.3])
    assert tg.function(f)(x) == f(x)
