"""Sets and dicts whose items depend on a staged condition: changed, asked, gone over, returned, printed."""

import collections

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases
from tograph.errors import StagingError

cases = Cases()


@cases((1,), (-1,))
def added_and_removed(x):
    s = {"a", "b"}
    if x > 0:
        s.add("c")
    else:
        s.discard("a")
    return "a" in s, "b" in s, "c" in s, len(s)


@cases((1,), (-1,))
def removed_twice(x):
    s = {"a", "b"}
    if x > 0:
        s.remove("a")
    s.remove("a")
    return len(s)


@cases((1,), (-1,))
def a_missing_item_is_caught(x):
    s = {"a"}
    if x > 0:
        s.add("q")
    try:
        s.remove("q")
    except KeyError:
        return x * 5
    return x + len(s)


@cases((1,), (-1,))
def updated(x):
    s, t, u = {1, 2}, {2, 3}, {1, 2}
    if x > 0:
        s.update([3, 4])
        t &= {2}
        u.clear()
    else:
        s |= {5}
        t ^= {1, 2}
        u -= {1}
    u.add(1)
    return sum(s), max(s), len(s), len(t), sum(t), 1 in u, 2 in u


@cases((1,), (-1,))
def operators(x):
    a, b = {1, 2}, {2, 3}
    if x > 0:
        a.add(3)
    both, either, less, one = a & b, a | b, a - b, a ^ b
    copy = a.copy()
    copy.discard(3)
    return len(both), len(either), len(less), sum(one), len(copy), 3 in a, len(set(a))


@cases((1,), (-1,))
def gone_over(x):
    s = {1, 2, 3}
    if x > 0:
        s.add(9)
    total, early = 0, 0
    for i in s:
        total = total + i
    for i in s:
        if i == 9:
            break
        early = early + i
    return total, early, sorted(s), len(list(s)), any(i > 3 for i in s), len({i * 2 for i in s})


@cases((1,), (-1,))
def as_a_condition(x):
    s, d = set(), {}
    if x > 0:
        s.add(1)
        d["k"] = 1
    n = 0
    if s:
        n = n + 1
    if not d:
        n = n + 10
    return n, bool(s), s == {1}, d == {"k": 1}, d != {}


@cases((3,), (-3,))
def in_loops(x):
    seen, odd = {0}, set()
    n = 0
    for i in range(6):
        if x * i > 5:
            if i not in seen:
                seen.add(i)
                n = n + 1
            else:
                seen.discard(i)
    i = x * 0
    while i < 5:
        if i % 2 == 0:
            odd.add("even")
        else:
            odd.add("odd")
        if "odd" in odd:
            n = n + 10
        i = i + 1
    return n, len(seen), len(odd)


@cases((1,), (-1,))
def returned_and_printed(x):
    s, d = {1}, {"a": 1}
    if x > 0:
        s.add(2)
        d["b"] = 2
    print(s, d, f"{s}")
    return s, [s], d


@cases((1,), (-1,))
def dicts_gone_over(x):
    d = {"a": x}
    if x > 0:
        d["b"] = x * 2
    n = 0
    for k in d:
        n = n + d[k]
    m = 0
    for k, v in d.items():
        m = m + v if k == "a" else m - v
    return n, m, sum(d.values()), {k: v + 1 for k, v in d.items()}, len(d)


@cases((1,), (-1,))
def counters(x):
    c = collections.Counter()
    if x > 0:
        c["a"] += 2
        c["b"] += 1
    else:
        c["z"] += 1
    return len(c), sum(c.values()), c["a"], c["z"]


@cases.tensors((1,), (-1,))
def tensors(x):
    a, b = x * 2, x * 3
    s = {a}
    if x > 0:
        s.add(b)
    return a in s, b in s, len(s)


def ordered(d, x):
    n = x * 0
    for k in d:
        n = n * 10 + d[k]
    return n


def test_an_argument_whose_keys_are_in_another_order_is_another_argument():
    f, x = tg.function(ordered), torch.tensor(1.0)
    assert f({"a": 1.0, "b": 2.0}, x) == 12
    assert f({"b": 2.0, "a": 1.0}, x) == 21
    assert f({"a": 1.0, "b": 2.0}, x) == 12
    assert f.trace_count == 2


def test_outer_sets_change_at_every_call():
    held = {"a"}

    class Module:
        def __init__(self):
            self.seen = set()

        def __call__(self, x):
            if x > 0:
                self.seen.add("positive")
                held.discard("a")
            else:
                self.seen.add("other")
                held.add("b")
            return x + len(self.seen)

    m = Module()
    f = tg.function(m)
    for value, seen, outer in [(-1, {"other"}, {"a", "b"}), (1, {"other", "positive"}, {"b"}), (-1, {"other", "positive"}, {"b"})]:  # fmt: skip
        assert f(torch.tensor(value)) == value + len(seen)
        assert m.seen == seen
        assert held == outer


@cases.tensors((torch.tensor(1.0),), (torch.tensor(-1.0),))
def late(x):
    d = {}
    if x > 0:
        d["a"] = 1.0
    d["b"] = 2.0
    d["a"] = 3.0
    return ordered(d, x)


@cases.tensors((torch.tensor(1.0),), (torch.tensor(-1.0),))
def crossed(x):
    d = {}
    if x > 0:
        d["a"], d["b"] = 1.0, 2.0
    else:
        d["b"], d["a"] = 2.0, 1.0
    return ordered(d, x)


