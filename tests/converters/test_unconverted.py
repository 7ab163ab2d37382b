"""What functions of the standard library and of C change in a staged branch: undone where it is not taken, or an error."""

import array
import bisect
import collections
import heapq
import io
import itertools
import operator
import queue
import random

import numpy as np
import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()


@cases((1,), (-1,))
def heaps(x):
    xs, ys, zs = [3, 4], [9, 4, 3], [3, 4]
    if x > 0:
        heapq.heappush(xs, 1)
        heapq.heapify(ys)
        bisect.insort(zs, 0)
    return xs, ys, zs


@cases((1,), (-1,))
def operators_and_unbound_methods(x):
    xs, ys, zs, d = [1, 2], [1, 2], [1], {}
    if x > 0:
        operator.setitem(xs, 0, x)
        list.append(ys, 3)
        zs.__imul__(3)
        dict.__setitem__(d, "a", x)
    return xs, ys, zs, d.get("a", 5)


@cases((1,), (-1,))
def nested(x):
    xs = [[1], [2]]
    if x > 0:
        random.Random(0).shuffle(xs)
        heapq.heappush(xs[0], 0)
    return xs


@cases((1,), (-1,))
def user_containers(x):
    xs, d = collections.UserList([1, 2]), collections.UserDict(a=1)
    if x > 0:
        xs[0] = x
        d["a"] = 2 * x
    return xs.data, d["a"]


@cases((1,), (-1,))
def default_of_a_dict(x):
    d = collections.defaultdict(int)
    if x > 0:
        d["k"] += 1
    return len(d), d.get("k", 5)


@cases((1,), (-1,))
def attributes_by_their_dict(x):
    o = Data()
    if x > 0:
        o.__dict__["a"] = x
        vars(o).update(b=2)
    return o.a, o.b


class Data:
    def __init__(self):
        self.a, self.b = 0, 0


@cases((1,), (-1,))
def made_in_the_branch(x):
    n = 0
    if x > 0:
        numbers, text = np.zeros(2), io.StringIO()
        numbers[0] = 3
        text.write("abc")
        n = len(text.getvalue()) + int(numbers.sum())
    return n


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: np.zeros(2), lambda o: o.fill(3)),
        (lambda: np.zeros(2), lambda o: operator.setitem(o, 0, 1)),
        (lambda: array.array("d", [1.0]), lambda o: o.append(2)),
        (io.StringIO, lambda o: o.write("a")),
        (lambda: random.Random(0), lambda o: o.random()),
        (lambda: np.random.default_rng(0), lambda o: o.random()),
        (queue.Queue, lambda o: o.put(1)),
        (lambda: itertools.count(), next),
        (lambda: (i for i in range(3)), next),
    ],
)
def test_what_no_graph_can_undo_is_refused(make, change):
    held = make()

    def f(x, o):
        if x > 0:
            change(o)
        return x

    with pytest.raises(tg.errors.StagingError):
        tg.function(lambda x: f(x, held))(torch.tensor(1))


def test_keys_that_depend_on_a_condition_are_not_listed():
    def counter(x):
        found = collections.Counter("ab")
        if x > 0:
            found["z"] += 1
        return sorted(found.items())

    def holder(x):
        found = collections.UserDict(a=1)
        if x > 0:
            found["b"] = 2
        return sorted(found)

    for f in (counter, holder):
        with pytest.raises(tg.errors.StagingError, match="keys of this dict"):
            tg.function(f)(torch.tensor(1))


test_same = cases.test()
