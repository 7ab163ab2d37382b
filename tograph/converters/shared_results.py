"""What a function that calls itself gives may be no new tensor or list: a parameter, something from around it, a view of one.

A call of the graph gives values, and which object they stand for only the run knows. So such a result is a copy that may be read: a change of it, or
of what it may be, and ``is`` between the two are an ``AliasError`` or ``StagingError`` at the user's line, never another value.

``Sources`` tell what the parts of a result may be, of a result that is a tuple each of its items by itself.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import AliasError
from ..runtime.control_flow.containers import containers
from ..runtime.control_flow.picking import Lost, fresh_view
from ..runtime.inference.shapes import contiguous
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import FuncGraph, Storage, current_graph, user_location
from ..runtime.symbols.symbolic import SymTensor, as_symbolic
from ..runtime.values import listed, pytrees
from ..runtime.values.growing import StagedList
from ..runtime.values.reach import reachable
from ..runtime.values.structure import OUTSIDE, is_union

_ANY = contiguous(torch.float32, (), torch.device("cpu"))  # of memory that is only compared


@dataclass
class Part:
    """What a part of a result may share with others: the memory of ``parameters`` (their places) and of tensors ``around`` the function, or of another part (``twice``);
    ``held``: a list or object in it is known by another name."""

    parameters: set[int] = field(default_factory=set)
    around: dict[int, Storage] = field(default_factory=dict)
    twice: bool = False
    held: bool = False

    def take(self, other: Part) -> None:
        self.parameters |= other.parameters
        self.around |= other.around
        self.twice |= other.twice
        self.held |= other.held

    def facts(self) -> Any:
        return self.parameters, set(self.around), self.twice, self.held


@dataclass
class Sources:
    """Of all parts of a result; ``objects``: the lists and objects from around the function that it may be."""

    parts: list[Part] = field(default_factory=list)
    objects: dict[int, Any] = field(default_factory=dict)

    def joined(self, other: Sources) -> Sources:
        """What holds of a result that is one or the other."""
        made = Sources(objects=self.objects | other.objects)
        rows = [s.parts for s in (self, other) if s.parts]
        if len({len(row) for row in rows}) > 1:
            rows = [[p] for row in rows for p in row]  # no tuple of one length: as one part
        made.parts = [Part() for _ in rows[0]] if rows else []
        for row in rows:
            for mine, part in zip(made.parts, row, strict=True):
                mine.take(part)
        return made

    def facts(self) -> Any:
        return [p.facts() for p in self.parts], set(self.objects)


def sources_of(
    result: Any, given: Sequence[Any], function: types.FunctionType, inner: FuncGraph
) -> Sources:
    """What the result of a region may be, beside new values; ``given``: the values of the parameters in it."""
    places = {id(s): i for i, x in enumerate(given) for t in tensors(x) for s in _memory(t)}
    lists = {id(c) for x in given for _, c in containers(x)}
    found = [c for _, c in containers(result)]
    outside = reachable([function], found)
    objects = {
        id(c): c for c in found if id(c) not in lists and (id(c) in outside or OUTSIDE[0](c))
    }
    held = {*objects, *lists, *(id(c) for c in found if journal.guarded(c) is not None)}
    made = Sources(objects=objects)
    seen: dict[Any, Part] = {}
    for x in _parts(result):
        part = Part()
        made.parts.append(part)
        for t in tensors(x):
            _of_tensor(t, part, places, inner, seen)
        if any(_is_open(c) for _, c in containers(x)):
            part.parameters |= {places[id(s)] for y in given for t in tensors(y) for s in _memory(t) if s.listed}  # fmt: skip
        for _, c in containers(x):
            part.held |= id(c) in held
            _once(("container", id(c)), part, seen, "held")
    return made


def _of_tensor(
    t: torch.Tensor, part: Part, places: dict[int, int], inner: FuncGraph, seen: dict[Any, Part]
) -> None:
    for s in _memory(t):
        if id(s) in places:
            part.parameters.add(places[id(s)])
        elif s.home is None or not s.home.within(inner):
            part.around[id(s)] = s
        else:
            _once(("memory", id(s)), part, seen, "twice")


def _once(key: Any, part: Part, seen: dict[Any, Part], name: str) -> None:
    """Note where something stands in a result for the second time."""
    if key in seen:
        setattr(part, name, True)
        setattr(seen[key], name, True)
    seen[key] = part


def shared(name: str, result: Any, sources: Sources, given: Sequence[Any]) -> Any:
    """``result``, of a call with ``given``, guarded where it may be something else than new."""
    parts = _parts(result)
    if len(parts) != len(sources.parts):
        whole = Part()
        for p in sources.parts:
            whole.take(p)
        rows = [whole for _ in parts]
    else:
        rows = sources.parts
    both = Storage(_ANY, home=current_graph()) if any(p.twice for p in rows) else None
    for x, part in zip(parts, rows, strict=True):
        bases = dict(part.around)
        bases |= {id(s): s for i in part.parameters for t in tensors(given[i]) for s in _memory(t)}
        if part.twice and both is not None:
            bases[id(both)] = both
        if bases:
            _lose(name, x, list(bases.values()))
        if part.held:
            _guard(name, [c for _, c in containers(x)])
    if any(p.held for p in rows):
        _guard(name, [*sources.objects.values(), *(c for x in given for _, c in containers(x))])
    return result


def _lose(name: str, x: Any, bases: list[Storage]) -> None:
    """The tensors of a part may share the memory of ``bases``."""
    for t in tensors(x):
        if isinstance(t, SymTensor) and t.ref is not None:
            listed.moved()
            t.storage_ = Lost(t.meta, t.ref, bases, f"the result of {name}()", current_graph())
            t.chain, t.version = (), t.storage_.version
    if any(_is_open(c) for _, c in containers(x)):
        for s in bases:
            listed.appended(fresh_view(s, (), s.meta))


def _guard(name: str, objects: Sequence[Any]) -> None:
    def refuse() -> None:
        raise AliasError(
            f"what {name}() gave may be this object, or one that is known by another name, and which one is known only when the graph runs; so it cannot be "
            f"changed, or compared by `is`, here. Let {name}() give a copy.",
            user_location(),
        )

    for x in objects:
        journal.guard(x, refuse)


def _parts(result: Any) -> list[Any]:
    return list(result) if type(result) is tuple else [result]


def _is_open(x: Any) -> bool:
    return isinstance(x, StagedList)


def tensors(x: Any) -> Iterator[torch.Tensor]:
    """The tensors in a value."""
    if isinstance(x, torch.Tensor):
        yield x
    elif is_union(x):
        for option in x.options_:
            yield from tensors(option)
    else:
        found = pytrees.parts_of(x)
        for part in found[1] if found is not None else ():
            yield from tensors(part)


def _memory(x: torch.Tensor) -> Iterator[Storage]:
    """The storages that a tensor may share."""
    todo = list(listed.parts(as_symbolic(x).storage_))
    while todo:
        s = todo.pop()
        if isinstance(s, Lost):
            for b in s.bases:
                todo += listed.parts(b)
        else:
            yield s
