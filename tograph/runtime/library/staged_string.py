"""Strings that are made when the graph runs: what an f-string over staged values gives.

Comparing, measuring, searching, indexing and changing one is an op again, run by the host: a bool, an int or another such string, and a list of
the graph where it is split or gone over. What would need the text while tracing (hashing) is a StagingError.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ...errors import StagingError
from .. import control_flow
from ..graph import types
from ..symbols.funcgraph import Ref, current_graph, user_location
from ..symbols.scalars import new_scalar
from ..values import structure
from ..values.growing import StagedList
from ..values.records import Columns
from ..values.structure import Handle, Leaf, Tree

_TESTS = ("startswith", "endswith", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric",
          "isprintable", "isspace", "istitle", "isupper")  # fmt: skip
_COUNTS = ("count", "find", "index", "rfind", "rindex")
_CHANGES = ("capitalize", "casefold", "center", "expandtabs", "ljust", "lower", "lstrip", "removeprefix", "removesuffix", "replace",
            "rjust", "rstrip", "strip", "swapcase", "title", "translate", "upper", "zfill")  # fmt: skip
_LISTS: dict[str, dict[str, Any]] = {"split": {"sep": None, "maxsplit": -1}, "rsplit": {"sep": None, "maxsplit": -1}, "splitlines": {"keepends": False}}  # fmt: skip
_KINDS = {
    **dict.fromkeys(_TESTS, bool),
    **dict.fromkeys(_COUNTS, int),
    **dict.fromkeys(_CHANGES, str),
}
_PARTS = ("partition", "rpartition")
METHODS = frozenset((*_KINDS, *_LISTS, *_PARTS))  # what a string that only the run knows has


class StagedString:
    """A string that is made when the graph runs."""

    __tograph_frozen__ = True

    def __init__(self, handle: Handle):
        self.handle_ = handle

    def __tograph_flatten__(self):
        return None, [self.handle_]

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        return StagedString(parts[0]) if isinstance(parts[0], Handle) else parts[0]

    def __repr__(self):
        return "<str, known when the graph runs>"

    def __copy__(self) -> StagedString:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> StagedString:
        return self

    def __tograph_len__(self):
        return text_op("__len__", int, self)

    def contains(self, part: Any) -> Any:
        """``part in self``"""
        return text_op("__contains__", bool, self, part)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return text_op("slice", str, self, index.start, index.stop, index.step)
        return text_op("__getitem__", str, self, index)

    def __hash__(self):
        return self._cannot("hashed")

    def __len__(self):
        return self._cannot("measured outside of converted code")

    def __bool__(self):
        return self._cannot("a condition outside of converted code")

    def __iter__(self):
        return self._cannot("iterated")

    def __fspath__(self):
        return self._cannot("the name of a file")

    def __contains__(self, part):
        return self._cannot("searched outside of converted code")

    def __getattr__(self, name):
        if name.startswith("_") or not hasattr(str, name):
            raise AttributeError(f"'str' object has no attribute {name!r}")
        if name not in METHODS:
            return self._cannot(f"changed by {name}()")
        return functools.partial(self.method(name), self)

    @staticmethod
    def method(name: str) -> Callable[..., Any]:
        """The method of ``str``, of a string that may be Python's."""
        if name in _PARTS:
            return lambda text, sep: tuple(text_list(name, text, sep).item(i) for i in range(3))
        if name in _LISTS:
            return lambda text, *args, **named: text_list(name, text, *args, *_named(name, args, named))  # fmt: skip
        return lambda text, *args: text_op(name, _KINDS[name], text, *args)

    def refuse(self, what: str) -> None:
        """StagingError for what cannot be done with the text."""
        self._cannot(what)

    def _cannot(self, what: str) -> Any:
        raise StagingError(
            f"a string made of staged values cannot be {what}: its text is known only when the graph runs. Print it, format it, compare "
            "it, split it, join it or return it, or use tg.py_function",
            user_location(),
        )


def _named(name: str, args: tuple, named: dict[str, Any]) -> list[Any]:
    """The arguments of a method that are given by name, after those that are not."""
    rest = list(_LISTS[name].items())[len(args) :]
    unknown = [n for n in named if n not in dict(rest)]
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument {unknown[0]!r}")
    return [named.get(n, default) for n, default in rest]


StagedString.__name__ = "str"  # what Python's messages call it


def text_op(name: str, kind: type, *args: Any) -> Any:
    """The method ``name`` of ``str`` when the graph runs; ``kind``: what it gives, ``bool``, ``int`` or ``str``."""
    graph = current_graph()
    values = tuple(control_flow.outside_value(a, graph) for a in args)
    if kind is not str:
        return new_scalar("py.text", (name, *values), kind, graph)
    return made_string(graph.emit("py.text", name, *values, type=types.OBJECT), graph)


def text_list(name: str, text: Any, *args: Any) -> StagedList:
    """The list of strings that a method of ``str`` gives when the graph runs; ``list`` gives its characters."""
    graph = current_graph()
    values = tuple(control_flow.outside_value(a, graph) for a in (text, *args))
    made = graph.emit("py.text", name, *values, type=types.ListType(types.OBJECT))
    item = Tree(StagedString, None, (Leaf(types.OBJECT),))
    return StagedList()._hold([Handle(Ref(made, graph))], Columns(item))


def made_string(value: Any, graph: Any) -> StagedString:
    """The string that a node of the graph makes."""
    return StagedString(Handle(Ref(value, graph)))


def _kind_name(x: Any) -> str:
    return "Tensor" if isinstance(x, torch.Tensor) else type(x).__name__


def _as_text(x: Any, graph: Any) -> Any:
    """The value of a string that is known, or one of several."""
    if structure.is_union(x):
        return control_flow.outside_value(x, graph)
    return graph.emit("py.format", x, type=types.OBJECT)


structure.STAGED.texts, structure.STAGED.text_value = StagedString, _as_text


def _operator(name: str, kind: type, *, reflected: bool = False) -> Any:
    def method(self, other):
        if not isinstance(other, (str, StagedString)) and name not in ("__mul__", "__mod__"):
            if name == "__add__" and not reflected:
                raise TypeError(f'can only concatenate str (not "{_kind_name(other)}") to str')
            return NotImplemented
        return text_op(name, kind, other, self) if reflected else text_op(name, kind, self, other)

    return method


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(StagedString, f"__{_name}__", _operator(f"__{_name}__", bool))
for _name, _form in [("add", _operator("__add__", str)), ("radd", _operator("__add__", str, reflected=True)),
                     ("mul", _operator("__mul__", str)), ("rmul", _operator("__mul__", str))]:  # fmt: skip
    setattr(StagedString, f"__{_name}__", _form)
