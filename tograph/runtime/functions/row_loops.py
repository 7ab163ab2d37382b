"""Loops over the first dimension as functions: ``map_fn``, ``scan``, ``foldl``, ``foldr``.

While tracing each is one ``While`` over the row number, whatever the number of rows, with the results pushed on a list of
the graph; outside of a function a Python loop. ``elems`` and the results are tensors, or structures of these: the function
gets the same structure with a row in place of each tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...errors import InvalidArgumentError, StructureError
from .. import control_flow
from ..control_flow import LoopOptions
from ..graph.types import TensorType
from ..inference.shapes import SYMBOLS
from ..library import custom
from ..library.debug import assert_
from ..symbols.funcgraph import current_graph, is_tracing, user_location
from ..symbols.journal import Location
from ..symbols.misuse import check_callable
from ..values import pytrees
from ..values.flattening import symbolic
from ..values.growing import StagedList, as_staged
from ..values.structure import is_union
from .function import Function

_LEAVES = (torch.Tensor, bool, int, float, complex, *SYMBOLS)
_UNLIKE = "a value of one type on one path and of another on the next (1 if c else 1.5): give all paths one"
Step = Callable[[Any, Any], tuple[Any, Any]]


def map_nest(function: Callable[[Any], Any], x: Any, what: str) -> Any:
    """The structure ``x`` with ``function`` of each of its tensors and numbers in its place."""
    if isinstance(x, _LEAVES):
        return function(x)
    found = None if isinstance(x, type(None) | str) else pytrees.parts_of(x)
    if found is None:
        shown = "None" if x is None else _UNLIKE if is_union(x) else f"a {type(x).__name__}"
        raise StructureError(
            f"{what} must be tensors, or lists, tuples and dicts of these, not {shown}",
            user_location(),
        )
    return pytrees.rebuild(type(x), found[0], [map_nest(function, p, what) for p in found[1]])


class Rows:
    """The rows of ``elems``: ``count``, and ``row(i)`` in the structure of ``elems``."""

    def __init__(self, caller: str, elems: Any):
        self.what = f"the elems of {caller}"
        columns: list[torch.Tensor] = []
        map_nest(lambda x: columns.append(self._column(x)), elems, self.what)
        if not columns:
            raise StructureError(f"{self.what} hold no tensor", user_location())
        self.elems, self.count = elems, columns[0].shape[0]
        for other in columns[1:]:
            self._same_count(other.shape[0])

    def _column(self, x: Any) -> torch.Tensor:
        if not isinstance(x, torch.Tensor) or x.dim() == 0:
            found = (
                "a tensor without dimensions"
                if isinstance(x, torch.Tensor)
                else f"the number {x!r}"
            )
            raise InvalidArgumentError(
                f"{self.what} are taken apart along their first dimension, and {found} has none: give a tensor of at least one "
                "dimension (a list is a structure of tensors; torch.tensor(...) or torch.stack(...) makes it one tensor)",
                user_location(),
            )
        return x

    def _same_count(self, other: Any) -> None:
        if isinstance(other, int) and isinstance(self.count, int):
            if other != self.count:
                raise InvalidArgumentError(
                    f"{self.what} must have the same number of rows, and have {self.count} and {other}",
                    user_location(),
                )
        else:
            assert_(other == self.count, [f"{self.what} must have the same number of rows:", other])

    def row(self, i: Any) -> Any:
        return map_nest(lambda x: torch.select(x, 0, i), self.elems, self.what)

    def apart(self, reverse: bool) -> tuple[Any, Rows]:
        """(the row to start from, the other rows)"""
        at, rest = (-1, slice(None, -1)) if reverse else (0, slice(1, None))
        if isinstance(self.count, int) and not self.count:
            raise InvalidArgumentError(
                f"{self.what} have no rows to start from: give an initializer", user_location()
            )
        first = map_nest(lambda x: torch.select(x, 0, at), self.elems, self.what)
        others = map_nest(lambda x: x[rest], self.elems, self.what)
        return first, Rows(self.what.removeprefix("the elems of "), others)


class _Cell:
    """One piece of the loop's state. ``kind``: "contents" for those of a list, which may grow."""

    def __init__(self, name: str, value: Any, kind: str = "row loop"):
        self.value = value
        self.place = Location((kind, id(self)), name, self._get, self._set, self)

    def _get(self) -> Any:
        return self.value

    def _set(self, value: Any) -> None:
        self.value = value


