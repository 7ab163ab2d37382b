"""The graph values of a Python value one by one, with the objects that they come from: what a spec's leaves are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..graph.ir import Value
from ..graph.types import Type
from ..symbols.journal import MISSING
from ..values import either, joins, pytrees, structure
from ..values.structure import UNSET, Choice, Leaf, Spec, Tree, leaf_types

Path = tuple[Any, ...]


NEW = object()  # a number that becomes a tensor


@dataclass(frozen=True)
class Among:
    """One of several objects, by a staged index."""

    tag: Any
    options: tuple[Any, ...]


def leaf_paths(spec: Spec, path: Path = ()) -> Iterator[tuple[Path, Type]]:
    """Where the graph values of a spec stand in it, in the order of ``leaf_types``."""
    if isinstance(spec, Leaf):
        if not spec.fixed:
            yield path, spec.type
    elif isinstance(spec, Tree):
        for i, part in enumerate(spec.parts):
            yield from leaf_paths(part, (*path, i))
    elif isinstance(spec, Choice):
        yield (*path, "tag"), structure.INT
        for i, option in enumerate(spec.options):
            yield from leaf_paths(option, (*path, f"option{i}"))


def leaf_objects(x: Any, spec: Spec) -> list[Any]:
    """The object of each graph value that ``x`` gives for ``spec``: a tensor, an ``Among`` of tensors, ``NEW``, or None."""
    nothing = [None] * len(leaf_types(spec))
    if not structure.has_tensors(spec) or x is MISSING or x is UNSET:
        return nothing
    if isinstance(spec, Leaf):
        return [x if isinstance(x, torch.Tensor) else NEW]
    if isinstance(spec, Tree):
        found = pytrees.parts_of(x) if spec.aux != "staged" else None
        if found is None or len(found[1]) != len(spec.parts):
            return nothing
        return [o for p, s in zip(found[1], spec.parts) for o in leaf_objects(p, s)]
    if structure.is_union(x):
        return _of_union(x, spec)
    at, number = joins.option_for(x, spec), either.slot(spec)
    out: list[Any] = [None]
    for i, option in enumerate(spec.options):
        if i == at:
            out += leaf_objects(x, option)
        else:
            out += [NEW if i == number else None] * len(leaf_types(option))
    return out


def _of_union(x: structure.TaggedUnion, spec: Choice) -> list[Any]:
    places = [joins.option_for(o, spec) for o in x.options_]
    out: list[Any] = [None]
    number = either.slot(spec)
    for i, option in enumerate(spec.options):
        if i == number:
            # What ``x`` has there is new where it is a number, and says so itself.
            found = tuple(o if isinstance(o, torch.Tensor) else NEW for o in x.options_)
            out.append(Among(x.tag_, found) if x.either_ is None else x.options_[x.either_])
            continue
        rows = [leaf_objects(o, option) for o, place in zip(x.options_, places) if place == i]
        if not rows:
            out += [None] * len(leaf_types(option))
        elif len(rows) == 1:
            out += rows[0]
        else:
            table = [places[: k + 1].count(i) - 1 if p == i else 0 for k, p in enumerate(places)]
            out += [_among(x.tag_, table, column) for column in zip(*rows)]
    return out


def _among(tag: Any, table: list[int], column: tuple[Any, ...]) -> Any:
    if any(o is None for o in column):
        return None
    return Among(tag, tuple(column[i] for i in table))


def noting(make: Callable[[Value], Any], made: list[Any]) -> Callable[[Value], Any]:
    """A ``make`` for ``unflatten`` that notes in order what it made."""

    def make_and_note(value: Value) -> Any:
        made.append(make(value))
        return made[-1]

    return make_and_note
