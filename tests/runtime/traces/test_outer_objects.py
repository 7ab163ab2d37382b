"""Objects from outside that a staged condition puts into attributes and containers: each call leaves the object itself there."""

import types

import pytest
import torch

import tograph as tg


class Node:
    def __init__(self, v, after=None):
        self.v, self.after = v, after


class Machine:
    """Two states, one of which is the current one."""

    def __init__(self):
        self.parts = [Node(1.0), Node(2.0)]
        self.state, self.before = self.parts[0], None

    def step(self, x):
        if self.state.v < 2:
            if x > 0:
                self.before, self.state = self.state, self.parts[1]
        elif x < 0:
            self.before, self.state = self.state, self.parts[0]
        return x * self.state.v


class Chain:
    """A place in a chain of objects."""

    def __init__(self):
        last = Node(3.0)
        self.parts = [Node(1.0, last), last]
        self.at = self.parts[0]

    def step(self, x):
        if x > 0 and self.at.after is not None:
            self.at = self.at.after
        elif x < 0:
            self.at = self.parts[0]
        return self.at.v


class Owner:
    """None or one of two, which changes."""

    def __init__(self):
        self.parts, self.of, self.listed = [Node(1.0), Node(2.0)], None, {}

    def step(self, x):
        if x > 1:
            self.of = self.parts[0]
        elif x > 0:
            self.of = self.listed["b"] = self.parts[1]
        else:
            self.of = None
        if self.of is not None:
            self.of.v = self.of.v + 1
        return x


class Swapped:
    def __init__(self):
        self.parts = [Node(1.0), Node(2.0)]
        self.pair = [*self.parts]

    def step(self, x):
        if x > 0:
            self.pair[0], self.pair[1] = self.pair[1], self.pair[0]
        self.pair[0].v = self.pair[0].v + 10
        return self.pair[0].v - self.pair[1].v


class Chosen:
    """The best of several, found by a loop; a new one where none is good."""

    def __init__(self):
        self.parts, self.best = [Node(1.0), Node(2.0)], None

    def step(self, x):
        best = self.parts[0]
        for part in self.parts:
            if part.v < x:
                best = part
        if x > 4:
            self.best = Node(x)
        else:
            self.best = best
        self.best.v = self.best.v + 0.5
        return best if x > 3 else self.parts[1]


def seen(x, parts):
    """What a value is, with the parts by their numbers."""
    if isinstance(x, (list, dict)):
        return [seen(v, parts) for v in (x if isinstance(x, list) else x.values())]
    if isinstance(x, Node):
        return next((i for i, p in enumerate(parts) if p is x), ("new", float(x.v)))
    return x if x is None else float(x)


@pytest.mark.parametrize("cls", [Machine, Chain, Owner, Swapped, Chosen])
def test_an_object_that_a_staged_condition_puts_somewhere(cls):
    found = []
    for convert in (lambda f: f, tg.function):
        o, log = cls(), []
        step = convert(o.step)
        for v in (-1.0, 1.5, 0.5, -2.0, 2.0, 3.5, 1.0, 5.0):
            log.append(seen(step(torch.tensor(v)), o.parts))
            log.append([seen(x, o.parts) for x in vars(o).values()])
            log.append([float(p.v) for p in o.parts])
        found.append(log)
    assert found[0] == found[1]


class Held:
    def __init__(self, x):
        self.x = x


def moved_on(e, y):
    if y.sum() < 4:
        e.now = Held(y)
    else:
        e.before[0] = e.now
    e.now = Held(y * 2)
    return y


def test_what_a_call_moves_out_of_the_one_place_that_holds_it():
    found = []
    for f in (moved_on, tg.function(moved_on)):
        e, out = types.SimpleNamespace(now=Held(torch.ones(2)), before=[Held(torch.zeros(2))]), []
        for v in (1.0, 5.0, 5.0, 1.0, 5.0):
            f(e, torch.full((2,), v))
            out.append([h.x.tolist() for h in (e.now, *e.before)])
        found.append(out)
    assert found[0] == found[1]


class Notes:
    def __init__(self):
        self.rows = []


def in_tuples_of_two_lengths(o, x):
    if x[0] > 1:
        o.rows.append(2)
    if x.sum() > 3:
        return x, o
    return x, o, 1


def deeper(o, x):
    if x[0] > 1:
        o.rows.append(2)
    return (x, (o, 1)) if x.sum() > 3 else (x, (o,))


def under_other_keys(o, x):
    if x[0] > 1:
        o.rows.append(2)
    return {"a": o, "b": x} if x.sum() > 3 else {"c": o}


def held(result):
    if isinstance(result, Notes):
        return result
    parts = result.values() if isinstance(result, dict) else result
    return next(
        (o for p in parts if isinstance(p, (tuple, Notes)) and (o := held(p)) is not None), None
    )


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("f", [in_tuples_of_two_lengths, deeper, under_other_keys])
def test_an_object_that_each_path_returns_in_another_structure_is_that_object(f, opened):
    staged = tg.function(f)
    if opened:  # as it is from the second call on, if the object of the first one is gone
        staged.records.classes = frozenset({Notes})
    for x in (torch.tensor([2.0, 2.0]), torch.tensor([2.0, 0.0]), torch.tensor([0.0, 1.0])):
        o, plain = Notes(), Notes()
        f(plain, x)
        assert held(staged(o, x)) is o
        assert o.rows == plain.rows
