"""What a trace reads of the functions that run: the variables that they name, their code and defaults, and what a partial holds."""

from __future__ import annotations

import builtins
import functools
import os
import types
from typing import Any

from ..diagnosis.frames import is_users
from ..values.code_names import code_names, loaded_globals, loaded_variables, stored_names
from . import sources
from .guards import ATOMS
from .sources import Source
from .tensor_checks import TensorChecks


class FunctionReads(TensorChecks):
    """The reads of functions."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: dict[Any, Any] = {}  # kept: their ids are keys
        self.cells: set[Any] = set()  # the variables of closures from outside

    def add(self, function: types.FunctionType) -> None:
        """A user's function runs: its cells, the globals that its code loads, and its defaults are read."""
        key = (function.__code__, tuple(map(id, function.__closure__ or ())))
        if key in self.functions:
            return
        self.functions[key] = function
        self._code(function)
        stored, loaded = stored_names(function.__code__), loaded_variables(function.__code__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            self.cells.add(("cell", id(cell)))
            try:
                content = cell.cell_contents
            except ValueError:  # it has no value yet
                self.check(sources.object_(cell, name), "empty", "{0} == {1}", types.CellType())
                continue
            if name in loaded:
                self.variable(sources.cell(cell, name), ("cell", id(cell)), content, name in stored)
        namespace = function.__globals__
        for name in loaded_globals(function.__code__):
            if namespace.get(name) is os and _asks_environment(function.__code__):
                self.environment()
            if name in namespace:
                source = sources.global_(namespace, name)
                at = ("key", id(namespace), str, name)
                self.variable(source, at, namespace[name], name in stored)
            elif not hasattr(builtins, name):
                home = sources.object_(namespace, name)
                self.check(home, ("absent", name), "{1} not in {0}", name)
        self._defaults(function)

    def _code(self, function: types.FunctionType) -> None:
        """A function of the user's own files may get other code or defaults, as ``%autoreload`` gives it; those of libraries do not."""
        source = self.source_of(function)
        if source is not None and is_users(function.__code__):
            self.check(source, "code", "{0}.__code__ is {1}", function.__code__)
            if function.__defaults__:
                self.check(source, "defaults", "{0}.__defaults__ is {1}", function.__defaults__)
            if function.__kwdefaults__:
                self.check(source, "keywords", _KEYWORDS, list(function.__kwdefaults__.values()))

    def _defaults(self, function: types.FunctionType) -> None:
        positional, keywords = function.__defaults__ or (), function.__kwdefaults__ or {}
        for part, entries in (
            ("__defaults__", enumerate(positional)),
            ("__kwdefaults__", keywords.items()),
        ):
            for i, x in entries:
                if not isinstance(x, ATOMS) and x is not None:
                    source = self.source_of(function) or sources.object_(
                        function, function.__name__
                    )
                    self.whole_value(x, self.step(self.step(source, "attr", part), "item", i))

    def partial(self, f: functools.partial) -> None:
        """A partial was called: what it holds is read."""
        source = self.source_of(f)
        for part, entries in (("args", enumerate(f.args)), ("keywords", f.keywords.items())):
            for i, x in entries if source is not None else ():
                self.value(x, self.step(self.step(source, "attr", part), "item", i))

    def variable(self, source: Source, key: Any, content: Any, stored: bool) -> None:
        """A variable: ``key`` is that of its journal location; one that the code writes is compared whole, if it stays."""
        if isinstance(content, types.ModuleType) or key in self.steps or self.written(key):
            return
        self.steps[key] = source
        self.value(content, source)
        if stored:
            self.whole_value(content, source)


_KEYWORDS = "{0}.__kwdefaults__ and len({0}.__kwdefaults__) == len({1}) and all(map(is_, {0}.__kwdefaults__.values(), {1}))"


def _asks_environment(code: types.CodeType) -> bool:
    """Attributes of a library are not told of as they are read."""
    return not {"environ", "getenv"}.isdisjoint(code_names(code))
