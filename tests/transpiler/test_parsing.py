"""From functions to syntax trees: which code of a file is a function's."""

import functools
import linecache
import types

import pytest
import torch

import tograph as tg
from tograph.errors import SourceError
from tograph.transpiler.parsing import parse_function


class Base:
    def forward(self, x, *, scale=2):
        """Uses a private name, which belongs to this class."""
        if x.sum() > 0:
            x = -x
        return self.__scaled(x, scale)

    def __scaled(self, x, scale):
        return x * scale


def renamed(function, name):
    """A copy of a function with a code object of its own name, as libraries make to keep caches apart."""
    code = function.__code__.replace(co_name=name, co_qualname=f"Derived.{name}")
    copy = types.FunctionType(code, function.__globals__, "forward", None, function.__closure__)
    functools.update_wrapper(copy, function)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = "Derived.forward"
    return copy


@pytest.mark.parametrize("name", ["Derived.forward", "forward_2"])
def test_code_with_a_new_name(name):
    derived = type("Derived", (Base,), {"forward": renamed(Base.forward, name)})()
    staged = tg.function(lambda x: derived.forward(x))
    for x in (torch.ones(2), -torch.ones(2)):
        assert torch.equal(staged(x), derived.forward(x))


def test_another_function_at_that_line(tmp_path):
    file = tmp_path / "changed.py"
    file.write_text("def first(x):\n    return x + 1\n")
    names = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    file.write_text("def second(x):\n    return x * 2\n")
    linecache.checkcache(str(file))
    with pytest.raises(SourceError, match="changed after"):
        parse_function(names["first"])


def test_lambdas_of_one_line_that_are_constants_are_told_apart():
    """From Python 3.12 on the code of a constant knows no columns."""
    made = (lambda: True), (lambda: False), (lambda: -2), (lambda a=(lambda: 1): "x"), (lambda: 1), (lambda: 1.0), lambda: (1, True)  # fmt: skip
    for fn in made:
        assert repr(tg.function(lambda x, fn=fn: (x, fn()))(torch.ones(1))[1]) == repr(fn())


class Private:
    def __init__(self):
        self.__factor = 3

    def scaled(self, x):
        def inner(x):
            if x.sum() > 0:
                x = x * self.__factor
            return x

        return tg.function(inner)(x), tg.function(lambda x: x * self.__factor)(x)

    in_a_list = [lambda self, x: x * self.__factor for _ in range(1)]  # noqa: RUF012


def adding(method):
    @functools.wraps(method)
    def wrapper(self, x):
        return method(self, x) + self.__more

    return wrapper


class Wrapped:
    def __init__(self):
        setattr(self, "__more", 5)  # noqa: B010  a name as the wrapper spells it, which stands in no class

    @adding
    def scaled(self, x):
        return x * 2


def test_private_names_are_those_of_the_class_around():
    """Of methods, and of functions and lambdas inside of them or in the body of the class; not of a wrapper from elsewhere."""
    x = torch.ones(2)
    assert [r.tolist() for r in Private().scaled(x)] == [[3.0, 3.0]] * 2
    assert tg.function(Private.in_a_list[0])(Private(), x).tolist() == [3.0, 3.0]
    assert tg.function(Wrapped().scaled)(x).tolist() == [7.0, 7.0]


def test_lambdas_of_a_comprehension(tmp_path):
    """At the top of a module their qualified name has no function in it; the code of a new file is compared with it."""
    file = tmp_path / "made.py"
    file.write_text("made = [lambda x, k=k: x * k if x.sum() > 0 else x for k in (2, 3)]\n")
    names = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    assert [tg.function(f)(torch.ones(1)).item() for f in names["made"]] == [2, 3]
