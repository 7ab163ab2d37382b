"""Classes that extend dict and list: what they hold is their items and their attributes."""

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable

import pytest
import torch

import tograph as tg


class Named(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.kind = "named"

    def update(self, *args):
        raise AssertionError("an operator changed it by a method of the class")

    pop = clear = update


class Items(list):
    __slots__ = ("extra",)


class Counts(defaultdict):
    pass


@dataclasses.dataclass
class Output(OrderedDict):
    """As in transformers: the fields that are set are items too."""

    first: torch.Tensor | None = None
    second: torch.Tensor | None = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __delitem__(self, key):
        raise AssertionError("an operator changed it by a method of the class")

    pop = update = __delitem__


def returned(x):
    return Named(a=x + 1), Output(x * 2), {"k": [Output(x, x)]}


def items(x):
    made = Items([x])
    made.append(x + 1)
    made.extra = x * 2
    return made, made.extra


def counts(x):
    made = Counts(int)
    made["a"] += x
    return made, made.default_factory


def changed_in_a_branch(x):
    named, output = Named(a=x), Output(x)
    if x.sum() > 0:
        named["a"] = x * 2
        output["first"] = x + 1
    return named, output


def made_in_a_branch(x):
    if x.sum() > 0:
        return Output(x * 2)
    return Output(x - 1)


def a_key_of_one_branch(x):
    output = Output(x)
    if x.sum() > 0:
        output["second"] = x * 2
    return output


def in_a_loop(x):
    output = Output(x)
    for _ in range(int(x.sum().abs())):
        output = Output(output.first + 1, x)
    return output["first"]


class Box:
    def __init__(self, x):
        self.x = x


def held_twice(x):
    """An object that is an item and the attribute of the same name is one object."""
    if x.sum() > 0:
        output = Output(x, second=Box(x))
    else:
        output = Output(x + 1, second=Box(x * 2))
    output.second.x = output.second.x * 3
    return output.first, output["second"].x, output["second"] is output.second, list(vars(output))


def which(x):
    one, other = Named(a=x), Named(a=x + 1)
    chosen = one if x.sum() > 0 else other
    chosen["a"] = x * 3
    return one, other


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        same(list(a.values()), list(b.values()))
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    if hasattr(a, "__dict__") and not isinstance(a, torch.Tensor | type):
        same(vars(a), vars(b))


class Inner:
    def __init__(self, value):
        self.value = value


class Scaled(Callable):
    """Its base class asks for ``__call__`` and holds nothing itself, as that of Pyro's distributions."""

    def __init__(self, value):
        self.inner = Inner(value)

    def __call__(self, x):
        return self.inner.value * x


def of_an_abstract_class(x):
    if x.sum() > 0:
        made = Scaled(x + 1)
    else:
        made = Scaled(x * 2)
    return made(x), made.inner.value


@pytest.mark.parametrize("f", [of_an_abstract_class, returned, items, counts, changed_in_a_branch, made_in_a_branch, a_key_of_one_branch, in_a_loop, held_twice, which])  # fmt: skip
def test_same(f):
    staged = tg.function(f)
    for x in (torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])):
        same(staged(x), f(x))
    assert staged.trace_count == 1
