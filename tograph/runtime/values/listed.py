"""Tensors whose value a list of the graph holds: Python's list holds the tensor itself, so neither may change in place.

An append to a list of the graph takes the value that the tensor has then. Python would show later writes to the tensor
in the list, and writes to an item in the tensor. Both are refused at the line that writes, as is an append of one tensor in
every iteration of a loop that writes it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ...errors import Location, SharedMemoryError
from ..graph.ir import Value
from ..inference.shapes import SYMBOLS
from ..symbols import contents
from ..symbols.funcgraph import FuncGraph, Storage, current_graph, user_location
from ..symbols.symbolic import SymTensor, as_symbolic
from . import pytrees
from .flattening import flatten
from .structure import Spec, is_union

_ADVICE = "Append a copy (`x.clone()`), or make a new tensor instead of a write (`x = x + 1`)"


def appended(x: Any) -> None:
    """A list of the graph takes the value of ``x``."""
    if not isinstance(x, torch.Tensor):
        return
    for storage in parts(as_symbolic(x).storage_):
        _mark(storage, user_location() or ("", 0))
        if storage.written_in is not None and _again(storage, storage.written_in):
            raise _error("is appended in every iteration of a loop that changes it in place")


def item_values(x: Any, item: Spec, graph: FuncGraph) -> list[Value]:
    """The graph values of an item; from here on its tensors may not change in place."""
    for part in _leaves(x):
        appended(part)
    return flatten(x, item, graph)


def _leaves(x: Any) -> list[Any]:
    found = pytrees.parts_of(x) if not isinstance(x, (torch.Tensor, *SYMBOLS)) else None
    return [x] if found is None else [leaf for part in found[1] for leaf in _leaves(part)]


def taken(x: Any) -> Any:
    """``x``, an item that was read from a list of the graph."""
    if isinstance(x, SymTensor):
        for storage in parts(x.storage_):
            _mark(storage, user_location() or ("", 0))
    return x


def writes(storage: Storage, graph: FuncGraph) -> None:
    """``storage`` is about to be written in ``graph``."""
    contents.check_write(storage)
    storage.written_in = graph
    if storage.listed is not None:
        raise _error("is changed in place", storage.listed)


def carried(entered: Sequence[torch.Tensor], left: Sequence[torch.Tensor], body: FuncGraph) -> None:  # fmt: skip
    """A loop variable held ``entered`` at the beginning of the body and ``left`` at its end: the next iteration begins with that."""
    if not any(map(_is_listed, left)):
        return
    for storage in (s for x in entered for s in _storages(x)):
        if storage.written_in is not None and storage.written_in.within(body):
            raise _error("is changed in place in the next iteration of the loop")


def inherit(made: Sequence[torch.Tensor], contents: Sequence[torch.Tensor]) -> None:
    """``made`` is what a staged construct made of one of ``contents``."""
    where = next((s.listed for x in contents for s in _storages(x) if s.listed), None)
    for x in made if where is not None else ():
        for storage in _storages(x):
            _mark(storage, storage.listed or where)


Marks = list[tuple[Storage, Location | None, Location | None]]


class _Log(threading.local):
    marks: Marks | None = None


_log = _Log()


def _mark(storage: Storage, where: Location | None) -> None:
    if _log.marks is not None:
        _log.marks.append((storage, storage.listed, where))
    storage.listed = where


@contextmanager
def apart():
    """What one of several branches appends to lists: it is undone at the end, so that the other branches may write it."""
    outer, made = _log.marks, []
    _log.marks = made
    try:
        yield made
    finally:
        _log.marks = outer
        for storage, before, _ in reversed(made):
            storage.listed = before


def together(*branches: Marks) -> None:
    """After the branches all that one of them appended is in a list."""
    for storage, _, where in (mark for made in branches for mark in made):
        _mark(storage, where)


def _is_listed(x: torch.Tensor) -> bool:
    return any(s.listed for s in _storages(x))


def _storages(x: torch.Tensor) -> list[Storage]:
    return parts(x.storage_) if isinstance(x, SymTensor) else []


def tensors_in(content: Any) -> list[torch.Tensor]:
    """The tensors in a content, and those that it may be."""
    if isinstance(content, torch.Tensor):
        return [content]
    if is_union(content):
        return [x for option in content.options_ for x in tensors_in(option)]
    found = pytrees.parts_of(content) if isinstance(content, (list, tuple, dict)) else None
    return [x for p in found[1] for x in tensors_in(p)] if found else []


def parts(storage: Storage) -> Sequence[Storage]:
    """The storages that hold the content, each once: itself, or those that a staged condition picks from."""
    # Picked ones are asked often, and are as deep as staged constructs follow each other.
    known = storage.parts_
    if known is not None and known[0] == _moves[0]:
        return known[1]
    made = _parts(storage)
    if hasattr(storage, "options"):
        storage.parts_ = _moves[0], made
    return made


def moved() -> None:
    """A tensor that others may be picked from got another storage."""
    _moves[0] += 1


_moves = [0]


def _parts(storage: Storage) -> list[Storage]:
    found: dict[int, Storage] = {}
    seen: set[int] = set()
    todo = [storage]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        known = one.parts_
        if known is not None and known[0] == _moves[0]:
            found.update(zip(map(id, known[1]), known[1]))
            continue
        options = getattr(one, "options", ())
        todo.extend(x.storage_ for x in reversed(options))
        if not options:
            found[id(one)] = one
    return list(found.values())


def _again(storage: Storage, written: FuncGraph) -> bool:
    """Whether a loop body around this line wrote a tensor from outside of it."""
    graph: FuncGraph | None = current_graph()
    while graph is not None:
        outside = storage.home is None or not storage.home.within(graph)
        if graph.repeats and outside and written.within(graph):
            return True
        graph = graph.outer
    return False


def _error(what: str, where: Location | None = None) -> SharedMemoryError:
    line = f" (line {where[1]})" if where is not None and where[1] else ""
    return SharedMemoryError(
        f"a tensor that is in a list whose length depends on data{line} {what}: the list would hold its old value, where "
        f"Python shows the change in both. {_ADVICE}.",
        user_location(),
    )
