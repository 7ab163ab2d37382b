"""``while True`` that only an exception of the run leaves: a loop of the graph."""

import pytest
import torch

import tograph as tg


class Done(Exception):
    pass


def raises_when_done(x):
    n = 0
    try:
        while True:
            x = x * 2
            n += 1
            if x > 50:
                raise Done
    except Done:
        return x, n


def fails_at_an_assert(x):
    while 1:
        x = x * 2
        assert x < 100, "too large"


def pops_all(x):
    xs, total = [], 0.0
    while len(xs) < x:
        xs.append(x * len(xs))
    try:
        while True:
            total = total + xs.pop()
    except IndexError:
        return total


def ends_with_its_iterator(x):
    it = iter([torch.sin, torch.cos, torch.exp])
    try:
        while True:
            x = next(it)(x)
            assert x < 1000
    except StopIteration:
        return x


@pytest.mark.parametrize("function", [raises_when_done, fails_at_an_assert, pops_all, ends_with_its_iterator])  # fmt: skip
def test_a_loop_that_only_an_exception_leaves(function):
    def outcome(f, x):
        try:
            return f(torch.tensor(x))
        except AssertionError as error:
            return str(error).splitlines()[0]

    staged = tg.function(function)
    for x in (1.0, 3.0, 60.0):
        wanted, found = outcome(function, x), outcome(staged, x)
        assert wanted == found
    assert staged.trace_count == 1
