"""What a branch changes is found however it is reached: by a module, a class, a function's attribute, a partial, ..."""

import copy
import functools
import gc
import linecache
import sys
import types
import weakref

import pytest
import torch

import tograph as tg
from tograph.runtime.values import reach

MODULE = types.ModuleType("reached_module")
MODULE.held = {}


class Class:
    held: dict = {}

    @staticmethod
    def put(value):
        Class.held["k"] = value


class Key:
    def __init__(self):
        self.held = {}


class Special:
    def __init__(self, held):
        self.held_ = held

    def __enter__(self):
        return self.held_

    def __exit__(self, *error):
        return None


def attribute():
    pass


attribute.held = {}


def by_module():
    return MODULE.held, lambda x: MODULE.held.__setitem__("k", x)


def by_import():
    def change(x):
        import reached_module

        reached_module.held["k"] = x

    return MODULE.held, change


def by_class():
    return Class.held, lambda x: Class.put(x)


def by_object_of_a_class():
    made = Class()
    return Class.held, lambda x: type(made).held.__setitem__("k", x)


def by_function():
    return attribute.held, lambda x: attribute.held.__setitem__("k", x)


def by_partial():
    held = {}
    set_ = functools.partial(lambda d, v: d.__setitem__("k", v), held)
    return held, lambda x: set_(x)


def by_proxy():
    held = {}
    proxy = types.MappingProxyType({"held": held})
    return held, lambda x: proxy["held"].__setitem__("k", x)


def by_key():
    key = Key()
    keys = {key: 1}

    def change(x):
        for k in keys:
            k.held["k"] = x

    return key.held, change


def by_special_method():
    made = Special({})

    def change(x):
        with made as d:
            d["k"] = x

    return made.held_, change


def by_default():
    held = {}
    return held, lambda x, d=held: d.__setitem__("k", x)


WAYS = [by_module, by_import, by_class, by_object_of_a_class, by_function, by_partial, by_proxy, by_key,
        by_special_method, by_default]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_the_branch_that_is_not_taken_changes_nothing(way, monkeypatch):
    monkeypatch.setitem(sys.modules, "reached_module", MODULE)
    held, change = way()
    held.clear()
    held["k"] = torch.zeros(())

    @tg.function
    def f(x):
        if x > 0:
            change(x * 2)
        return x

    f(torch.tensor(-1.0))
    assert held["k"].item() == 0
    f(torch.tensor(1.0))
    assert held["k"].item() == 2
    f(torch.tensor(-3.0))
    assert held["k"].item() == 2


def library_code(source, **names):
    """A function of a library's module."""
    space = {"__name__": "torch.made_for_this_test", **names}
    exec(source, space)
    return space["made"]


def test_a_function_of_a_library_leads_to_what_it_holds_and_names():
    held, far = object(), {}
    wrapper = library_code("def made(f): return lambda: f()")(lambda: held)
    assert id(held) in reach.reachable([wrapper])
    inner = library_code("def made(): return far", far=far)
    outer = library_code("def made(): return inner()", inner=inner)
    assert id(far) in reach.reachable([inner])
    assert id(far) not in reach.reachable([outer])


def test_a_walk_that_is_full_finds_more_roots_still(monkeypatch):
    monkeypatch.setattr(reach, "LIMIT", 10)
    first, other = [[] for _ in range(50)], [[]]
    assert {id(other), id(other[0])} <= reach.Reach([first]).also([other])


def test_a_walk_ends_when_all_that_is_wanted_is_found():
    wanted, behind, other = [], {"k": [[]]}, []
    first = reach.Reach([[wanted], behind], {id(wanted)})
    assert id(wanted) in first.also([other]) and id(behind["k"]) not in first.also([other])
    second = reach.Reach([[wanted]], {id(wanted), id(other)})
    assert id(other) not in second.also([behind])
    assert {id(wanted), id(other)} <= second.also([behind, other])
    assert not reach.Reach([[wanted]], set()).also([other])


def test_what_was_found_keeps_its_id():
    """What is dropped later may not leave its id to another object, which would count as found."""
    thing = Class()
    box, alive = [thing], weakref.ref(thing)
    found = reach.Reach([box])
    box.clear()
    del thing
    gc.collect()
    assert id(alive()) in found.seen
    del found
    gc.collect()
    assert alive() is None


def test_a_function_of_a_namespace_without_a_name():
    """`exec(text, {})` gives such a one."""
    text = "def f(x, n):\n    for i in range(n):\n        def g(r, x=x):\n            return r * x\n        x = x + tg.map_fn(g, x).sum(0)\n    return x\n"
    linecache.cache["<unnamed>"] = (len(text), None, text.splitlines(True), "<unnamed>")
    space = {"tg": tg}
    exec(compile(text, "<unnamed>", "exec"), space)
    assert "__name__" not in space
    x = torch.tensor([1.0, 2.0])
    y = x + x * x.sum()
    torch.testing.assert_close(tg.function(space["f"])(x, torch.tensor(2)), y + y * y.sum())


def test_what_torch_computes_sizes_with_is_not_gone_through():
    """The registry of ``copy`` has a class of sympy's: behind it are half of all functions that there are."""
    sympy = pytest.importorskip("sympy")
    copy._deepcopy_dispatch.setdefault(sympy.core.function.UndefinedFunction, copy._deepcopy_atomic)
    seen = reach.reachable([copy.deepcopy])
    assert id(copy._deepcopy_dispatch) in seen
    assert id(sympy.sympify) not in seen
    held = sympy.Symbol("x"), Key()
    assert id(held[1].held) in reach.reachable([held])
