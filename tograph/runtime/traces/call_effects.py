"""The effects of a trace: its changes of what existed before the call happen at every call.

Tracing leaves the objects of the program as they were. What the traced code changed of them becomes a list of effects,
contents that the graph gives, and a ``Finder``, which tells for each call where they go: into the containers of its
arguments, of which the trace had copies, into ``.grad`` fields, or into places outside.

Invariant: every effect has one place, in the same order.
"""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from ...errors import AliasError
from .. import control_flow
from ..gradients import grad_fields
from ..graph.ir import all_nodes, items_in
from ..graph.opaque import OpaqueObject
from ..guarding import guards, outer_lists, reads, slots
from ..guarding.outer_numbers import Opened
from ..guarding.outer_tables import Stood
from ..guarding.which_objects import asked
from ..recording import creation
from ..symbols import journal
from ..symbols.funcgraph import FuncGraph
from ..symbols.journal import MISSING, OWNED, Location
from ..values import arguments, conditional_items, locations, pytrees
from ..values.arguments import Flat
from ..values.growing import StagedList
from ..values.reach import Reach, reachable
from .commits import ADDED, Commits, Held, Target

IN_COPIES = ("contents", "key", "attr")  # kinds of locations in what an argument has a copy of


class CallEffects:
    """The changes of one trace that its calls repeat. ``commits``: those that staged code has to see in part.

    ``undo``: the places outside with what they held before; ``replaced``: the tensors that such places do not hold after the call.
    """

    def __init__(
        self,
        root: FuncGraph,
        watch: reads.Watch,
        opened: Opened,
        stood: Stood,
        objects: list[Any],
        records: frozenset[type] = frozenset(),
    ):
        self.root, self.watch, self.opened, self.stood = root, watch, opened, stood
        self.commits = Commits(self.seen, self._holds_still, watch.sources)
        self.spares: list[tuple[Any, Any]] = []  # copies of the containers of the arguments
        self.undo: list[tuple[Location, Any]] = []
        self.replaced: list[int] = []
        self._objects, self._reached = objects, None
        self._records, self._copied = records, list[tuple[Any, Any]]()
        # those that may have stand-ins are told apart by the key, too
        watch.copies = {
            id(x) for x in objects[1:] if isinstance(x, (FunctionType, torch.Generator))
        }
        self._around: Reach | None = None

    def of(self, changes: journal.Journal) -> tuple[list, Callable]:
        """Changes of what existed before happen at every call: (location, content) and how to find them.

        A container of the arguments was copied, and its content is part of the key. Of any other, either the changes
        are repeated, or, when they depend on what it held, that is guarded and it gets its new content.
        """
        self._around = None
        copies = {id(made): i for i, (made, _) in enumerate(self.spares)}
        found: list[tuple[Any, tuple[Any, Any]]] = []
        order: dict[Any, int] = {}
        committed = {key for plan in self.commits.plans for key, _, _ in plan.parts}
        self._check_created(changes)
        self._check_copies(changes)
        if self._changes_created(changes):
            self.root.root.settled.clear()
        for location, old in changes.entries.values():
            if location.key not in committed and self._stays(location, old):
                continue
            effect = self._effect(changes, location, old, copies)
            if effect is not None:
                order[location.key] = len(found)
                found.append(effect)
        for location, content in self.root.root.rewritten.values():
            made = id(location.keep) in copies or self.stood.real(location.keep) is not None
            if not made and self._is_outside(location):
                self.watch.kept(location, content, written=True)
        for slot in grad_fields.effects_of(changes.entries):
            order[slot.location().key] = len(found)
            found.append(((None, slot.content), (GradOf(slot.late), None)))
        for plan in self.commits.plans:
            plan.resolve(order)
        return (
            ([e for e, _ in found], Finder([w for _, w in found], self._records))
            if found
            else ([], no_places)
        )

    def _effect(
        self, changes: journal.Journal, location: Location, old: Any, copies: dict[int, int]
    ) -> tuple[Any, tuple[Any, Any]] | None:
        """(effect, where it goes) of a changed location; None for one that no call has to change."""
        if location.key[0] in IN_COPIES and id(location.keep) in copies:
            return (None, location.get()), (copies[id(location.keep)], location)
        extended = outer_lists.extended(location.keep, self.root.root)
        if extended is not None:
            return (ADDED, location.get()), (None, self._place(locations.contents(extended)))
        stands_for = self.stood.real(location.keep)
        if stands_for is not None:
            self.stood.check(location.keep)
            return (None, location.get()), (None, self._place(locations.contents(stands_for)))
        if id(location.keep) in self.watch.placeholders and location.key[0] == "attr":
            return self._of_argument(location, old)
        if location.key in self.root.root.settled:
            self.watch.settle(location)
            return None
        if not self._is_outside(location):
            return None
        self.undo.append((location, old))
        self.replaced += slots.tensors_of(old)
        return self._outside(changes, location, old), (None, self._place(location))

    def _of_argument(self, location: Location, old: Any) -> tuple[Any, tuple[Any, Any]]:
        """An attribute of a tensor of the arguments was written, or taken away: one that has none is another call."""
        if location.key[2] == "requires_grad":
            return None  # a call sets it itself: ``made_leaves`` and ``ended_leaves`` of its trace
        content = location.get()
        _, i, source = self.watch.placeholders[id(location.keep)]
        if content is MISSING and old is not MISSING:
            name = location.key[2]
            self.watch.check(source, ("present", name), f"hasattr({{0}}, {name!r})")
        return (None, content), (AttributeOf(i), location)

    def _as_before(self, location: Location, old: Any) -> bool:
        """Whether a variable outside, of those that the code may assign, holds what it held: maybe this path assigns it not at all."""
        variable = location.key[0] == "cell" or control_flow.is_module_globals(location)
        if location.key in self.opened.entries:
            return False  # it held an input of the graph: what it held before the call, and holds now, is what the code has assigned
        return variable and location.get() is old and self._is_outside(location)

    def _holds_still(self, location: Location, old: Any) -> bool:
        """The same, which a call asks: maybe the path assigns what was there."""
        if not self._as_before(location, old):
            return False
        self.watch.kept(location, old)
        return True

    def _is_itself(self, location: Location, old: Any) -> bool:
        """Whether an attribute, or a key of a dict, holds the tensor that it held, as behind ``self.total += x`` and a step of SGD with momentum."""
        same = isinstance(old, torch.Tensor) and location.get() is old
        return same and location.key[0] in ("attr", "key") and self._is_outside(location)

    def _stays(self, location: Location, old: Any) -> bool:
        """Whether a location that was written holds what it held, so that calls do not change it."""
        if self.opened.same(location) or self.stood.same(location):
            self.undo.append((location, old))
            return True
        if self._holds_still(location, old):
            return True
        if self._is_itself(location, old):
            self.watch.kept(location, old)
            self.undo.append((location, old))
            return True
        # A context variable was set and taken back.
        return isinstance(location.keep, contextvars.ContextVar) and location.get() is old

    def _place(self, location: Location) -> Held | Moving:
        """Where a change outside goes, as calls find it."""
        source = self.watch.source_of(location.keep)
        if location.key[0] not in ("contents", "key") or source is None or source.kind == "object":
            return Held(location)
        return Moving(location, guards.current_value(source))

    def _outside(self, changes: journal.Journal, location: Location, old: Any) -> Any:
        """(names of steps, their arguments) of a container that is changed blindly, else (None, what a location holds)."""
        steps = changes.steps.get(location.key)
        if location.key[0] == "contents" and steps is not None:
            return [name for name, _ in steps], [list(args) for _, args in steps]
        kept = location.key in self.root.root.kept and location.key not in self.opened.entries
        if location.key[0] == "contents" or kept:
            self.watch.kept(location, old)
        return None, location.get()

    def seen(self, location: Location) -> bool:
        """Whether a change, while tracing goes on, is of something that the caller sees."""
        kind = location.key[0]
        if kind in IN_COPIES and any(made is location.keep for made, _ in self.spares):
            return True
        if kind == "cell":
            return location.key in self.watch.cells
        if kind == "grad":
            return location.keep.outside
        return kind in ("key", "attr", "contents") and (
            self.watch.source_of(location.keep) is not None
            or id(location.keep) in self.watch.placeholders
            or control_flow.is_module_globals(location)
            or self._was_around(location.keep)
        )

    def _was_around(self, x: Any) -> bool:
        """Whether what the code did not read where it is kept, as the ``__dict__`` of an object, was there before: if in doubt it was."""
        if self._is_made(x):
            return False
        if self._around is None:
            self._around = Reach(self._objects)
        return id(x) in self._around.seen

    def _check_created(self, changes: journal.Journal) -> None:
        """What was made has to be kept by something that the next call finds."""
        created = self.root.root.created
        if created:
            places = [p for p in changes.locations() if self._is_outside(p)]
            creation.check_reached(created, [p.get() for p in places])

    def copied(self, spares: list[tuple[Any, Any]]) -> None:
        """``spares`` are the copies of containers and records of the arguments, as the code gets them."""
        self._copied = [(made, pytrees.attributes(made)) for made, _ in spares if type(made) in self._records]  # fmt: skip
        self.watch.copies |= {id(made) for made, _ in self._copied}

    def _check_copies(self, changes: journal.Journal) -> None:
        """What the code does to a copy it does to what the caller gave; AliasError for a container that it also found elsewhere."""
        changed = {id(p.keep) for p in changes.locations() if p.key[0] in IN_COPIES}
        for made, real in self.spares:
            source = self.watch.source_of(real)
            record = type(made) in self._records
            if source is not None and (record or not changed.isdisjoint((id(made), id(real)))):
                raise AliasError(
                    f"{source.label} and an argument are one {type(real).__name__}, which the function changes: use it by one of the two"
                )
        for made, (names, held) in self._copied:
            now = dict(zip(*pytrees.attributes(made)))
            known = dict(zip(names, held))
            for name in {**known, **now}:
                same = now.get(name, MISSING) is known.get(name, MISSING)
                if not same and ("attr", id(made), name) not in changes.entries:
                    raise AliasError(f"code that is not converted changes an argument of class {type(made).__name__}")  # fmt: skip
        if self._copied:
            self._check_identities(changes)

    def _check_identities(self, changes: journal.Journal) -> None:
        """AliasError where the code asks which object one of an argument is, since the next call may bring the other one that it was not."""
        made = [x for x, _ in self._copied]
        asked = self.asked(changes) | self._reached_by_run(made)
        for x in made:
            if id(x) in asked:
                raise AliasError(f"which object an argument of class {type(x).__name__} is, the code asks")  # fmt: skip

    def asked(self, changes: journal.Journal) -> set[int]:
        """The objects, by identity, of which the code asks which they are."""
        keys = [c.old for c in self.watch.checks.values()]
        for place in changes.locations():
            if place.key[0] == "key":
                keys.append(place.name_key)
            elif place.key[0] == "contents" and issubclass(type(place.keep), set):
                keys.append(place.keep)
        copies = self.watch.copies
        return self.watch.compared | (asked(copies, keys, alone=True) if copies else set())

    def _reached_by_run(self, made: Sequence[Any]) -> set[int]:
        """What the Python code that the graph calls finds of ``made``: while it runs, these are not what the caller's objects are."""
        nodes = list(all_nodes(self.root.graph))
        if any(n.op == "tg.raise" and str(n.args[0]).startswith("tg.") for n in nodes):
            raise AliasError("a run may be refused that would be none with the object itself")
        called = [x.value for n in nodes for x in items_in((n.args, n.kwargs), OpaqueObject)]
        return reachable(called, made) if called else set()

    def _changes_created(self, changes: journal.Journal) -> bool:
        """Whether what was made is changed by the same call: the next one finds it in another state, so this trace is not for it."""
        created = [x for x, _ in self.root.root.created]
        if not created:
            return False
        inside = reachable(created)
        return any(id(p.keep) in inside for p in changes.locations() if p.key[0] in OWNED)

    def _is_outside(self, location: Location) -> bool:
        """Whether something that existed before the call was changed: that happens at every call."""
        if location.key[0] not in OWNED or self._is_made(location.keep):
            return False
        return (
            control_flow.is_module_globals(location)
            or self.watch.source_of(location.keep) is not None
            or id(location.keep) in self._reach()
        )

    def _is_made(self, x: Any) -> bool:
        """Whether each call makes an object anew, also one that something outside holds when the trace ends: a list of converted code is."""
        if issubclass(type(x), StagedList):
            return True
        created = any(x is made for made, _ in self.root.root.created)
        return id(x) in self.root.root.made and not created

    def _reach(self) -> set[int]:
        if self._reached is None:
            self._reached = reachable(self._objects)
        return self._reached


