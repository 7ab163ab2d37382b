"""Objects of users' classes as indices: ``__index__`` with a staged condition."""

from collections import deque

import torch

from tests.converters.both import Cases

cases = Cases()
numbers = [(2,), (0,), (3,)]


class Place:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return 2 if self.n > 1 else int(self.n)


class Number(int):
    def __index__(self):
        return 100


@cases(*numbers)
def read(n):
    at = Place(n)
    x = torch.arange(12.0).view(3, 4)
    return (
        [5, 6, 7][at],
        "abc"[at],
        (1, 2, 3)[:at],
        deque("xyz")[at],
        range(5, 9)[at],
        x[at],
        x[1, at],
        x[:at, 1],
    )


@cases(*numbers)
def written(n):
    at, xs, x = Place(n), [5, 6, 7], torch.zeros(3)
    xs[at] = 8
    x[at] = 1
    ys = [1, 2, 3, 4]
    del ys[at]
    xs[at] += 1
    return xs, x, ys


@cases(*numbers)
def of_a_dict(n):
    """A key of a dict is no place."""
    at = Place(n)
    return {at: 3}[at], {True: 1}.get(n > 1, 0)


@cases(*numbers)
def of_a_subclass_of_int(n):
    return [5, 6, 7][Number(1)] + n


test_same = cases.test()