class Results:
    """The results of the iterations: a list of the graph with their tensors, and the structure that they have."""

    def __init__(self, caller: str):
        self.what = f"the results of the function given to {caller}"
        self.cell = _Cell("the results", as_staged(StagedList()), "contents")
        self.form: Any = None

    def add(self, out: Any) -> None:
        leaves: list[torch.Tensor] = []
        self.form = map_nest(lambda x: leaves.append(torch.as_tensor(x)), out, self.what)
        held = StagedList(self.cell.value)
        held.append(tuple(leaves))
        self.cell.place.set(held)

    def stacked(self, count: Any, reverse: bool) -> Any:
        """All results along a new first dimension of ``count`` rows, in the structure of one."""
        graph, held = current_graph(), self.cell.value
        rows = iter([self._column(h, count, graph) for h in held.columns])
        made = _fill(self.form, rows)
        return map_nest(lambda x: x.flip(0), made, self.what) if reverse else made

    def _column(self, handle: Any, count: Any, graph: Any) -> torch.Tensor:
        kind = handle.type.element
        size = count if type(count) is int else None
        args = (kind.dtype, tuple(n or 0 for n in kind.shape), torch.device(kind.device))
        whole = TensorType(kind.dtype, (size, *kind.shape), kind.device)
        value = graph.emit("tg.list_stack", graph.resolve(handle.ref), *args, type=whole)
        return symbolic(value, graph)


def _fill(form: Any, leaves: Any) -> Any:
    """The structure of ``form``, in which None stands for each leaf."""
    if form is None:
        return next(leaves)
    aux, parts = pytrees.parts_of(form)
    return pytrees.rebuild(type(form), aux, [_fill(p, leaves) for p in parts])


def _stacked(outs: list[Any], what: str) -> Any:
    """Real results along a new first dimension."""
    columns: list[list[torch.Tensor]] = []
    form = None
    for out in outs:
        row: list[torch.Tensor] = []
        form = map_nest(lambda x, row=row: row.append(torch.as_tensor(x)), out, what)
        columns.append(row)
    return _fill(form, iter([torch.stack(list(c)) for c in zip(*columns, strict=True)]))


def over_rows(
    caller: str, rows: Rows, step: Step, carry: Any, reverse: bool, stack: bool, parallel: int
) -> tuple[Any, Any]:
    """``carry, out = step(carry, row)`` over the rows: (the last carry, the stacked results in order of the rows)."""
    if is_tracing():
        return _staged(caller, rows, step, carry, reverse, stack, parallel)
    outs: list[Any] = []
    for i in reversed(range(rows.count)) if reverse else range(rows.count):
        carry, out = step(carry, rows.row(i))
        outs.append(out)
    if not stack:
        return carry, None
    if not outs:  # only a trace tells of which type no results are
        traced = Function(
            lambda elems, carry: _staged(
                caller, Rows(caller, elems), step, carry, reverse, stack, parallel
            ),
            None,
        )
        return traced(rows.elems, carry)
    what = f"the results of the function given to {caller}"
    return carry, _stacked(outs[::-1] if reverse else outs, what)


def _staged(
    caller: str, rows: Rows, step: Step, carry: Any, reverse: bool, stack: bool, parallel: int
) -> tuple[Any, Any]:
    index, state, results = _Cell("the row number", 0), _Cell("the value", carry), Results(caller)

    def body() -> None:
        i = index.value
        after, out = step(state.value, rows.row(rows.count - 1 - i if reverse else i))
        state.place.set(after)
        if stack:
            results.add(out)
        index.place.set(i + 1)

    places = [index.place, state.place] + ([results.cell.place] if stack else [])
    options = LoopOptions(parallel_iterations=parallel)
    control_flow.staged_while(lambda: index.value < rows.count, body, places, options)
    return state.value, results.stacked(rows.count, reverse) if stack else None


