"""Python numbers of outer objects that change from call to call: counters, rates, positions.

An int or float that traced code reads of an attribute, a variable, a dict, a list, a deque or a tuple is a guard. Once it has changed, and the code itself changes
it (``self.steps += 1``), or it has changed twice, it is an input instead: it is read at every call, and traced as a staged number
that is written back like any other change. One that a staged branch or loop changes surely differs in the next call: the trace begins anew with it as an input. Of a list, deque or tuple that the code changes all numbers that it reads are inputs then, and where
that is a row of a list, those of the other rows that the code changes: they mostly change in turn. Where Python needs the number itself, or tracing fails, it stays a guard: a trace for each value.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ...errors import DeadResourceError
from ..graph.types import ScalarType
from ..symbols.funcgraph import FuncGraph, Ref, Storage
from ..symbols.journal import Location, in_the_beginning, key_place
from ..symbols.retrace import Retrace
from ..symbols.scalar_nodes import ScalarNode
from ..symbols.scalars import staged
from ..symbols.symbolic import as_symbolic, value_of
from ..values import families, locations
from .guards import Check, Guards, current_value, is_named_tuple
from .place_checks import NUMBER
from .sources import Source
from .watch import Watch

_TESTS = {int: "type({0}) is int and -0x8000000000000000 <= {0} < 0x8000000000000000", float: "type({0}) is float"}  # fmt: skip


class OuterNumbers:
    """What a function knows of the numbers that its traces read."""

    def __init__(self) -> None:
        self.changes: Counter[str] = Counter()  # by label
        self.open: dict[Any, Source] = {}
        self.closed: set[str] = (
            set()
        )  # labels: what the code does with one, it does with others of that name

    def learn(self, checks: Guards, written: frozenset[Any], tensors: Any) -> None:
        """A trace does not fit: the numbers that have changed since."""
        for check in checks.checks:
            source = check.source
            if check.test != NUMBER or source.label in self.closed or source.place() in self.open:
                continue
            if _changed(check, tensors):
                self.changes[source.label] += 1
                key = _written_key(source)
                if key is not None and (self.changes[source.label] > 1 or key in written):
                    self.open[source.place()] = source
                    if key in written and _is_of_sequence(source):
                        self._open_beside(key, checks)
                        self._open_rows(source, checks, written)

    def forget_dead(self) -> None:
        """The numbers of objects that do not exist any more are no inputs."""
        self.open = {p: s for p, s in self.open.items() if _is_alive(s)}

    def beside(self, records: frozenset[type]) -> list[Source]:
        """Those of objects that are not taken apart, as those of classes in ``records`` are."""
        roots = [(s, s.root()) for s in self.open.values()]
        return [s for s, r in roots if r.kind != "object" or type(r.key()) not in records]

    def _open_beside(self, key: Any, checks: Guards) -> None:
        """The other numbers of a list, deque or tuple that the code changes, and of tuples in it."""
        for check in checks.checks:
            if check.test == NUMBER and type(check.old) in _TESTS and _is_beside(check.source, key):
                self.open[check.source.place()] = check.source

    def _open_rows(self, known: Source, checks: Guards, written: frozenset[Any]) -> None:
        """The numbers of the other rows that the code changes, where the list that changes is a row of a list."""
        for check in checks.checks:
            if check.test == NUMBER and type(check.old) in _TESTS and _is_in_table(check.source, known, written):  # fmt: skip
                self.open[check.source.place()] = check.source

    def open_now(self, found: Iterable[Source]) -> None:
        """A trace has found that a staged construct changes these; one that was open before and could not be an input stays a guard."""
        for source in found:
            if source.place() in self.open:
                self.closed.add(source.label)
            self.open[source.place()] = source

    def close(self) -> None:
        """Tracing with them failed: they are guards from here on."""
        self.closed.update(s.label for s in self.open.values())
        self.open.clear()


def changes(place: Location, watch: Watch | None) -> None:
    """A staged construct changes what a place holds. Where the trace took a number there as it is, it begins anew with that as an input."""
    if place.key[0] not in ("attr", "cell", "key") or type(place.get()) not in _TESTS:
        return
    if watch is None or watch.acted:  # another trace would act again
        return
    # What is not there in the beginning is a default of the class, until the code sets it.
    if type(in_the_beginning(place)) not in _TESTS:
        return
    for check in watch.checks.values():
        source = check.source
        if check.test == NUMBER and type(check.old) in _TESTS and source.label not in watch.closed:
            if not _may_be_at(
                source, place.key
            ):  # there may be many, and each way is code to follow
                continue
            if _was_at(source, place, watch):
                raise Retrace(opened=frozenset([source]))


def _was_at(source: Source, place: Location, watch: Watch) -> bool:
    """Whether a source led to a location when the trace read it: what the trace has changed since may lead elsewhere, or nowhere."""
    parent, known = source.parent, watch.source_of(place.keep)
    if parent is not None and known is not None and parent.place() == known.place():
        return True
    try:
        location = location_of(source)
    except _GONE:
        return False
    return location is not None and location.key == place.key


def _may_be_at(source: Source, key: Any) -> bool:
    """Whether a source may be found at the location of this key, as far as its last step tells."""
    if key[0] == "attr":
        return source.kind == "attr" and source.key == key[2]
    if key[0] == "cell":
        return source.kind == "cell" and id(source.key) == key[1]
    if source.kind not in ("global", "item", "entry"):
        return False
    name = source.key[1] if source.kind == "global" else source.key
    return key_place(None, name)[2:] == key[2:]


def _is_beside(source: Source, key: Any) -> bool:
    """Whether a number is in the sequence that changes with the location of a key."""
    try:
        return _is_of_sequence(source) and _written_key(source) == key
    except _GONE:
        return False


def _is_in_table(source: Source, known: Source, written: frozenset[Any]) -> bool:
    """Whether a number is in a row, which the code changes, of the list whose rows one holds ``known``."""
    try:
        rows = [s.parent for s in (source, known) if _is_of_sequence(s)]
        if len(rows) < 2 or not all(row is not None and _is_of_sequence(row) for row in rows):
            return False
        one, other = (current_value(row.parent)() for row in rows if row is not None)
        return one is other and _written_key(source) in written
    except _GONE:
        return False


_GONE = (AttributeError, LookupError, ValueError, TypeError, ReferenceError)


def _is_alive(source: Source) -> bool:
    root = source.root()
    return root.kind != "object" or root.key() is not None


def _of_another_call(root: Source, watch: Watch) -> bool:
    """Whether a place is found from an argument which is another object in this call."""
    if root.kind != "object" or id(root.key()) in watch.sources:
        return False
    return any(source.label == root.label for _, source in watch.sources.values())


def _changed(check: Check, tensors: Any) -> bool:
    try:
        now = current_value(check.source)(tensors)
    except _GONE:
        return False
    return type(now) is type(check.old) and type(now) in _TESTS and now != check.old and families.storable(now)  # fmt: skip


def location_of(source: Source) -> Location | None:
    """Where the number at a source is kept, as far as it can be replaced while tracing."""
    if source.kind == "cell":
        return locations.cell(source.key, source.label)
    if source.kind == "global":
        namespace, name = source.key
        return locations.key_of(namespace, name, name)
    if source.parent is None or source.root().kind == "tensor":  # another one at each call
        return None
    owner = current_value(source.parent)()
    if source.kind == "attr":
        return locations.attribute(owner, source.key)
    return locations.key_of(owner, source.key, source.label) if source.kind in ("item", "entry") and isinstance(owner, dict) else None  # fmt: skip


def _is_of_sequence(source: Source) -> bool:
    """Whether a number, or a tuple that holds one, is an item of a list, deque or tuple."""
    if source.kind != "item" or source.parent is None or source.root().kind == "tensor":
        return False
    owner = current_value(source.parent)()
    kind = type(owner)
    known = kind in (*_CHANGING, tuple) or is_named_tuple(kind)
    return known and type(source.key) is int and source.key < len(owner)


_CHANGING = (list, deque)


def _written_key(source: Source) -> Any:
    """The key of the location that changes with the number at a source; None where it cannot be replaced while tracing."""
    if not _is_of_sequence(source):
        location = location_of(source)
        return None if location is None else location.key
    owner = current_value(source.parent)()
    return ("contents", id(owner)) if type(owner) in _CHANGING else _written_key(source.parent)


class Item:
    """A number in a list, deque or tuple: the list, or what holds the tuple, has another item or tuple while a trace is made.

    No journal notes that: the sequence is another one before the code begins, and is put back behind it. A tuple may itself be an item.
    """

    def __init__(self, source: Source):
        parent: Any = source.parent
        owner = current_value(parent)()
        self.at, self.holder = source.key, None if type(owner) in _CHANGING else _place_of(parent)
        self.sequence = owner

    def get(self) -> Any:
        return self._now()[self.at]

    def put(self, value: Any) -> Callable[[], None]:
        """Replace the number; gives what puts back all that was there."""
        now, at = self._now(), self.at
        if self.holder is None:
            old, set_item = now[at], type(now).__setitem__
            set_item(now, at, value)
            return lambda: set_item(now, at, old)
        items = (*now[:at], value, *now[at + 1 :])
        other = items if type(now) is tuple else type(now)._make(items)
        if isinstance(self.holder, Item):
            return self.holder.put(other)
        self.holder._set(other)
        return lambda: self.holder._set(now)

    def _now(self) -> Any:
        return self.sequence if self.holder is None else self.holder.get()


def _place_of(source: Source) -> Location | Item | None:
    if not _is_of_sequence(source):
        return location_of(source)
    return None if _written_key(source) is None else Item(source)


class Opened:
    """The numbers that one trace takes as inputs."""

    def __init__(self, sources: Iterable[Source]):
        self.places: list[tuple[Source, Location | Item, torch.Tensor]] = []
        self.lent: list[Callable[[], None]] = []  # what puts the items of sequences back
        for source in sources:
            place = _place_of(source)
            if place is not None and type(place.get()) in _TESTS:
                self.places.append((source, place, families.number_tensor(place.get())))
        self.entries: dict[Any, Any] = {}  # what each location holds when the trace begins
        self.getters: dict[int, Callable[[], Any]] = {}

    def enter(self, root: FuncGraph, watch: Watch) -> None:
        """Put a staged number in each place that this call may know."""
        for source, place, real in self.places:
            if _of_another_call(source.root(), watch):
                continue
            kind = type(place.get())
            watch.check(source, "number", _TESTS[kind])
            watch.opened[source.label].add(source.place())
            self.getters[id(real)] = NumberSlot(source, real)
            watch.numbers.add(id(real))
            value = value_of(as_symbolic(real), root)
            inner = root.emit(f"py.{kind.__name__}", value, type=ScalarType(kind))
            held = staged(ScalarNode(kind, Ref(inner, root)))
            if isinstance(place, Item):
                self.lent.append(place.put(held))
            else:
                place.set(held)
                self.entries[place.key] = held

    def leave(self) -> None:
        """Put the items of sequences back, once the changes of the code are undone."""
        while self.lent:
            self.lent.pop()()

    def same(self, place: Location) -> bool:
        """Whether a place holds at the end what it held in the beginning."""
        return place.key in self.entries and place.get() is self.entries[place.key]

    def slots(self, root: FuncGraph) -> dict[int, Callable[[], Any]]:
        """The captured inputs that are read at every call, by position."""
        captured = [k for k in root.captures if isinstance(k, Storage) and k.external is not None]
        return {
            i: self.getters[id(k.external)]
            for i, k in enumerate(captured)
            if id(k.external) in self.getters
        }


class NumberSlot:
    """The input for a number outside; ``number()`` is what the place holds now."""

    def __init__(self, source: Source, real: torch.Tensor):
        self.label, self.number, self.real = source.label, current_value(source), real

    def now(self) -> torch.Tensor:
        """The input, where a guard has asked what the place holds."""
        return families.number_tensor(self.number())

    def __call__(self) -> torch.Tensor:
        number = self.number()
        if type(number) not in _TESTS or families.DTYPES[type(number)] != self.real.dtype:
            raise DeadResourceError(
                f"{self.label} does not hold a number of the kind that it was traced with: call the function, which traces anew"
            )
        return families.number_tensor(number)
