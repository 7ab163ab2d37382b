"""Writes and deletions of slices where the list, a bound, or what is written is known only when the graph runs."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases
from tograph.errors import StagingError

cases = Cases()
rows = [([1.0, -2.0, 3.0],), ([-1.0, -2.0, -3.0],), ([1.0, 2.0, 3.0],)]


def positive(x):
    return [v for v in x if v > 0]


@cases(*rows)
def of_a_list_of_the_graph(x):
    a, b, c, d, e = (positive(x) for _ in range(5))
    a[1:2] = [x[0], x[1], x[2]]
    b[-1:] = (v * 2 for v in x if v < 0)
    c[:-1] = []
    d[3:1] = [x[0]]
    e[:] = e + e
    return a, b, c, d, e


@cases(*rows)
def with_bounds_of_the_graph(x):
    n = len(positive(x))
    a, b, c = (list(range(6)) for _ in range(3))
    other = a
    a[n : n + 2] = [7, 8, 9]
    del b[n:]
    del c[: n - 4]
    return a, b, c, other is a


@cases(*rows)
def of_what_has_the_length(x):
    a = [x[0], x[1]]
    a[1:] = positive(x)
    a[:0] = (v for v in x if v < 0)
    return a


@cases(*rows)
def in_branches_and_loops(x):
    a, b = positive(x), [0] * 4
    while len(a) > 1:
        a[:2] = [a[0] + a[1]]
    if x[0] > 0:
        b[1:3] = [5]
    else:
        del b[:1]
    return a, b


test_same = cases.test()


def test_steps_are_refused():
    @tg.function
    def f(x):
        a = [v for v in x if v > 0]
        a[::2] = [x[0]]
        return a

    with pytest.raises(StagingError, match="a slice with a step"):
        f(torch.ones(2))


@pytest.mark.parametrize("n", [1, 4])
def test_a_bound_that_is_no_number(n):
    for read in (lambda n: [1, 2, 3][n:"x"], lambda n: "abc"[n:"x"], lambda n: (1, 2)["a" : n + 1]):
        staged = tg.function(read)
        for _ in range(2):
            with pytest.raises(TypeError, match="slice indices must be integers or None"):
                staged(torch.tensor(n))


class Door(list):
    """Named as the lists of the graph name what they stand for."""

    handle = "brass"


def test_an_attribute_of_a_users_list_says_nothing_of_its_length():
    def swapped(x):
        parts = Door([1, 2, 3])
        parts[1:2] = [7, 8]
        return x + sum(parts), tuple(parts)

    x = torch.ones(2)
    found, parts = tg.function(swapped)(x)
    assert torch.equal(found, x + 19) and parts == (1, 7, 8, 3)
