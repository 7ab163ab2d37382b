"""Dicts and sets from outside that get keys which only the run knows, against plain Python."""

from collections import Counter, defaultdict

import pytest
import torch

import tograph as tg


class Owner:
    def __init__(self):
        self.seen, self.counts, self.sums = {}, Counter(), defaultdict(float)
        self.members, self.inner = set(), {"table": {}}


def new_key(o, x):
    o.seen[int(x[0])] = x[1].item()
    return x * 2


def counted(o, x):
    for v in x:
        o.counts[int(v)] += 1
    return o.counts[3], len(o.counts)


def by_pairs(o, x):
    key = int(x[0]), int(x[1])
    o.sums[key] += 0.5 * (x[2].item() - o.sums[key])
    return o.sums[key]


def of_members(o, x):
    fresh = 0
    for v in x:
        fresh += int(v) not in o.members
        o.members.add(int(v))
    return fresh


def bounded(o, x):
    table = o.inner["table"]
    table[f"at {int(x[0])}"] = int(x[2])
    if len(table) > 2:
        del table[next(iter(table))]
    return o.inner["table"] is table


def before_a_failure(o, x):
    o.seen[int(x[0])] = 1
    if x[2] > 5:
        raise ValueError("large")
    o.seen[int(x[1])] = 2


def made_anew(o, x):
    o.seen = {}
    for v in x:
        o.seen[int(v)] = 1
    return len(o.seen)


CALLS = [torch.tensor(v) for v in ([1, 3, 2], [5, 3, 2], [1, 3, 9], [-1, 3, 2], [1, 3, 2])]


def outcomes(function):
    o, found = Owner(), []
    for x in CALLS:
        try:
            found.append(str(function(o, x)))
        except ValueError as error:
            found.append(str(error).splitlines()[0])
        found.append(repr(vars(o)))
    return found


@pytest.mark.parametrize(
    "f", [new_key, counted, by_pairs, of_members, bounded, before_a_failure, made_anew]
)
def test_a_staged_key_of_a_dict_outside(f):
    assert outcomes(tg.function(f)) == outcomes(f)


def test_a_staged_key_of_a_dict_that_is_passed():
    def f(x, table):
        table[int(x[0])] = table.get(int(x[0]), 0) + 1
        return table

    given = {}
    for x in CALLS:
        assert tg.function(f)(x, given) is given
    assert given == {1: 3, 5: 1, -1: 1}


def test_a_count_under_a_key_that_is_there_needs_no_trace():
    o, f = Owner(), tg.function(counted)
    for _ in range(6):
        f(o, CALLS[0])
    assert o.counts == {1: 6, 3: 6, 2: 6}
    assert f.trace_count <= 4


def put_tensor(o, x):
    o.seen[int(x[0])] = x * 2


def in_two_places(o, x):
    o.inner = o.seen
    o.members = o.seen
    o.seen[int(x[0])] = 1
    return len(OTHER)


OTHER = {}


@pytest.mark.parametrize(
    ("f", "message"), [(put_tensor, "only numbers and strings"), (in_two_places, "OTHER.*one dict")]
)
def test_what_such_a_dict_does_not_take(f, message):
    o = Owner()
    o.seen = OTHER
    with pytest.raises(tg.errors.StagingError, match=message):
        tg.function(f)(o, CALLS[0])
    assert o.seen is OTHER
    assert not OTHER


def test_an_error_behind_the_code_leaves_objects_as_they_were():
    def f(o, x):
        o.seen = x * 2
        return (v for v in x)

    o = Owner()
    with pytest.raises(tg.errors.ScopeError):
        tg.function(f)(o, CALLS[0])
    assert o.seen == {}


def test_a_dict_that_is_an_argument_too_gets_no_new_keys():
    def f(o, x, d):
        o.seen[int(x.sum())] = 1
        return len(d)

    o = Owner()
    with pytest.raises(tg.errors.StagingError, match="use it by one of the two"):
        tg.function(f)(o, CALLS[0], o.seen)
    assert o.seen == {}
