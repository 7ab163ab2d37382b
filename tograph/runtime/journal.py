"""Journals: what a piece of tracing changed, so that it can be undone and, later, be made state.

While a branch or a loop body is traced, Python code runs that may run differently, or not at all, when the graph
runs. Every change it makes to something that existed before goes through a ``Location`` and is recorded, with
the old content, in the innermost journal. At the end of the region the operator reads the new contents,
rolls all of them back, and writes what the staged construct makes of them.

Invariant: after ``rollback`` every recorded location has its content from before the region.
"""

from __future__ import annotations

import threading
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable
from typing import Any

import torch

from ..errors import StagingError


class Missing:
    """What a location holds when it holds nothing: an unbound variable, an absent key or attribute."""

    def __repr__(self) -> str:
        return "<missing>"

    def __reduce__(self):
        return "MISSING"


MISSING = Missing()


class Location:
    """A place that can be read and written: ``key`` identifies it, ``name`` is what a user would call it.

    ``scratch``: nothing reads the place after the region that writes it; it is put back and no more.
    """

    def __init__(
        self,
        key: Hashable,
        name: str,
        get: Callable[[], Any],
        set: Callable[[Any], None],
        keep: Any = None,
    ):
        self.key, self.name, self.get, self._set, self.keep = key, name, get, set, keep
        self.scratch = False
        self.refuse: Callable[[], Exception] | None = (
            None  # the error where a change of it would have to be undone
        )
        self.name_key: Any = None

    def set(self, value: Any) -> None:
        """Write, and record the old content in the current journal."""
        record(self)
        self._set(value)

    def put_back(self, value: Any) -> None:
        """Write what a staged construct made of a change that was recorded in it, and allowed there."""
        _note(self, None)
        self._set(value)

    def __repr__(self) -> str:
        return f"<location {self.name}>"


Step = tuple[str, tuple]  # a method that changes a container whatever it holds, and its arguments


class Journal:
    """The changes of one region, in order of their first write.

    ``steps``: the changes of a container, while each of them is one that does not depend on what it holds. ``keys``: the entries
    of single keys, by mapping. ``noted``: every note of a change, with the content before it where that costs nothing to tell.
    ``tried``: the region is no construct of the graph, but what is undone if it turns out wrong.
    """

    def __init__(self, tried: bool = False) -> None:
        self.entries: dict[Hashable, tuple[Location, Any]] = {}
        self.steps: dict[Hashable, list[Step] | None] = {}
        self.keys: dict[int, list[tuple[Location, Any]]] = {}
        self.noted: list[tuple[Location, Any]] = []
        self.tried = tried

    def add(self, location: Location, old: Any) -> None:
        """Note the content before the first change of a location."""
        if location.key not in self.entries:
            self.entries[location.key] = (location, old)
            if location.key[0] == "key":  # type: ignore[index]
                self.keys.setdefault(id(location.keep), []).append((location, old))

    def locations(self) -> list[Location]:
        return [location for location, _ in self.entries.values()]

    def rollback(self) -> None:
        for location, old in reversed(self.entries.values()):
            location._set(old)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.journals: list[Journal] = []
        self.guarded: dict[int, tuple[Any, Callable[[], None]]] = {}
        self.members: dict[int, tuple[Any, dict[Any, Any]]] = {}
        self.unordered: dict[int, Any] = {}


_stack = _Stack()


def active() -> bool:
    """Whether a region is being traced in this thread."""
    return bool(_stack.journals)


def depth() -> int:
    """How many regions are open."""
    return len(_stack.journals)


def changes_since(depth: int) -> list[tuple[Location, Any]]:
    """The locations recorded in regions opened since ``depth``, with their contents before."""
    found: dict[Hashable, tuple[Location, Any]] = {}
    for log in _stack.journals[depth:]:
        for key, entry in log.entries.items():
            found.setdefault(key, entry)
    return list(found.values())


def push(tried: bool = False) -> Journal:
    """Begin a region."""
    journal = Journal(tried)
    _stack.journals.append(journal)
    return journal


def pop(journal: Journal) -> None:
    """End a region; its changes stay until rolled back."""
    last = _stack.journals.pop()
    if last is not journal:
        raise RuntimeError("journals must end in the reverse order of their beginning")
    if not _stack.journals:
        _stack.guarded.clear()


def unwind(journal: Journal) -> None:
    """End a region and all that were left open in it by an exception, such as an interrupt; these are undone."""
    while _stack.journals and _stack.journals[-1] is not journal:
        _stack.journals.pop().rollback()
    pop(journal)


