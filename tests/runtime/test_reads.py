"""Reads of Python values: a change between calls of what the code looked at is seen."""

import collections

import pytest
import torch

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


class State:
    def __init__(self):
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
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_change_between_calls(name):
    look, change = CASES[name]
    s, x = State(), torch.arange(4.0)

    def f(x):
        return look(s, x)

    g = tg.function(f)
    for _ in range(4):
        assert torch.equal(g(x), f(x))
    before = f(x)
    change(s)
    assert torch.equal(g(x), f(x))
    assert not torch.equal(g(x), before)
