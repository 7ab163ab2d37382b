"""Slots: places outside of a trace whose tensor is looked up at every call.

``state.h = step(state.h)`` leaves another tensor in the attribute. A tensor that was found outside is captured by reference
and its identity is a guard, so such code would trace anew at every call. Where the traced code replaces what a place holds, or
somebody did so between calls, the place is the input instead, and the guard asks for a tensor of the same kind.

Invariants: the tensor is plain, and all places where it was found still hold one tensor; where the trace writes memory that it did not make,
it was found in one place, and shares memory with no other input. Where one requires a gradient, the trace neither takes gradients nor asks
what requires them, and leaves its ``.grad`` alone. What does not hold at a call traces anew. Of a tensor in such a place that the graph does
not use, and whose memory it does not use either, only the kind is a guard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import torch

from ...errors import DeadResourceError
from ..symbols.funcgraph import FuncGraph, Storage
from ..symbols.symbolic import memory
from .guards import MAPPINGS, SAME_TENSOR, Check, current_value
from .sources import Source, Strong, holder
from .watch import Watch

Getter = Callable[[], Any]
_OF_A_KIND = "{1}({0})"
_TOGETHER = "{0} is {1}()"
_NEIGHBOURS = "{0}(tensors)"


class Kind:
    """What the tensor in a slot has to be: all that the graph knows of it."""

    def __init__(self, x: torch.Tensor):
        self.known = _known(x)

    def __call__(self, x: Any) -> bool:
        return movable(x) and _known(x) == self.known


class Neighbours:
    """The captured inputs of a trace that writes: those in slots share memory with no other input, and ``unused`` tensors with none.

    One pass over all inputs of a call tells it of all slots.
    """

    def __init__(self, inputs: Sequence[Getter], slots: Sequence[Slot], unused: Sequence[Getter]):
        self.inputs, self.slots, self.unused = inputs, slots, unused

    def __call__(self, tensors: Sequence[Any] = ()) -> bool:
        held = self._held(tensors)
        return self._alone(held) and not any(memory(get()) in held for get in self.unused)

    def alone(self, tensors: Sequence[Any]) -> bool:
        """Whether each tensor in a slot has its memory to itself."""
        return self._alone(self._held(tensors))

    def _alone(self, held: Counter[int]) -> bool:
        return all(held[memory(slot.now())] <= 1 for slot in self.slots)

    def _held(self, tensors: Sequence[Any]) -> Counter[int]:
        """How many inputs lie in each memory."""
        found = [*tensors, *(get() for get in self.inputs)]
        held = Counter(memory(x) for x in found if isinstance(x, torch.Tensor))
        del held[0]
        return held


def _known(x: torch.Tensor) -> tuple:
    place = x.stride(), x.storage_offset(), x.device
    return x.dtype, x.shape, *place, x.requires_grad, x.is_leaf


def movable(x: Any) -> bool:
    """Whether a tensor is a plain one: no parameter, no view of another kind."""
    plain = type(x) is torch.Tensor and x.layout is torch.strided
    return plain and not x.is_complex() and not x.is_neg()


class Slot:
    """A captured input that is looked up: ``slot()`` is the tensor that its place holds now."""

    def __init__(self, check: Check, kind: Kind, name: str):
        self.place, self.now = check.source.label, current_value(check.source)
        self.kind, self.name = kind, name
        self.neighbours: Neighbours | None = None  # where the trace writes

    def __call__(self) -> torch.Tensor:
        x = self.now()
        if self.kind.known != (_known(x) if movable(x) else None):
            raise DeadResourceError(
                f"{self.place} does not hold a tensor of the kind that {self.name!r} was traced with: call the function, which traces anew"
            )
        return x


def found(
    root: FuncGraph, watch: Watch, replaced: Iterable[int], hints: set[str], name: str
) -> dict[int, Slot]:
    """The slots among the captured inputs, by position; their guards change.

    ``replaced``: the ids of tensors that the trace put another one in the place of; ``hints``: labels of places where others did.
    """
    captured = [k for k in root.captures if isinstance(k, Storage) and k.external is not None]
    replaced, slots = set(replaced), {}
    for i, storage in enumerate(captured):
        x = storage.external
        if storage.late is None and moves(x, root, watch, replaced, hints):
            slots[i] = _slot(watch.identities(x), x, name)
    unused = _unused(watch, [k.external for k in captured], replaced, hints)
    if root.root.assigned and (slots or unused):
        getters = [
            slots[i].now if i in slots else holder(k.external) for i, k in enumerate(captured)
        ]
        neighbours = Neighbours(getters, list(slots.values()), unused)
        for slot in slots.values():
            slot.neighbours = neighbours
        label = "the memory of tensors that are looked up at each call"
        watch.check(Source(None, "object", Strong(neighbours), label), "neighbours", _NEIGHBOURS)
    return slots


def _unused(
    watch: Watch, captured: Iterable[Any], replaced: Container[int], hints: Container[str]
) -> list[Getter]:
    """Of a tensor that was found in a place which is replaced, by the trace or by others, and whose memory the graph does not use, only the kind counts."""
    places, used = [], {memory(x) for x in captured}
    for check in [c for c in watch.checks.values() if c.test == SAME_TENSOR]:
        x = check.old()
        if id(x) not in replaced and check.source.label not in hints:
            continue
        free = movable(x) and memory(x) not in used and id(x) not in watch.compared
        if free and len(watch.identities(x)) == 1:  # else which places hold one tensor is known
            check.test, check.old = _OF_A_KIND, Kind(x)
            places.append(current_value(check.source))
    return places


def moves(
    x: torch.Tensor, root: FuncGraph, watch: Watch, replaced: Container[int], hints: Container[str]
) -> bool:
    """Whether a captured tensor is looked up at every call (``found``)."""
    if id(x) not in replaced and not hints:
        return False
    if not movable(x) or id(x) in watch.compared or any(x is g for g in root.root.given):
        return False
    if x.requires_grad and (watch.differentiated or id(x) in root.root.slots):
        return False
    checks = watch.identities(x)
    if not checks or (len(checks) > 1 and root.root.assigned):
        return False
    return id(x) in replaced or any(c.source.label in hints for c in checks)


def _slot(checks: Sequence[Check], x: torch.Tensor, name: str) -> Slot:
    """A slot in the first of the places where a tensor was found; the others (``h[-1]`` beside ``h[1]``) have to hold the same one."""
    first, *others = checks
    kind = Kind(x)
    first.test, first.old = _OF_A_KIND, kind
    slot = Slot(first, kind, name)
    for check in others:
        check.test, check.old = _TOGETHER, slot.now
    return slot


def tensors_of(content: Any) -> list[int]:
    """The ids of the tensors in what a place held: itself, or the items of a container."""
    items = content.values() if isinstance(content, MAPPINGS) else content
    items = items if isinstance(content, (list, tuple, *MAPPINGS)) else (content,)
    return [id(x) for x in items if isinstance(x, torch.Tensor)]
