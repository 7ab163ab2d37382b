"""Reads of Python values: a change between calls of what the code looked at is seen."""

import collections
import os
from typing import NamedTuple

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook

import tograph as tg


class Config(dict):
    """A dict of a class of its own."""


class Items(list):
    """A list of a class of its own."""


class Base:
    scale = 2.0

    @classmethod
    def scaled(cls, x):
        return x * cls.scale


class Layer(torch.nn.Module):
    def forward(self, x):
        return x + 1


OWN = ("__dict__", "__weakref__")


class Members:
    rate = 2.0
    activation = staticmethod(torch.relu)

    def scaled(self, x):
        return x * 2

    @staticmethod
    def shifted(x):
        return x + 1

    @classmethod
    def doubled(cls, x):
        return x * 2

    @property
    def bias(self):
        return 1.0

    def __call__(self, x):
        return x + 2

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return i + 5

    def __add__(self, x):
        return x * 3


class Other:
    def scaled(self, x):
        return x * 11


class Holder:
    def __init__(self):
        self.a = 1


class State:
    def __init__(self):
        global Made, MadeBase  # each case changes classes of its own
        MadeBase = type("MadeBase", (), {n: m for n, m in vars(Members).items() if n not in OWN})
        Made = type("Made", (MadeBase,), {})
        self.made = Made()
        self.plain, self.hidden = Holder(), torch.ones(2, requires_grad=True)
        self.parameters = torch.nn.ParameterList([torch.ones(4), torch.ones(4)])
        self.weight, self.linear = torch.ones(2), torch.nn.Linear(4, 4)
        self.config, self.items, self.base = Config(rate=1.0), Items([1.0, 2.0]), Base()
        self.counts, self.default = collections.Counter(a=1), collections.defaultdict(float)
        self.layer, self.named = Layer(), Config()