def joined_steps(before: list[Step] | None, after: list[Step] | None) -> list[Step] | None:
    """The steps of two parts of a region, where they are known of both."""
    return None if before is None or after is None else before + after


def adopt(journal: Journal) -> None:
    """Keep the changes of an ended region: they count as changes of the region around it."""
    if _stack.journals:
        outer = _stack.journals[-1]
        for key, (location, old) in journal.entries.items():
            before = outer.steps.get(key) if key in outer.entries else []
            outer.steps[key] = joined_steps(before, journal.steps.get(key))
            outer.add(location, old)
        outer.noted += journal.noted


def record(location: Location, step: Step | None = None) -> None:
    """Note that ``location`` is about to change, by ``step`` if that is known."""
    if not _stack.journals:
        return
    if _stack.guarded and location.key[0] in _CHANGES and id(location.keep) in _stack.guarded:
        _stack.guarded[id(location.keep)][1]()
    _note(location, step)


def record_from(location: Location, old: Any) -> None:
    """Note that ``location`` has changed; ``old`` is what it held before."""
    if location.refuse is None or not _stack.journals:
        record(location)
    else:
        _stack.journals[-1].add(location, old)
        _stack.journals[-1].noted.append((location, old))


def _note(location: Location, step: Step | None) -> None:
    if not _stack.journals:
        return
    log = _stack.journals[-1]
    if location.key not in log.entries:
        old = location.get()
        log.add(location, old)
        log.noted.append((location, old))
        log.steps[location.key] = None if step is None else [step]
        return
    copied = location.key[0] == "contents"  # type: ignore[index]
    log.noted.append((location, None if copied else location.get()))
    steps = log.steps.get(location.key)
    if steps is not None:
        log.steps[location.key] = None if step is None else [*steps, step]


_CHANGES = ("contents", "key", "attr")


def guard(x: Any, refuse: Callable[[], None]) -> None:
    """Call ``refuse``, which raises, before any change of a container or object, until the outermost region ends."""
    _stack.guarded[id(x)] = x, refuse


def guarded(x: Any) -> Callable[[], None] | None:
    """What is called before a change of ``x``."""
    found = _stack.guarded.get(id(x))
    return None if found is None else found[1]


def is_nested() -> bool:
    """Whether a construct of the graph is being traced in another one, or in the function."""
    return sum(not log.tried for log in _stack.journals) > 1


def open_journals() -> list[Journal]:
    """The journals of the regions being traced, outermost first."""
    return _stack.journals


def key_place(mapping: Any, key: Any) -> Hashable:
    """The identity of one key of a dict as a location."""
    where = key if isinstance(key, (str, int, float, bool, tuple)) else id(key)
    return ("key", id(mapping), type(key), where)


# ---- the kinds of locations


def item(box: list, kind: str, name: str) -> Location:
    """The only item of a list, in which a construct keeps something of its own: a counter, a flag."""
    return Location((kind, id(box)), name, lambda: box[0], lambda v: box.__setitem__(0, v), box)


def cell(cell, name: str) -> Location:
    """A variable of a function that nested functions share."""

    def get():
        try:
            return cell.cell_contents
        except ValueError:
            return MISSING

    def set(value):
        if value is not MISSING:
            cell.cell_contents = value
        elif get() is not MISSING:
            del cell.cell_contents

    return Location(("cell", id(cell)), name, get, set, cell)


def removed(mapping: Any, key: Any) -> bool:
    """Whether a region being traced took a key out of a dict that had it before."""
    place = key_place(mapping, key)
    return any(
        place in log.entries and log.entries[place][1] is not MISSING for log in _stack.journals
    )


def _kind(x: Any) -> Any:
    """The class of a dict or list whose methods are C's: one of a user's may have others."""
    return next((c for c in type(x).__mro__ if c in _IN_C), type(x))


_IN_C = (OrderedDict, defaultdict, dict, list)


def _put_in_order(mapping: Any, key: Any, order: tuple) -> None:
    """Move a key that was added last to where it stood in ``order``."""
    after, kind = frozenset(order[order.index(key) + 1 :]), _kind(mapping)
    for other in [k for k in kind.__iter__(mapping) if k in after]:
        kind.__setitem__(mapping, other, kind.pop(mapping, other))


