"""Sets as arguments: what they hold is part of the trace, and their changes go to the caller's."""

import pytest
import torch

import tograph as tg

T = torch.tensor


def until(x, stops, limit=20):
    n = 0
    while int(x) not in stops and n < limit:
        x, n = x + 1, n + 1
    return x, n


def changed(x, marks):
    if x > 0:
        marks.add(3)
    else:
        marks.discard(1)
    return len(marks), 1 in marks, x * 2


def gathered(x, seen):
    while x < 5:
        seen.add(int(x))
        x = x + 2
    return len(seen), sorted(seen)


def in_order(x, values):
    for v in values:
        x = x * 2 + v
        if x > 100:
            break
    return x


def test_what_a_set_holds_is_part_of_the_trace():
    staged = tg.function(until)
    for x, stops in ((1, {5, 7}), (6, {7, 5}), (6, set()), (3, {4})):
        assert staged(T(x), stops) == until(T(x), stops)
    assert staged.trace_count == 3


@pytest.mark.parametrize("f", [changed, gathered])
@pytest.mark.parametrize("held", [(1, 2), (), (3,)])
def test_changes_go_to_the_set_of_the_caller(f, held):
    staged = tg.function(f)
    for x in (1, -1, 8):
        wanted, given = set(held), set(held)
        assert staged(T(x), given) == f(T(x), wanted)
        assert given == wanted


def test_two_arguments_may_be_one_set():
    def both(x, d):
        if x > 0:
            d["a"].add(2)
        return 2 in d["b"], d["a"] is d["b"]

    staged, one = tg.function(both), {1}
    assert staged(T(1), {"a": one, "b": one}) == (True, True)
    assert staged(T(1), {"a": {1}, "b": {1}}) == (False, False)
    assert one == {1, 2}


@pytest.mark.parametrize("kind", [set, frozenset])
def test_a_loop_over_a_set_has_the_order_of_that_set(kind):
    """8 and 0 have one place in a small set: the first one that came is first."""
    staged = tg.function(in_order)
    for values in (kind([8, 0]), kind([0, 8])):
        assert staged(T(1), values) == in_order(T(1), values)


def test_a_set_whose_copy_has_another_order_and_one_of_objects_are_themselves():
    lost = {0, 8, 16, 24, 32}
    for v in (0, 16):
        lost.discard(v)
    staged = tg.function(in_order)
    assert staged(T(1), lost) == in_order(T(1), lost)
    lost.add(16)
    assert staged(T(1), lost) == in_order(T(1), lost)
    thing = object()
    has = tg.function(lambda x, s: x + (thing in s))
    assert has(T(1), {thing}) == 2 and has(T(1), {object()}) == 1


def test_a_set_among_other_arguments():
    def total(x, *sets, **more):
        return x + sum(set().union(*sets)) + len(more.get("s", ()))

    staged = tg.function(total)
    assert staged(T(1), {1}, {2, 3}, s={4}) == 8 and staged(T(1), {1}) == 2
