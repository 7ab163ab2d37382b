"""The ``.grad`` of leaves that a loop carries, where one may have a gradient when an iteration begins or when the loop ends.

Each is state beside the variable: before the loop what the tensor there has, in the body what the placeholder has, behind the loop what the tensor that the
loop gives has. In an iteration that begins with a tensor from before the loop, gradients that are taken go to the field of both (``iterations``), and what is
written to the one is to the other (``held_leaves``). What else changes it, a write in place or by another name, is seen there only: then the placeholder asks that tensor (``Told.by_leaf``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..gradients import grad_fields
from ..recording.tracing import recording
from ..symbols.funcgraph import current_graph
from ..symbols.journal import Location as Place
from ..symbols.symbolic import SymTensor
from ..values.structure import Choice, Leaf, Spec, spec_of
from .held_leaves import held
from .joining import as_value
from .leaf_fields import Field, apart, content_of, has_own, is_lost, own_content
from .loop_contents import Name, tensors_of
from .loop_regions import StateRegion
from .regions import replayed

if TYPE_CHECKING:
    from .loops import Rounds


class LoopField(Field):
    """``before``: what it holds before the loop."""

    def __init__(self, place: Place, number: int, before: Any):
        self.place, self.number, self.before = place, number, before
        self.begin = _tensor(place, number)
        owner = partial(_tensor, place, number)
        super().__init__(("carried field", place.key, number), f"the gradient of '{place.name}'", owner)  # fmt: skip

    def content(self) -> Any:
        x = self.owner()
        return self.before if x is self.begin else None if x is None else own_content(x)

    def put_back(self, value: Any) -> None:
        if self.owner() is not self.begin:  # which has its own
            super().put_back(value)


class Fields:
    """Those of a loop, by the name of the tensor."""

    def __init__(self) -> None:
        self.known: dict[Name, LoopField] = {}
        self.lost: set[Name] = set()  # those that are not followed
        # Names whose field iterations change in place, or know by another name as well.
        self.written: set[Name] = set()

    def _more(
        self, state: Sequence[Place], contents: Sequence[Any], graded: Collection[int]
    ) -> list[LoopField]:
        """What some contents of the state ask for beside what is known; ``graded``: the ids of the tensors there that may have a gradient."""
        places = {p.key for p in state}
        self.known = {n: f for n, f in self.known.items() if {f.key, f.place.key} <= places}
        made = []
        for place, content in zip(state, contents, strict=True):
            for i, x in enumerate(tensors_of(content)):
                if (
                    (place.key, i) not in self.known
                    and id(x) in graded
                    and _aligned(place, content)
                ):
                    begin = _tensor(place, i)
                    before = None if begin is None else apart(content_of(begin))
                    made.append(LoopField(place, i, before))
                    self.known[place.key, i] = made[-1]
        return made

    def extend(self, rounds: Rounds, contents: Sequence[Any], loop: StateRegion | None = None) -> bool:  # fmt: skip
        """Have the fields of leaves in contents of the state as state, too; whether there are more. ``loop``: the body that left the contents."""
        made = self._more(rounds.state, contents, _all_graded(contents, loop))
        for field in made:
            rounds.before[field.key] = _apart(spec_of(field.get()))
            rounds.add(field, rounds.before[field.key])
        rounds.history.fields = set(self.known)
        by_leaf = self._shared(rounds.state) | self.written
        lost = {n for n, f in self.known.items() if f.lost}
        again = by_leaf != rounds.history.by_leaf or lost != self.lost
        self.lost = lost
        rounds.history.by_leaf = by_leaf
        return bool(made) or again

    def keys_of(self, places: Collection[Any]) -> set[Any]:
        """The keys of the fields of what is in places."""
        return {f.key for f in self.known.values() if f.place.key in places}

    def _shared(self, state: Sequence[Place]) -> set[Name]:
        """The names that begin the loop with a tensor which another one begins with, too."""
        places = [p for p in state if not isinstance(p, Field)]
        count = Counter(id(x) for p in places for x in tensors_of(as_value(p.get())))
        return {n for n, f in self.known.items() if f.begin is not None and count[id(f.begin)] > 1}

    def leave(self, loop: StateRegion) -> None:
        """Have the body leave what the fields hold at its end."""
        for name, field in self.known.items():
            found = tensors_of(as_value(loop.content(field.place)))
            with recording(loop.graph), replayed(loop):
                left = content_of(found[field.number]) if field.number < len(found) else None
                if field.number < len(found) and is_lost(found[field.number]):
                    field.lost = True
            loop.changed[field.key] = field, left
            if name not in self.written and (_is_named(field, loop) or _is_written(field, loop)):
                self.written.add(name)
        self.written |= _asked_by_name(loop)


def without_fields(state: Sequence[Place], specs: Sequence[Spec]) -> tuple[list[Place], list[Spec]]:
    """The places of a loop's state that another search for it can begin with, and their specs."""
    known = [(p, s) for p, s in zip(state, specs, strict=True) if not isinstance(p, Field)]
    return [p for p, _ in known], [s for _, s in known]