@cases((1.0,), (-1.0,))
def moved(x):
    d = {"a": 1.0, "b": 2.0}
    if x > 0:
        del d["a"]
    d["a"] = 5.0
    return ordered(d, x)


@cases((1.0,), (-1.0,))
def swapped(x):
    d = {"a": 1.0, "b": 2.0}
    if x > 0:
        d["a"] = d.pop("a")
    return ordered(d, x)


@cases((1.0,), (-1.0,))
def spread(x):
    d = {"a": x}
    if x > 0:
        d["b"] = x

    def inner(a, b=0, **rest):
        return a + b, len(rest)

    def names(**given):
        return list(given)

    return inner(**d), inner(c=1, **d), names(**d), dict(**d)


@cases((1.0,), (-1.0,))
def popped(x):
    s = {1}
    if x > 0:
        s.add(2)
    return s.pop()


@cases((1.0,), (-1.0,))
def subset(x):
    s = {1}
    if x > 0:
        s.add(2)
    return s <= {1, 2}


@cases((1.0,), (-1.0,))
def related(x):
    s, few = {1}, {5}
    if x > 0:
        s.add(2)
        few.discard(5)
    d, fixed = with_keys(x), frozenset([1, 2])
    asked = [
        s.isdisjoint([2]),
        s.issubset(range(3)),
        s.issuperset({2}),
        {1, 2}.issubset(s),
        fixed.isdisjoint(few),
    ]
    ordered = [
        s < fixed,
        s <= fixed,
        fixed <= s,
        s > few,
        s >= {1},
        few < s,
        s < s,
        {0, 2} <= d.keys(),
    ]
    return asked, ordered, d.keys().isdisjoint([2])


@cases((1.0,), (-1.0,))
def popped_to_the_end(x):
    s, found = {1, 2}, 0
    if x > 0:
        s.discard(1)
    while s:
        found = found * 10 + s.pop()
    try:
        s.pop()
    except KeyError as error:
        return found, str(error), s


def frozen(x):
    s = {1}
    if x > 0:
        s.add(2)
    return len(frozenset(s))


def made_in_a_branch(x):
    s, y = set(), x
    if x > 0:
        y = x * 2
        s.add(y)
    return y in s


@cases((1.0,), (-1.0,))
def with_enumerate(x):
    s = {1}
    if x > 0:
        s.add(2)
    n = 0
    for i, v in enumerate(s):
        n = n + i * v
    return n


def with_keys(x):
    d = {0: x}
    if x > 0:
        d[2] = x
    return d


@cases((1,), (-1,))
def keys_as_sets(x):
    d, e, plain = with_keys(x), with_keys(-x), {0: 1, 5: 2}
    with_sets = [d.keys() - {0}, d.keys() & {0, 2}, d.keys() | {7}, d.keys() ^ {0, 9}, {0, 2} - d.keys()]  # fmt: skip
    with_keys_ = [d.keys() | e.keys(), d.keys() & e.keys(), plain.keys() - d.keys(), d.keys() - plain.keys()]  # fmt: skip
    return [sorted(s) for s in with_sets + with_keys_], len(d)


@cases((1,), (-1,))
def filled_by_missing_keys(x):
    d = with_keys(x)
    for k in sorted({0, 1, 2} - d.keys()):
        d[k] = x * k
    return d[0] + d[1] + d[2]


@cases((1,), (-1,))
def keys_with_what_is_no_set(x):
    d, e, s = with_keys(x), with_keys(-x), {2, 8}
    kept = s
    s -= d.keys()
    found = [d.keys() - [0], [2, 4] - d.keys(), frozenset([2, 4]) - d.keys(), (2,) ^ d.keys(), d.keys() & e]  # fmt: skip
    return [sorted(k) for k in found], sorted(s), sorted(kept)


@cases((1,), (-1,))
def keys_compared_and_asked(x):
    d, e = with_keys(x), with_keys(-x)
    same = [d.keys() == {0}, {0, 2} == d.keys(), d.keys() != e.keys(), d.keys() == with_keys(x).keys()]  # fmt: skip
    f = {}
    if x > 0:
        f[1] = x
    return same, d.keys() == [0], len(d.keys()), 2 in d.keys(), bool(f.values()), 1 if f.keys() else 2  # fmt: skip


def items_compared(x):
    return with_keys(x).items() == with_keys(x).items()


def items_as_a_set(x):
    return with_keys(x).items() - {(0, 1)}


@cases((1.0,), (-1.0,))
def keys_ordered(x):
    return with_keys(x).keys() <= {0, 2}


REFUSED = [items_compared, items_as_a_set, frozen, made_in_a_branch]  # fmt: skip


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_refused(f):
    with pytest.raises(tg.errors.StagingError):
        tg.function(f)(torch.tensor(1.0))


test_same = cases.test()


def test_plain_keys_beside_a_set_with_conditions():
    def f(x):
        a, d = {1, 2}, {1: 1}
        if x > 0:
            a.discard(1)
        keys = d.keys()
        compared = [keys <= a, keys < a, a >= keys, a == keys]
        both, left, one = keys & a, keys - a, keys ^ a
        return compared, [1 in both, 1 in a & keys], [1 in left], [1 in one, 2 in one]

    for x in (torch.tensor(1.0), torch.tensor(-1.0)):
        assert tg.function(f)(x) == f(x)


def test_a_frozenset_does_not_take_conditions():
    @tg.function
    def f(x):
        a = {1, 2}
        if x > 0:
            a.discard(1)
        return frozenset({1, 2}) - a

    with pytest.raises(StagingError, match="depends on a staged condition"):
        f(torch.tensor(1.0))
