"""``f(*xs)`` where the length of ``xs`` is known only when the graph runs.

``f(*xs)``  ->  ``ag__.call_starred(f, *ag__.arguments(xs))``. A function takes a number of arguments that its parameters tell: there is
a branch for each number that fits, and Python's TypeError for others. What is left for ``*rest`` goes to the function as one
``Rest``, of which its first statement, ``rest = ag__.rest_of(rest)``, makes a tuple of the graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.graph.types import ScalarType, TensorType
from ..runtime.symbols.funcgraph import user_location
from ..runtime.values.growing import StagedList
from ..runtime.values.staged_tuples import as_tuple, joined
from ..runtime.values.structure import Choice, Leaf, Tree, is_growing, is_staged_list, is_union
from . import union
from .call_rules import CONVERTED_CODE, is_user_function
from .calls import call
from .growing_lists import add_each, empty
from .if_stmt import if_stmt
from .iterators import from_outside
from .strings import fstring

_MOST = 8  # branches for numbers of arguments


class Rest:
    """Arguments whose number is known only when the graph runs."""

    def __init__(self, items: StagedList):
        self.items = items


def arguments(items: Any) -> Any:
    """``*items`` of a call."""
    return [Rest(items)] if is_growing(items) else from_outside(items)


def rest_of(args: tuple) -> tuple:
    """What a parameter ``*args`` holds."""
    return _tuple_of(args) if any(type(a) is Rest for a in args) else args


def _tuple_of(args: Sequence[Any]) -> Any:
    return joined([a.items if type(a) is Rest else [a] for a in args])


def call_starred(f, /, *args, **kwargs):
    """``f(*args, **kwargs)`` with arguments that may be a ``Rest``."""
    first = next((i for i, a in enumerate(args) if type(a) is Rest), None)
    if first is None:
        return call(f, *args, **kwargs)
    if is_union(f):
        return union.distribute(lambda g: call_starred(g, *args, **kwargs), f)
    form = _FORMS.get(f) if f.__hash__ is not None else None
    if form is not None:
        return form(args, kwargs)
    head, rest = args[:first], _tuple_of(args[first:])
    if not is_growing(rest):
        return call(f, *head, *rest, **kwargs)
    return _call_user(f, head, rest, kwargs)


def _call_user(f: Any, head: tuple, rest: Any, kwargs: dict[str, Any]) -> Any:
    """A call of a function of the user, or of what is one: a method, a class, a module."""
    names, needed, more = _parameters(f, kwargs)
    bound = int(inspect.ismethod(f))
    least, most = max(needed - len(head), 0), max(len(names) - len(head), 0)
    if most - least > _MOST:
        raise _refused(f)
    n = rest.length()
    name = getattr(f, "__qualname__", type(f).__qualname__)
    for k in range(least):
        _raise_where(n == k, _missing(name, names[len(head) + k : needed]))
    if not more:
        counts = (needed + bound, len(names) + bound)
        given = n + len(head) + bound
        _raise_where(n > most, _too_many(name, *counts), (given, "", ""), " were given")

    def chosen(k: int) -> Any:
        if k == most:
            left = [Rest(rest.sliced(slice(most, None)))] if more else []
            return taking(k, left)
        return control_flow.staged_if(_is(n, k), lambda: taking(k, []), lambda: chosen(k + 1))

    def taking(k: int, left: list) -> Any:
        return call(f, *head, *[rest.item(i) for i in range(k)], *left, **kwargs)

    return chosen(least)


def _is(n: Any, k: int) -> Any:
    return control_flow.predicate(n == k, "*")


def _parameters(f: Any, kwargs: dict[str, Any]) -> tuple[list[str], int, bool]:
    """The names of what ``f`` takes by position, how many of them it needs, and whether it has a ``*rest``."""
    function = f.forward if isinstance(f, torch.nn.Module) else f
    function = function.__init__ if isinstance(function, type) else function
    plain = getattr(function, "__func__", function)
    if not is_user_function(plain) and getattr(plain, "__code__", None) not in CONVERTED_CODE:
        raise _refused(f)
    found = inspect.signature(f, follow_wrapped=False).parameters.values()
    more = any(p.kind is p.VAR_POSITIONAL for p in found)
    names, needed = [], 0
    for p in found:
        if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) or p.name in kwargs:
            break
        names.append(p.name)
        needed += p.default is p.empty
    return names, needed, more


def _refused(f: Any) -> StagingError:
    name = getattr(f, "__name__", type(f).__name__)
    return StagingError(
        f"how many arguments {name}() gets is known only when the graph runs: give it the list itself, or items by their index",
        user_location(),
    )


def _raise_where(test: Any, *text: Any) -> None:
    """A TypeError where ``test`` holds."""

    def fail():
        raise TypeError(fstring(*text))

    if_stmt(test, fail, None, ())


def _missing(name: str, names: list[str]) -> str:
    shown = [repr(n) for n in names]
    listed = " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:-1])}, and {shown[-1]}"
    plural = "s" if len(shown) > 1 else ""
    return f"{name}() missing {len(shown)} required positional argument{plural}: {listed}"


def _too_many(name: str, least: int, most: int) -> str:
    bounds = str(most) if least == most else f"from {least} to {most}"
    return f"{name}() takes {bounds} positional argument{'' if most == 1 else 's'} but "


# ---- built-ins that take any number of arguments


def _extreme(builtin: Callable) -> Callable:
    def form(args: tuple, kwargs: dict[str, Any]) -> Any:
        items = _tuple_of(args)
        if not is_growing(items):
            return call(builtin, *items, **kwargs)
        kind = getattr(items.item_spec, "type", None)
        name = builtin.__name__
        _raise_where(items.length() == 0, f"{name} expected at least 1 argument, got 0")
        if isinstance(items.item_spec, Choice):
            return call(builtin, items, **kwargs)
        if not isinstance(items.item_spec, Leaf) or getattr(kind, "shape", ()) != ():
            raise _refused(builtin)  # of one argument it is the largest of the items of that
        one = f"{kind.kind.__name__!r} object is not iterable" if isinstance(kind, ScalarType) else "iteration over a 0-d tensor"  # fmt: skip
        if isinstance(kind, (ScalarType, TensorType)):
            _raise_where(items.length() == 1, one)
        return call(builtin, items, **kwargs)

    return form


def _print(args: tuple, kwargs: dict[str, Any]) -> Any:
    texts = empty()
    for x in args:
        if type(x) is Rest:
            add_each(texts, x.items, lambda item: fstring((item, "s", "")))
        else:
            call(texts.append, fstring((x, "s", "")))
    separator = kwargs.pop("sep", None)
    return call(print, call((" " if separator is None else separator).join, texts), **kwargs)


def _zip(args: tuple, kwargs: dict[str, Any]) -> Any:
    """``zip(*pairs)``: for each part of the items, which are tuples, a tuple of that of all."""
    items = _tuple_of(args)
    if not is_growing(items):
        return call(zip, *items, **kwargs)
    spec = items.item_spec
    if not isinstance(spec, Tree) or not issubclass(spec.cls, (tuple, StagedList)) or is_staged_list(spec):  # fmt: skip
        raise _refused(zip)
    count = len(spec.parts)
    text = f"zip(*items) of an empty list: not enough values to unpack (expected {count}, got 0)"

    def fail():
        raise ValueError(text)

    if_stmt(items.length() == 0, fail, None, ())
    return iter([_part(items, i) for i in range(count)])


def _part(items: StagedList, i: int) -> Any:
    made = empty()
    add_each(made, items, lambda item: item[i])
    return as_tuple(made)


_FORMS: dict[Any, Callable] = {max: _extreme(max), min: _extreme(min), print: _print, zip: _zip}