CASES = {
    "item of a dict's class": (lambda s, x: x * s.config["rate"], lambda s: s.config.update(rate=5.0)),
    "get of a dict's class": (lambda s, x: x * s.config.get("rate", 0), lambda s: s.config.update(rate=5.0)),
    "length of a dict's class": (lambda s, x: x * len(s.named) + x, lambda s: s.named.update(a=1)),
    "item of a list's class": (lambda s, x: x * s.items[0], lambda s: s.items.__setitem__(0, 5.0)),
    "items of a list's class": (lambda s, x: x * sum(s.items), lambda s: s.items.append(3.0)),
    "length of a list's class": (lambda s, x: x * len(s.items), lambda s: s.items.append(3.0)),
    "counts": (lambda s, x: x * s.counts["a"], lambda s: s.counts.update("a")),
    "a count that is missing": (lambda s, x: x + s.counts["b"], lambda s: s.counts.update("b")),
    "all counts": (lambda s, x: x * sum(s.counts.values()), lambda s: s.counts.update("a")),
    "a default": (lambda s, x: x + s.default["k"], lambda s: s.default.update(k=4.0)),
    "an attribute of cls": (lambda s, x: s.base.scaled(x), lambda s: setattr(Base, "scale", Base.scale + 1)),
    "forward of one module": (lambda s, x: s.layer(x), lambda s: setattr(s.layer, "forward", lambda x: x * 50)),
    "a method": (lambda s, x: s.made.scaled(x), lambda s: setattr(Made, "scaled", lambda self, x: x * 7)),
    "a method of a base": (lambda s, x: s.made.scaled(x), lambda s: setattr(MadeBase, "scaled", lambda self, x: x * 7)),
    "a method of one object": (lambda s, x: s.made.scaled(x), lambda s: setattr(s.made, "scaled", lambda x: x * 7)),
    "a method by the class": (lambda s, x: Made.scaled(s.made, x), lambda s: setattr(Made, "scaled", lambda self, x: x * 7)),
    "the bases of a class": (lambda s, x: s.made.scaled(x), lambda s: setattr(Made, "__bases__", (Other,))),
    "a static method": (lambda s, x: s.made.shifted(x), lambda s: setattr(Made, "shifted", staticmethod(lambda x: x - 5))),
    "a static method of C": (lambda s, x: Made.activation(x), lambda s: setattr(Made, "activation", staticmethod(torch.neg))),
    "a class method": (lambda s, x: Made.doubled(x), lambda s: setattr(Made, "doubled", classmethod(lambda cls, x: x * 9))),
    "a property": (lambda s, x: x + s.made.bias, lambda s: setattr(Made, "bias", property(lambda self: 8.0))),
    "a call": (lambda s, x: s.made(x), lambda s: setattr(Made, "__call__", lambda self, x: x - 2)),
    "a length": (lambda s, x: x + len(s.made), lambda s: setattr(Made, "__len__", lambda self: 9)),
    "an index": (lambda s, x: x + s.made[1], lambda s: setattr(Made, "__getitem__", lambda self, i: i)),
    "an operator": (lambda s, x: s.made + x, lambda s: setattr(Made, "__add__", lambda self, x: x * 9)),
    "forward of a class": (lambda s, x: s.layer(x), lambda s: setattr(type(s.layer), "forward", lambda self, x: x * 50)),
    "an attribute by vars": (lambda s, x: x + sum(vars(s.plain).values()), lambda s: setattr(s.plain, "a", 5)),
    "one more by vars": (lambda s, x: x + sum(vars(s.plain).values()), lambda s: setattr(s.plain, "b", 5)),
    "an attribute by __dict__": (lambda s, x: x + s.plain.__dict__["a"], lambda s: setattr(s.plain, "a", 5)),
    "os.environ": (lambda s, x: x + len(os.environ["PATH"]), lambda s: os.environ.update(PATH=os.environ["PATH"] + ":")),
    "os.getenv": (lambda s, x: x + float(os.getenv("TOGRAPH_READS", "1")), lambda s: os.environ.update(TOGRAPH_READS="2")),
    "a member of os.environ": (lambda s, x: x + ("TOGRAPH_IN" in os.environ), lambda s: os.environ.update(TOGRAPH_IN="2")),
    "a parameter by its number": (lambda s, x: sum(p * x for p in s.parameters), lambda s: s.parameters.__setitem__(1, torch.zeros(4))),
    "requires_grad of a tensor": (lambda s, x: x + s.hidden.requires_grad, lambda s: s.hidden.requires_grad_(False)),
    "the size of a tensor": (lambda s, x: x * s.weight.shape[0], lambda s: setattr(s.weight, "data", torch.ones(5))),
    "the dtype of a tensor": (lambda s, x: x * (s.weight.dtype == torch.float32), lambda s: setattr(s.weight, "data", torch.ones(2).double())),
    "the dtype of a module": (lambda s, x: s.linear(x.to(s.linear.weight.dtype)), lambda s: s.linear.double()),
    "the rank of a tensor": (lambda s, x: x.sum() * s.weight, lambda s: s.weight.set_(torch.ones(3, 2).t())),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    """What cases change of a class that is there for all, and of the system's variables."""
    monkeypatch.setattr(Layer, "forward", Layer.forward)
    monkeypatch.setattr(os, "environ", os.environ)
    for name in ("PATH", "TOGRAPH_READS", "TOGRAPH_IN"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    for name in ("TOGRAPH_READS", "TOGRAPH_IN"):
        monkeypatch.delenv(name)


@pytest.mark.parametrize("name", CASES)
def test_a_change_between_calls(name):
    look, change = CASES[name]
    s, x = State(), torch.arange(4.0)

    def f(x):
        return look(s, x)

    g = tg.function(f)
    for _ in range(4):
        torch.testing.assert_close(g(x), f(x))
    before = f(x)
    change(s)
    for _ in range(3):
        torch.testing.assert_close(g(x), f(x))
    after = g(x)
    assert after.dtype != before.dtype or not torch.equal(after, before)


def test_gradients_that_are_off_are_off_for_what_is_computed():
    w = torch.ones(2, requires_grad=True)
    f = tg.function(lambda x: (x * w, (x * w).requires_grad, (x * w).is_leaf, w.requires_grad))
    for _ in range(3):
        assert f(torch.ones(2))[1:] == (True, False, True)
        with torch.no_grad():
            assert f(torch.ones(2))[1:] == (False, True, True)


def test_hooks_of_all_modules_that_come_and_go():
    layer = Layer()
    f = tg.function(lambda x: layer(x))
    x = torch.ones(2)
    for _ in range(3):
        assert torch.equal(f(x), x + 1)
    hook = register_module_forward_hook(lambda module, given, out: out * 5)
    try:
        for _ in range(3):
            assert torch.equal(f(x), (x + 1) * 5)
    finally:
        hook.remove()
    for _ in range(3):
        assert torch.equal(f(x), x + 1)


class ClassProperty(property):
    def __get__(self, owner, cls=None):
        return self.fget(cls)


class Scaled:
    scale = 2

    @ClassProperty
    def parts(cls):
        return [cls.scale]


def test_a_property_that_a_class_answers_for_itself_is_no_change():
    config = Scaled()
    f = tg.function(lambda x: x * config.parts[0] if x > 0 else x)
    for _ in range(3):
        assert f(torch.tensor(2.0)) == 4
    assert f.trace_count == 1


BYTES = bytearray(b"abcd")


def _an_item(x):
    return x + BYTES[0]


def _an_item_in_a_branch(x):
    return x + BYTES[0] if x > 0 else x


def _its_length_and_members(x):
    return x + len(BYTES) + (9 in BYTES)


def _its_content(x):
    return x + 1, bytes(BYTES)


def _a_counting_item(x):
    BYTES[0] += 1
    return x + BYTES[0]


def _a_slice_and_a_removal(x):
    BYTES[1:3] = b"z"
    del BYTES[-1]
    return x + sum(BYTES)


def _a_growing_one(x):
    BYTES.append(3)
    return x + len(BYTES)


class Keeper:
    def __init__(self):
        self.held = BYTES

    def _by_attribute(self, x):
        self.held[1] = 7
        return x + self.held[1] + self.held[0]


_OF_BYTES = [_an_item, _an_item_in_a_branch, _its_length_and_members, _its_content, _a_counting_item, _a_slice_and_a_removal, _a_growing_one,
             Keeper()._by_attribute]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*retracing")
@pytest.mark.parametrize("f", _OF_BYTES)
def test_a_bytearray_from_outside(f):
    found = []
    for g in (f, tg.function(f)):
        BYTES[:] = b"abcdefgh"
        found.append([])
        for i in range(5):
            if i == 3:
                BYTES[0] = 9
            found[-1].append((g(torch.tensor(2.0 - i)), bytes(BYTES)))
    assert found[0] == found[1]


def test_a_bytearray_that_stays_is_one_trace():
    BYTES[:] = b"abcd"
    f = tg.function(_an_item)
    assert f(torch.tensor(1.0)) == f(torch.tensor(1.0))
    assert f.trace_count == 1


def _a_passed_one(held, x):
    held.append(3)
    held[0] += 1
    return x + held[0] + len(held), held[1:], held


@pytest.mark.filterwarnings("ignore:.*retracing")
@pytest.mark.parametrize("f", [_a_passed_one, lambda held, x: x + held[0] if x > 0 else x])
def test_a_bytearray_among_the_arguments(f):
    found = []
    for g in (f, tg.function(f)):
        one, other = bytearray(b"abc"), bytearray(b"xyz")
        found.append([])
        for i, held in enumerate((one, one, other, one, other)):
            made = g(held, torch.tensor(2.0 - i))
            assert not isinstance(made, tuple) or made[2] is held
            found[-1].append((str(made), bytes(held)))
            one[1] = i
    assert found[0] == found[1]


class Named(NamedTuple):
    h: torch.Tensor
    steps: int = 0

    @property
    def next(self):
        return self.steps + 1


def _new_state(holder, x):
    h, steps = holder.state
    holder.state = Named(h * 2 + x, steps)
    return holder.state.h + h


def _new_last_item(holder, x):
    holder.items.append(Named(x * 2))
    return holder.items[0].h + holder.items[-1][0] * holder.items[1].next


@pytest.mark.parametrize(("f", "most"), [(_new_state, 1), (_new_last_item, 2)])
def test_tuples_with_names_that_are_replaced(f, most):
    found = []
    for g in (f, tg.function(f)):
        holder = Holder()
        holder.state = Named(torch.tensor(1.0), 2)
        holder.items = collections.deque([Named(torch.tensor(float(i))) for i in range(3)], 3)
        found.append([g(holder, torch.tensor(float(i))) for i in range(6)])
        found[-1] += [holder.state, list(holder.items)]
    assert found[0] == found[1]
    assert g.trace_count <= most


_CHANGES = [Named(2.0), Named(2.0, 1), (2.0, 1), Named(3.0, 1), Named(3.0, 1), (2.0, 1)]
_ASKED = [
    lambda held, x: x * held.h if isinstance(held, Named) else x,
    lambda held, x: x * held.next if type(held) is Named else x,
    lambda held, x: x * 2 if held == Named(2.0, 1) else x,
    lambda held, x: x * {Named(3.0, 1): 5.0}.get(held, 1.0),
    lambda held, x: x * sum(held),
    lambda held, x: x * 2 if held is _CHANGES[3] else x * 3,
    lambda held, x: x * 2 if held is _CHANGES[2] else x * 3,
    lambda held, x: x * len(f"{held}") * len(held),
]


@pytest.mark.filterwarnings("ignore:.*retracing")
@pytest.mark.parametrize("asked", _ASKED)
def test_what_is_asked_of_a_tuple_with_names(asked):
    holder = Holder()
    f = tg.function(lambda x: asked(holder.state, x))
    for held in (*_CHANGES, tuple(list(_CHANGES[2]))):
        holder.state = held
        assert f(torch.tensor(2.0)) == asked(held, torch.tensor(2.0))


@pytest.mark.parametrize("kind", [lambda *v: tuple(v), Named, lambda *v: frozenset(v)])
def test_one_tuple_in_two_places_that_become_two(kind):
    holder = Holder()
    holder.first = holder.second = kind(1, 2)
    f = tg.function(lambda x: x + 10 * min(holder.first) + min(holder.second))
    for first, second in ((1, 1), (1, 5), (7, 5)):
        holder.first = holder.first if min(holder.first) == first else kind(first, 9)
        holder.second = holder.second if min(holder.second) == second else kind(second, 9)
        assert f(torch.tensor(0)) == 10 * first + second
    assert f.trace_count == 3
