"""Patterns whose parts are computed behind a staged condition, and of one of several subjects."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()
PAIRS = ((3, 2), (3, 5), (3, 1), (0, 2), (0, 0), (1, 5))


class Box:
    def __init__(self, n):
        self.n = n

    @property
    def next(self):
        return self.n + 1


@cases(*PAIRS)
def of_lists_that_are_sorted_twice(a, n):
    rows = [[a, 1], [n]]
    rows.sort()
    rows.sort()
    found = 0
    match rows:
        case [[_], [*_]]:
            found = 1
        case [[*_], [m, *_]] if m:
            found = m
    return found


@cases(*PAIRS)
def of_a_property(a, n):
    match (n, Box(a)):
        case (2, Box(next=k)):
            return k
        case (5, Box(n=k, next=m)) if m > 3:
            return k + m
    return a - 100


@cases(*PAIRS)
def of_one_of_two_lists(a, n):
    xs = [i for i in range(n)]
    match xs if a > n else [1, 2]:
        case [x, y, *_]:
            return x + y
        case [x]:
            return x
    return -1


@cases(*PAIRS)
def of_a_tuple_with_one_of_two_lists(a, n):
    xs, ys = [i for i in range(n)], [i * 2 for i in range(a)]
    match (xs, 1) if a > n else (ys, 2):
        case ([x, y, *rest], k):
            return x + y + k, rest
        case ([x], 2 as k):
            return x, k
    return -1


class Counted:
    """Properties that change what is outside of them."""

    def __init__(self, n):
        self.n, self.log = n, []

    @property
    def raised(self):
        self.log.append("raised")
        self.n = self.n + 1
        return self.n


def _guarded(x):
    box = Counted(x)
    match box:
        case Counted(raised=k) if x > 2:
            found = k * 3
        case Counted(n=k):
            found = k * 5
    return found, box.log, box.n


def _behind_a_condition(x):
    box = Counted(x)
    match (x, box):
        case (2, Counted(raised=k)):
            found = k * 3
        case _:
            found = x
    return found, box.log, box.n


def test_a_property_is_read_once():
    staged = tg.function(_guarded)
    for x in (1.0, 3.0):
        assert staged(torch.tensor(x)) == _guarded(torch.tensor(x))
    with pytest.raises(tg.errors.StagingError, match="in front of the `match`"):
        tg.function(_behind_a_condition)(torch.tensor(2.0))


test_same = cases.test()