def _tensor(place: Place, number: int) -> Any:
    found = tensors_of(as_value(place.get()))
    return found[number] if number < len(found) else None


def _all_graded(contents: Sequence[Any], loop: StateRegion | None) -> set[int]:
    """The ids of the tensors in some contents that may have a gradient. What they stand for is told in the graph that they belong to."""
    if not current_graph().root.slots:
        return set()
    with ExitStack() as inside:
        if loop is not None:
            inside.enter_context(recording(loop.graph))
            inside.enter_context(replayed(loop))
        return {id(x) for content in contents for x in tensors_of(content) if _graded(x)}


def _graded(x: torch.Tensor) -> bool:
    if has_own(x):
        return True
    return isinstance(x, SymTensor) and any(has_own(y) for y, _ in grad_fields.STANDS_FOR(x))


def _aligned(place: Place, content: Any) -> bool:
    """Whether the tensors of a content are those that the place holds before the loop, one by one, where there are any."""
    before = tensors_of(as_value(place.get()))
    return not before or len(before) == len(tensors_of(content))


def _is_named(field: LoopField, loop: StateRegion) -> bool:
    """Whether an iteration asks for the gradient of a leaf from before the loop, which the placeholder may be, by another name."""
    owners = tensors_of(as_value(loop.entered.get(field.place.key)))
    if field.number >= len(owners) or not loop.graph.named:
        return False
    with recording(loop.graph), replayed(loop):
        return any(id(x) in loop.graph.named for x, _ in held(owners[field.number]))


def _asked_by_name(loop: StateRegion) -> set[Name]:
    """The placeholders whose field an iteration asks for that may be leaves from before the loop whose field it knows by another name."""
    slots, found = current_graph().root.slots, set()
    for key, content in loop.entered.items() if loop.graph.named else ():
        for i, x in enumerate(tensors_of(as_value(content))):
            if id(x) in slots:
                with recording(loop.graph), replayed(loop):
                    if any(id(y) in loop.graph.named for y, _ in held(x)):
                        found.add((key, i))
    return found


def _is_written(field: LoopField, loop: StateRegion) -> bool:
    """Whether an iteration writes the gradient that the placeholder begins with in place, otherwise than by adding one to it."""
    if field.key not in loop.entered:
        return False
    owners = tensors_of(as_value(loop.entered[field.place.key]))
    if field.number >= len(owners):  # what was in a list is one of the graph in the body
        return False
    slot = current_graph().root.slots.get(id(owners[field.number]))
    written = [(x, 0 if slot is None else slot.summed.count(x.storage_)) for x in _tensors(loop.entered[field.key])]  # fmt: skip
    return any(x.storage_.version != added for x, added in written)


def _apart(spec: Spec) -> Spec:
    """The spec of a field before a loop: in the body it is another tensor, since gradients that are taken there go to both."""
    if isinstance(spec, Leaf):
        return Leaf(spec.type)
    return Choice(tuple(map(_apart, spec.options))) if isinstance(spec, Choice) else spec


def _tensors(x: Any) -> Iterable[SymTensor]:
    return (t for t in tensors_of(x) if isinstance(t, SymTensor))