@dataclass(frozen=True)
class GradOf:
    """The ``.grad`` field of a tensor: the one at a position among the arguments, or this one."""

    owner: Any


@dataclass(frozen=True)
class AttributeOf:
    """An attribute of the tensor at a position among the arguments."""

    position: int


class Moving:
    """A place in a container that is found anew at each call: ``self.seen = []`` between two calls makes it another one.

    ``now``: the container of a call.
    """

    def __init__(self, location: Location, now: Callable[[], Any]):
        self.location, self.now = location, now

    def here(self) -> Location:
        """The location, for one call."""
        container = self.now()
        return self.location if container is self.location.keep else _same_place(self.location, container)  # fmt: skip


class Finder:
    """Finds, for a call, the locations that the effects of a trace go to.

    ``where``: pairs of a position among the containers of the arguments and a location in such a container; the position
    is None for a location outside of the arguments, a ``GradOf`` for the gradient of a tensor, an ``AttributeOf`` for an attribute of one.
    """

    def __init__(self, where: list[tuple[Any, Any]], records: frozenset[type] = frozenset()):
        self.where, self.records = where, records
        self.outside = all(i is None for i, _ in where)

    def targets(self) -> list[Target]:
        """Where they go if all are ``outside`` of the arguments."""
        return [Target(at.here()) for _, at in self.where]

    def __call__(self, bound: inspect.BoundArguments) -> list[Target]:
        if self.outside:
            return self.targets()
        real: list[tuple[Any, Any]] = []
        for x in bound.arguments.values():
            arguments.replace_tensors(x, lambda _: None, real, opened=self.records)
        return [Target(self._found(i, at, real, bound)) for i, at in self.where]

    def _found(
        self, i: Any, at: Any, real: list[tuple[Any, Any]], bound: inspect.BoundArguments
    ) -> Location:
        """Where an effect of a call goes: a container that was passed, a ``.grad`` field, an attribute of a tensor, or a place outside."""
        if isinstance(i, AttributeOf):
            return locations.attribute(self._tensors(bound)[i.position], at.key[2])
        if not isinstance(i, GradOf):
            return at.here() if i is None else _same_place(at, real[i][1])
        if isinstance(i.owner, torch.Tensor):
            return grad_fields.field_of(i.owner)
        return grad_fields.field_of(self._tensors(bound)[i.owner])

    def _tensors(self, bound: inspect.BoundArguments) -> list[Any]:
        flat = Flat(opened=self.records)
        for name, x in bound.arguments.items():
            arguments.key_of(x, flat, name)
        return flat.tensors


def _same_place(location: Location, container: Any) -> Location:
    """The location in the container or record that the caller passed."""
    if location.key[0] == "attr":
        return locations.attribute(container, location.key[2])
    if location.key[0] == "key":
        if isinstance(container, set):
            return conditional_items.item_of(container, location.name_key)
        return locations.key_of(container, location.name_key, location.name)
    return locations.contents(container)


def no_places(bound: inspect.BoundArguments) -> list[Target]:
    return []