def key_of(mapping, key, name: str) -> Location:
    """One key of a dict-like object, module globals among them."""

    kind = _kind(mapping)
    order = tuple(kind.__iter__(mapping)) if kind.__contains__(mapping, key) else ()

    def set(value):
        if value is MISSING:
            kind.pop(mapping, key, None)
            return
        back = key in order and not kind.__contains__(mapping, key)
        kind.__setitem__(mapping, key, value)
        if back:
            _put_in_order(mapping, key, order)

    made = Location(
        key_place(mapping, key),
        name,
        lambda: kind.get(mapping, key, MISSING),
        set,
        mapping,
    )
    made.name_key = key
    return made


def forget() -> None:
    """A trace has ended: no container holds anything conditional, unless it is one inside of another trace."""
    if not _stack.journals:
        _stack.members.clear()
        _stack.unordered.clear()


def conditional(x: set) -> dict[Any, Any]:
    """The items of a set that are there on some paths only, each with a union of True and ``MISSING``."""
    found = _stack.members.get(id(x))
    return found[1] if found is not None else {}


def member(x: set, item: Any) -> Any:
    """True, ``MISSING``, or a union of both: whether an item is in a set."""
    held = conditional(x)
    return held.get(item, True if item in x else MISSING)


def item_of(x: set, item: Any) -> Location:
    """One item of a set."""

    def set_(value: Any) -> None:
        held = conditional(x)
        held.pop(item, None)
        if value is MISSING:
            x.discard(item)
            return
        x.add(item)
        if value is not True:
            _stack.members.setdefault(id(x), (x, held))[1][item] = value

    made = Location(key_place(x, item), f"item {item!r}", lambda: member(x, item), set_, x)
    made.name_key = item
    return made


def unorder(x: dict) -> None:
    """The order of the keys of a dict depends on a staged condition from here on."""
    _stack.unordered[id(x)] = x


def is_unordered(x: dict) -> bool:
    return id(x) in _stack.unordered


def attribute(owner, attr: str) -> Location:
    """An attribute that is kept in the object itself."""

    def get():
        found = getattr(owner, "__dict__", None)
        if found is not None and attr in found:
            return found[attr]
        for store in ("_parameters", "_buffers", "_modules"):
            kept = (found or {}).get(store)
            if isinstance(kept, dict) and attr in kept:
                return kept[attr]
        if found is None or _is_in_c(owner, attr):
            return getattr(owner, attr, MISSING)
        return MISSING

    def set(value):
        if attr == "__dict__" and not isinstance(value, dict):
            raise StagingError(
                f"the __dict__ of a {type(owner).__name__} is replaced in a staged branch or loop: update it instead"
            )
        if value is not MISSING:
            _set_plainly(owner, attr, value)
        elif get() is not MISSING:
            _hooks(owner, "__delattr__").__delattr__(owner, attr)

    return Location(("attr", id(owner), attr), f"{type(owner).__name__}.{attr}", get, set, owner)


class _Slotted:
    __slots__ = ("x",)


_SLOT = type(_Slotted.x)
_GETSET = types.GetSetDescriptorType


def _is_in_c(owner: Any, attr: str) -> bool:
    """Whether C keeps an attribute; of tensors only what is no computation."""
    if isinstance(owner, torch.Tensor):
        return attr == "requires_grad"
    for kind in type(owner).__mro__:
        if attr in kind.__dict__:
            return isinstance(kind.__dict__[attr], (_SLOT, _GETSET))
    return False


def _hooks(owner: Any, name: str) -> Any:
    """The class whose way of writing attributes is the plain one for an object: a ``__setattr__`` of a user's class ran before."""
    kind = type(owner)
    if isinstance(owner, (type, torch.nn.Module, types.ModuleType)) or not isinstance(
        getattr(kind, name), types.FunctionType
    ):
        return kind
    return object


def _set_plainly(owner: Any, attr: str, value: Any) -> None:
    _hooks(owner, "__setattr__").__setattr__(owner, attr, value)


def contents(container, name: str = "") -> Location:
    """All of a list, dict, set, deque or bytearray."""

    of = _kind(container)

    def get():
        if isinstance(container, dict):
            return dict(of.items(container))
        own = of is list and not hasattr(container, "become")
        return list.copy(container) if own else type(container)(container)

    def set(value):
        become = getattr(container, "become", None)
        if become is not None:
            become(value)
        elif isinstance(container, (list, bytearray)):
            of.__setitem__(container, slice(None), value)
        elif isinstance(container, deque):
            container.clear()
            container.extend(value)
        else:
            of.clear(container)
            of.update(container, value)

    kind = "list" if isinstance(container, list) else type(container).__name__
    label = name or f"a {getattr(container, 'kind_', kind)}"
    return Location(("contents", id(container)), label, get, set, container)