def map_fn(fn: Callable[[Any], Any], elems: Any, parallel_iterations: int = 10) -> Any:
    """``fn`` of every row of ``elems`` (a tensor, or a structure of tensors), stacked: one loop in a function.

    Raises InvalidArgumentError for elems without a first dimension or with different numbers of rows.

    Example: ``tg.map_fn(lambda row: row / row.sum(), x)``
    """
    check_callable(fn, "map_fn", "fn")
    rows, fn = Rows("map_fn", elems), custom.called(fn)
    return over_rows(
        "map_fn", rows, lambda _, x: (None, fn(x)), None, False, True, parallel_iterations
    )[1]


def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    reverse: bool = False,
    parallel_iterations: int = 10,
) -> Any:
    """All values of ``acc = fn(acc, row)``, stacked; without ``initializer`` the first row is the first value.

    ``reverse``: from the last row to the first; the values stay in the order of the rows.

    Example: ``tg.scan(lambda total, x: total + x, x)``
    """
    check_callable(fn, "scan", "fn")
    rows, fn = Rows("scan", elems), custom.called(fn)
    start = initializer
    if initializer is None:
        start, rows = rows.apart(reverse)

    def step(acc: Any, x: Any) -> tuple[Any, Any]:
        old, acc = acc, fn(acc, x)
        _check_kept(old, acc)
        return acc, acc

    found = over_rows("scan", rows, step, start, reverse, True, parallel_iterations)[1]
    if initializer is not None:
        return found
    return _joined([found, start] if reverse else [start, found], reverse)


def _check_kept(old: Any, new: Any) -> None:
    """StructureError where ``fn`` of ``scan`` does not give what it takes."""
    plain = isinstance(old, (tuple, dict, *_LEAVES)) and isinstance(new, (tuple, dict, *_LEAVES))
    if plain and _form(old) != _form(new):
        raise StructureError(
            f"the results of the function given to scan must have the structure of its first argument: {_form(old)}, not "
            f"{_form(new)}",
            user_location(),
        )


def _form(x: Any) -> str:
    """The structure of tensors and numbers, as text."""
    parts = None if is_union(x) or isinstance(x, (str, *_LEAVES)) else pytrees.parts_of(x)
    if parts is None:
        return "tensor"
    return f"{type(x).__name__}({', '.join(map(_form, parts[1]))})"


def _joined(parts: list[Any], reverse: bool) -> Any:
    """The first value as a row before (or behind) the others."""
    leaves: list[list[torch.Tensor]] = [[], []]
    for part, row in zip(parts, leaves):
        form = map_nest(row.append, part, "the values of scan")
    k = 1 if reverse else 0
    leaves[k] = [x.unsqueeze(0) for x in leaves[k]]
    return _fill(form, iter([torch.cat(list(pair)) for pair in zip(*leaves, strict=True)]))


def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
) -> Any:
    """The last value of ``acc = fn(acc, row)`` from the first row to the last.

    Example: ``tg.foldl(lambda total, x: total + x, x)``
    """
    return _fold("foldl", fn, elems, initializer, False, parallel_iterations)


def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
) -> Any:
    """The last value of ``acc = fn(acc, row)`` from the last row to the first.

    Example: ``tg.foldr(lambda total, x: total * 0.9 + x, rewards)``
    """
    return _fold("foldr", fn, elems, initializer, True, parallel_iterations)


def _fold(caller: str, fn: Any, elems: Any, start: Any, reverse: bool, parallel: int) -> Any:
    check_callable(fn, caller, "fn")
    rows, fn = Rows(caller, elems), custom.called(fn)
    if start is None:
        start, rows = rows.apart(reverse)
    step: Step = lambda acc, x: (fn(acc, x), None)  # noqa: E731
    return over_rows(caller, rows, step, start, reverse, False, parallel)[0]
