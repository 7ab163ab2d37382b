"""Functions that call themselves when the graph runs: a graph that is called by name, from itself.

A **callee** is the graph of such a function, with what it reads from around it as further inputs. ``tg.recursion`` calls it from outside, with these;
inside of it the same op without them calls it again. The callee is a host program of its own; what it calls nests as Python's calls do.

Invariants: a callee changes nothing that exists outside of a call of it but by what it prints and raises; ``RecursionError`` comes after as many calls as in Python.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ... import stacks
from ..graph import types
from ..graph.interp import run as interpret
from ..graph.ir import Graph, Value
from ..graph.ops import OpaqueObject
from ..symbols.funcgraph import FuncGraph
from ..values.structure import Spec

TOO_DEEP = "maximum recursion depth exceeded"
_NO_ROOM = (
    "maximum recursion depth exceeded: calls of a graph by itself take room in the C stack, which has it for about {0} here "
    "(`ulimit -s`, or threading.stack_size() of a thread)"
)
# Of the C stack for one call, at most; for a call from outside, as many as so many of these. 400 were measured.
_BYTES, _ENTRY = 640, 6
_FRAMES = 6  # of Python, at most, for one call
# What makes a program of a graph: set by ``execution.host``.
BUILD: list[Callable[[Graph], Any]] = []


class Callee:
    """``specs``: of the arguments; ``result``: of what is returned, None as long as that is not known, or where it never returns (``endless``); ``wider``: the specs that a call inside asks for."""

    __tograph_opaque__ = True

    def __init__(self, name: str, specs: Sequence[Spec], result: Spec | None, endless: bool):
        self.name, self.specs, self.result, self.endless = name, list(specs), result, endless
        self.wider: list[Spec] | None = None
        self.graph: Graph | None = None
        self.inside: FuncGraph | None = None  # while it is traced
        self.sources: Any = None  # what the result may be, see ``converters.shared_results``
        self.watched: list[Any] = []  # what it captures that autograd watches
        self._program: Callable[..., list[Any]] | None = None
        self._open = _Open()

    def call(self, args: Sequence[Any], captured: Sequence[Any] | None) -> list[Any]:
        """The outputs; ``captured``: what it reads from around it, None in a call by itself."""
        if captured is not None:
            with (
                stacks.LIMIT.raised(_FRAMES + 1),
                _stack.deeper(_ENTRY),
                self._open.entered(captured),
            ):
                return self._built()(*args, *captured)
        now, calls = self._open, _stack.calls + 1
        depth = now.depth
        if depth >= stacks.LIMIT.plain:
            raise RecursionError(TOO_DEEP)
        now.depth, _stack.calls = depth + 1, calls
        try:
            if calls >= _stack.room:
                raise RecursionError(_NO_ROOM.format(_stack.room))
            return (self._program or self._built())(*args, *now.captured[-1])
        finally:
            now.depth, _stack.calls = depth, calls - 1

    def _built(self) -> Callable[..., list[Any]]:
        """The program, which the first call makes."""
        if self._program is None:
            assert self.graph is not None
            graph = self.graph
            build = BUILD[0] if BUILD else None
            self._program = build(graph).run if build else lambda *xs: interpret(graph, xs)
        return self._program


class _Open(threading.local):
    """The calls of a callee in this thread."""

    def __init__(self) -> None:
        self.captured: list[Sequence[Any]] = []
        self.depth = 1

    @contextmanager
    def entered(self, captured: Sequence[Any]) -> Iterator[None]:
        before, self.depth = self.depth, 1
        self.captured.append(captured)
        try:
            yield
        finally:
            self.captured.pop()
            self.depth = before


class _Stack(threading.local):
    """How many calls of callees nest in the C stack of this thread, and how many it has room for (0 before the first)."""

    def __init__(self) -> None:
        self.calls, self.room = 0, 0

    @contextmanager
    def deeper(self, count: int) -> Iterator[None]:
        self.room = self.room or stacks.room() // _BYTES
        self.calls += count
        try:
            yield
        finally:
            self.calls -= count


_stack = _Stack()


def emit(
    callee: Callee,
    args: Sequence[Any],
    captured: Sequence[Any] | None,
    kinds: Sequence[types.Type],
    graph: FuncGraph,
    beside: Sequence[Any] = (),
) -> list[Value]:
    """Record a call; the values that it gives. ``beside``: what these depend on for autograd, in a call by itself."""
    given = None if captured is None else list(captured)
    function = OpaqueObject(callee.call, f"call {callee.name}")
    made = graph.emit("tg.recursion", function, list(args), given, type=types.OBJECT)
    inputs = [*args, *(given or beside)]
    return [graph.emit("tg.py_item", made, i, inputs, type=k) for i, k in enumerate(kinds)]
