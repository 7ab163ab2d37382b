"""Operators of users' classes of lists, tuples and dicts, beside plain ones and inside of them."""

import contextlib
import io

import pytest
import torch

import tograph as tg


def told(base):
    """A class that says which of its methods is called."""

    class Told(base):
        def __eq__(self, other):
            print("eq", type(other).__name__)
            return base.__eq__(self, other) if isinstance(other, base) else NotImplemented

        def __lt__(self, other):
            print("lt")
            return True

        def __add__(self, other):
            print("add")
            return 5

        def __radd__(self, other):
            print("radd")
            return 6

        def __or__(self, other):
            print("or")
            return 7

        def __ror__(self, other):
            print("ror")
            return 8

        def __contains__(self, other):
            print("in")
            return base.__contains__(self, other)

        __hash__ = None

    return Told


def operators(a, b, x):
    nested, out = [x, a], [a == b, b == a, a != b, b != a, a == a, a < b, b > a]
    out += [nested == [x, b], (x, a) == (x, b), {1: x, 2: a} == {1: x, 2: b}]
    out += [a | b, b | a] if isinstance(a, dict) else [a + b, b + a]
    return [*out, 1 in a, a in [b], b in [a], [a, b].count(b), [b].index(a)]


def run(f, *args):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        return f(*args), printed.getvalue()


@pytest.mark.parametrize("items", [[1, 2], (1, 2), {1: 2}], ids=["list", "tuple", "dict"])
def test_operators(items):
    kind = told(type(items))

    def of_arguments(x):
        return operators(kind(items), type(items)(items), x)

    assert run(tg.function(of_arguments), 3) == run(of_arguments, 3)


def test_objects_that_hold_such_objects():
    class Multi(dict):
        def __eq__(self, other):
            return len(self) == len(other) and all(other[k] == self[k][-1] for k in self)

        def __getitem__(self, key):
            return super().__getitem__(key)

    def f(x):
        inner, outer = Multi(a=[1, 2]), {"k": {"a": 2}, "t": "w"}
        return Multi(k=[inner], t=["w"]) == outer, outer == Multi(k=[inner], t=["w"]), x

    assert tg.function(f)(1) == f(1) == (True, True, 1)


class NotIterable:
    __iter__ = None

    def __getitem__(self, i):
        return [1, 2, 3][i]


@pytest.mark.parametrize(
    "take", [iter, list, sum, max, enumerate, dict.fromkeys, lambda x: [v for v in x]]
)
def test_what_is_said_not_to_be_iterable(take):
    with pytest.raises(TypeError, match="'NotIterable' object is not iterable"):
        tg.function(lambda x: take(NotIterable()))(torch.ones(1))


def test_a_length_that_needs_what_init_sets():
    class Off(list):
        def __init__(self, items):
            super().__init__(items)
            self.by = 1

        def __len__(self):
            return super().__len__() + self.by

    def f(x):
        made = Off([1, 2])
        return len(made), list(made), x

    assert tg.function(f)(1) == f(1)
