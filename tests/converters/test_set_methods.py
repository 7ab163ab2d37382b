"""Sets of the graph beside sets, lists and displays of Python."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()
ROWS = (torch.tensor([3, 1, 3]),), (torch.tensor([1, 2, 9]),), (torch.tensor([4, 9, 2]),)


def sets(x):
    p = {1, 2, 9}
    q = set()
    q.add(int(x[0]))
    q.add(int(x[1]))
    return p, q


@cases.tensors(*ROWS)
def orders(x):
    p, q = sets(x)
    plain = frozenset(p)
    return (
        p <= q,
        p < q,
        p >= q,
        p > q,
        q <= p,
        q < p,
        q >= p,
        q > p,
        plain <= q,
        q < plain,
        q <= q,
        q < q,
    )


@cases.tensors(*ROWS)
def asked(x):
    p, q = sets(x)
    some = [int(x[0]), 2]
    found = p.isdisjoint(q), p.issubset(q), p.issuperset(q), frozenset(p).issuperset(q)
    return found, p.isdisjoint(some), p.issubset([1, 2, 9, int(x[0])]), p.issuperset(some)


@cases.tensors(*ROWS)
def made(x):
    p, q = sets(x)
    some = (int(x[0]), 2)
    found = (
        p.union(q),
        p.difference(q),
        p.intersection(q),
        p.symmetric_difference(q),
        p.union(q, [7]),
    )
    return found, p.union(some), p.difference(some), p.intersection(some, [1, 2])


@cases.tensors(*ROWS)
def changed(x):
    found = []
    for k in range(4):
        p, q = sets(x)
        if k == 0:
            p.difference_update(q)
        elif k == 1:
            p.intersection_update(q)
        elif k == 2:
            p.symmetric_difference_update(q)
        else:
            p.difference_update([int(x[0])], [2])
        found.append(p)
    return found


@cases.tensors(*ROWS)
def displays(x):
    p, q = sets(x)
    one, some = {1}, {3, 4} if x[0] > 2 else {5}
    if x[0] > 1:
        one.add(8)
    return {*p, *q, 4}, {*p, int(x[0])}, {*range(3), *(k * 2 for k in range(3))}, {*some, 1}, {*one, 2}, {*{"k": 1}}  # fmt: skip


@cases.tensors(*ROWS)
def replaced_in_a_loop(x):
    seen, i = {0}, 0
    while i < x[2] and i < 3:
        seen = seen.union({int(x[i])})
        seen = seen | {int(x[i]) + 1}
        i += 1
    return seen


test_same = cases.test()


@pytest.mark.parametrize(
    "change", [lambda p, q: p | q, lambda p, q: p.union(q), lambda p, q: p - q]
)
def test_a_frozenset_beside_a_set_of_the_graph_is_refused(change):
    def f(x):
        p, q = sets(x)
        return change(frozenset(p), q)

    with pytest.raises(tg.errors.StagingError, match="frozenset"):
        tg.function(f)(*ROWS[0])
