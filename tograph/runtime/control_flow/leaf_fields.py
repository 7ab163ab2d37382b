"""The ``.grad`` of leaves that regions made and gave a gradient: what a staged construct gives for a variable has the one of what it is in a run.

A field belongs to a tensor object, and the tensor that a construct gives is a new one. So beside a variable that may be such a leaf a construct gives what the field of
that leaf holds: a join as one more result (``Joined``), a loop as state (``Carried``).

What a tensor from before the construct has is not in it: a tensor that is one of these says so itself (``grad_fields.STANDS_FOR``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from ..gradients import grad_fields
from ..recording.tracing import recording
from ..symbols.funcgraph import current_graph, moment
from ..symbols.journal import MISSING
from ..symbols.journal import Location as Place
from ..symbols.symbolic import SymTensor, value_of
from ..values import flattening
from ..values.structure import Leaf, Spec, TaggedUnion, is_union
from .leaves import leaf_objects
from .regions import Region, replayed

Slot = tuple[Place | None, list[Any]]


class Field(Place):
    """The field of a tensor that a place holds. A region puts nothing back: the tensors that it makes have their own.

    ``owner`` gives the tensor. ``lost``: what it holds is not followed on some path.
    """

    lost = False

    def __init__(self, key: Any, name: str, owner: Any):
        super().__init__(key, name, self.content, _put_nothing, self)
        self.owner, self.begun = owner, moment()

    def content(self) -> Any:
        x = self.owner()
        return None if x is None else own_content(x)

    def put_back(self, value: Any) -> None:
        x = self.owner()
        if isinstance(x, SymTensor) and x.born >= self.begun:  # what is from before has its own
            grad_fields.slot(x).content = value
            x.graded_ = self.lost  # else it is known


def _put_nothing(value: Any) -> None:
    pass


def own_content(x: torch.Tensor) -> Any:
    """What the field of a tensor holds at this point, by no other name."""
    found = current_graph().root.slots.get(id(x))
    if found is None:
        return None
    if found.content is MISSING:
        found.was_read = True
        return None
    return found.content


def has_own(x: Any) -> bool:
    """Whether there may be a gradient in the field of a tensor."""
    found = current_graph().root.slots.get(id(x))
    return found is not None and found.graded


def content_of(x: torch.Tensor) -> Any:
    """What the field of a tensor holds, which may be a leaf that it stands for; of one from before the graph a copy, since that has its own."""
    if grad_fields.SHARED(x):
        return grad_fields.by_state(x, content_of, _kept)
    return grad_fields.by_leaf(x, content_of, _kept)


def _kept(x: torch.Tensor) -> Any:
    here = isinstance(x, SymTensor) and x.born >= current_graph().born
    return own_content(x) if here else apart(own_content(x))


def is_lost(x: Any) -> bool:
    """Whether what the field of a tensor holds, or that of one which it may be, is not followed."""
    if not isinstance(x, SymTensor):
        return False
    own = x.graded_ and grad_fields.GIVES_LEAF(x)
    return own or any(is_lost(y) for y, _ in grad_fields.STANDS_FOR(x))


def apart(content: Any) -> Any:
    """What a field holds, in tensors of their own: what changes it changes no other one."""
    if is_union(content):
        return TaggedUnion(content.tag_, [*map(apart, content.options_)], content.either_)
    if not isinstance(content, torch.Tensor):
        return content
    if content.requires_grad:
        with torch.enable_grad():
            return content.clone()
    graph = current_graph()
    return flattening.symbolic(value_of(content, graph), graph, connected=False)


def _of_region(x: Any, region: Region) -> Any:
    """What the field of a tensor of the trace that a region leaves holds at its end; None where nothing may be there."""
    if not isinstance(x, SymTensor) or x.given_:
        return None
    known = region.changed.get(("grad", id(x)))
    if known is not None:
        return None if known[1] is MISSING else _left(x, known[1], region)
    with recording(region.graph), replayed(region):
        if has_own(x) or any(has_own(y) for y, _ in grad_fields.STANDS_FOR(x)):
            return content_of(x)
    return None


def _left(x: SymTensor, content: Any, region: Region) -> Any:
    """What a region leaves in a field: that of a tensor from before it has it too, and both get the gradients that are taken behind it."""
    if x.born >= region.graph.born:
        return content
    with recording(region.graph), replayed(region):
        return apart(content)


def _is_lost_in(x: Any, region: Region) -> bool:
    with recording(region.graph), replayed(region):
        return is_lost(x)


class Joins:
    """The fields that a join of regions gives. ``slots``: what the regions leave in the fields, each beside the place in which the tensor is."""

    def __init__(self, slots: Sequence[Slot], specs: Sequence[Spec], live: Sequence[Region]):
        self.slots: list[Slot] = []
        self._rows = [self._objects([c[k] for _, c in slots], specs, r) for k, r in enumerate(live)]
        self._made: dict[int, Sequence[Any]] = {}
        for i in range(len(specs)) if current_graph().root.slots else ():
            for j, column in enumerate(zip(*(rows[i] for rows in self._rows), strict=True)):
                found = [_of_region(x, r) for x, r in zip(column, live, strict=True)]
                if any(g is not None for g in found):
                    place = Field(("field", i, j), "a gradient", partial(self._tensor, i, j))
                    place.lost = any(_is_lost_in(x, r) for x, r in zip(column, live, strict=True))
                    self.slots.append((place, found))

    def _objects(
        self, contents: Sequence[Any], specs: Sequence[Spec], region: Region
    ) -> list[list[Any]]:
        """By slot the tensors that a region leaves, in order; only of plain tensors where the code has made no leaves."""
        root = current_graph().root
        every = bool(root.leaves or root.slots)
        with replayed(region):
            pairs = zip(contents, specs, strict=True)
            return [leaf_objects(c, s) if every or isinstance(s, Leaf) else [] for c, s in pairs]

    def rows(self, i: int) -> list[list[Any]]:
        """What the regions leave in the slot ``i``."""
        return [rows[i] for rows in self._rows]

    def note(self, i: int, made: Sequence[Any]) -> None:
        """The tensors that were made for the slot ``i``."""
        self._made[i] = made

    def _tensor(self, i: int, j: int) -> Any:
        return self._made[i][j] if i in self._made else None
