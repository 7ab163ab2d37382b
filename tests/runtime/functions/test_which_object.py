"""Objects that are made for each call, of which the code asks which they are, or that Python which the graph calls finds: native against `tg.function`."""

import weakref

import pytest
import torch

import tograph as tg


class Item:
    def __init__(self, k):
        self.k = k


SEEN, TABLE, LIST, LAST, REFERENCES = set(), {}, [], [None], []


def among_members(p, x):
    return x * (2 if p in SEEN else 1)


def under_a_key(p, x):
    return x * TABLE.get(p, 1.0)


def in_a_list(p, x):
    return x * (2 + LIST.index(p) if p in LIST else 1)


def one(p, x):
    return x * (2 if p is LAST[0] else 1)


def equal(p, x):
    return x * (2 if p == LAST[0] else 1)


def by_its_number(p, x):
    return x * (2 if id(p) == id(LAST[0]) else 1) * (3 if hash(p) == hash(LAST[0]) else 1)


def in_new_containers(p, x):
    return x * len({p, LAST[0]}) + len({LAST[0]: 1, p: 2})


def added(p, x):
    SEEN.add(p)
    TABLE[p] = 3.0
    return x * len(SEEN)


def referred_to(p, x):
    REFERENCES.append(weakref.ref(p))
    return x


def called(p, x):
    return tg.py_function(lambda v: v * p.k, [x], tg.TensorSpec([2], torch.float32))


def counted_within(p, x):
    known = set()
    for q in (p, LAST[0], p):
        known.add(q)
    return x * len(known)


def in_tuples(p, x):
    return x * (2 if (p, 1) == (LAST[0], 1) else 1) * len({(p,), (LAST[0],)})


def in_a_tuple_that_is_a_key(p, x):
    return x * PAIRS.get((p, 1), 1.0)


def in_lists_and_dicts(p, x):
    return x * (2 if [[p]] == [LIST] else 1) * (3 if {"a": p} == {"a": LAST[0]} else 1)


PAIRS = {}
PROGRAMS = [in_tuples, in_a_tuple_that_is_a_key, in_lists_and_dicts, among_members, under_a_key, in_a_list, one, equal, by_its_number, in_new_containers, added, referred_to, called, counted_within]  # fmt: skip


def shown(run, kept):
    """What eight calls give, each with an object of its own but two with that which stands outside."""
    for c in (SEEN, TABLE, LIST, PAIRS, REFERENCES):
        c.clear()
    first = LAST[0] = Item(5.0)
    SEEN.add(first)
    TABLE[first] = PAIRS[first, 1] = 7.0
    LIST.append(first)
    log, held = [], []
    for i in range(8):
        p = first if i in (5, 7) else Item(5.0)
        held = [*held, p][-kept:]
        x = torch.tensor([1.0, float(i % 2)])
        log.append([run(p, x).tolist(), [r() is p for r in REFERENCES[-1:]], p in SEEN, p in TABLE])
    return log


@pytest.mark.parametrize("kept", [1, 8])
@pytest.mark.parametrize("f", PROGRAMS)
def test_as_in_python(f, kept, caplog):
    caplog.set_level("ERROR")  # of those that trace often
    assert shown(f, kept) == shown(tg.function(f), kept)


def test_what_is_known_of_two_of_one_call_needs_no_trace_of_its_own():
    def f(a, b, x):
        return x * (2 if a is b else 1) * len({a, b})

    staged, x = tg.function(f), torch.tensor(1.0)
    for i in range(12):
        a = Item(1.0)
        b = a if i % 2 else Item(1.0)
        assert staged(a, b, x) == f(a, b, x)
    assert staged.trace_count <= 7  # the objects of the first calls may be there yet


class Table:
    def __init__(self):
        self.at, self.key = {}, Item(1.0)
        self.at[self.key] = 3.0


def test_an_object_that_is_a_key_of_what_it_comes_with():
    staged = tg.function(lambda t, x: x * t.at.get(t.key, 0.0))
    assert [staged(Table(), torch.tensor(2.0)).item() for _ in range(6)] == [6.0] * 6


class Counts:
    def __init__(self):
        self.of = {}


def test_new_keys_of_a_dict_that_an_object_of_the_call_holds():
    def f(c, x):
        for v in x:
            c.of[int(v)] = c.of.get(int(v), 0) + 1
        return x

    staged = tg.function(f)
    for i in range(6):
        mine, plain, x = Counts(), Counts(), torch.tensor([1.0, float(i), 1.0])
        staged(mine, x)
        f(plain, x)
        assert mine.of == plain.of
