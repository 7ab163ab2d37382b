"""contextvars in staged branches and loops, and what programs keep beside them."""

import contextvars
import functools

import pytest
import torch

import tograph as tg

LEVEL = contextvars.ContextVar("LEVEL", default=None)


def in_branches_and_loops(x):
    token = LEVEL.set({"a": x})
    try:
        y = x
        if x.sum() > 0:
            inner = LEVEL.set({"a": x * 2})
            try:
                y = LEVEL.get()["a"] + 1 if x.sum() > 1 else x
            finally:
                LEVEL.reset(inner)
        n = torch.tensor(0)
        while n < 3:
            inner = LEVEL.set(y)
            y = y + (1 if LEVEL.get().sum() > 5 else 2)
            LEVEL.reset(inner)
            n = n + 1
        return y + LEVEL.get()["a"]
    finally:
        LEVEL.reset(token)


def test_set_and_reset():
    f = tg.function(in_branches_and_loops)
    for x in (torch.ones(2), -torch.ones(2)):
        assert torch.equal(f(x), in_branches_and_loops(x))
        assert LEVEL.get() is None
    assert f.trace_count == 1


def test_left_set_in_a_branch():
    @tg.function
    def f(x):
        if x.sum() > 0:
            LEVEL.set(3)
        return x

    with pytest.raises(tg.errors.StagingError, match="a ContextVar is changed in a staged branch"):
        f(torch.ones(2))
    assert LEVEL.get() is None


class Named(dict):
    """Its ``get`` takes one argument."""

    def get(self, x):
        return super().get(str(x)) or {}


NAMES = Named({"1": 2})


class Node:
    def __init__(self):
        self.parent = None
        self.children = []

    @functools.lru_cache(None)  # noqa: B019  as libraries do
    def depth(self, extra):
        return 1 + extra if self.parent is None else self.parent.depth(extra) + 1


def test_what_libraries_keep():
    top, below = Node(), Node()
    below.parent = top
    top.children.append(below)  # they hold each other

    @tg.function
    def f(x):
        if x.sum() > 0:
            x = x * below.depth(3)
        return x + NAMES.get(1)

    assert torch.equal(f(torch.ones(2)), torch.full((2,), 7.0))


def test_a_branch_takes_a_part_of_a_module_list():
    layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))

    def f(x, some):
        if x.sum() > 0 and some is not None:
            for layer in layers[:some] if some is not None else layers:
                x = layer(x)
        return x

    for x in (torch.ones(2), -torch.ones(2)):
        torch.testing.assert_close(tg.function(f)(x, 2), f(x, 2))
