"""Journals: what a piece of tracing changed, so that it can be undone and, later, be made state.

While a branch or a loop body is traced, Python code runs that may run differently, or not at all, when the graph
runs. Every change it makes to something that existed before goes through a ``Location`` and is recorded, with
the old content, in the innermost journal. At the end of the region the operator reads the new contents,
rolls all of them back, and writes what the staged construct makes of them.

Invariant: after ``rollback`` every recorded location has its content from before the region.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any


class Missing:
    """What a location holds when it holds nothing: an unbound variable, an absent key or attribute."""

    def __repr__(self) -> str:
        return "<missing>"

    def __reduce__(self):
        return "MISSING"


MISSING = Missing()


OWNED = ("cell", "key", "attr", "contents")  # the kinds of locations that are a part of an object


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
    of single keys, by mapping, and ``before``, what these keys held. ``loose``: the keys of locations that also change without a note of each
    change: variables, attributes and whole containers. ``noted``: every note of a change, with the content before it where that costs nothing to tell.
    ``variables``: the places among the entries that plain assignments change, of which only the first is noted.
    ``tried``: the region is no construct of the graph, but what is undone if it turns out wrong. ``called``: it is a function that another
    one calls, and runs where it stands. ``begun``: Python's own generators that code in it has begun. ``backs``: what undoes, with an attempt, changes
    that are to no location, of tensors made in the region that became another one. ``lasting``: the error where an attempt has to be undone that has
    changed what does not show what it holds, such as a file.
    """

    def __init__(self, tried: bool = False, called: bool = False) -> None:
        self.entries: dict[Hashable, tuple[Location, Any]] = {}
        self.steps: dict[Hashable, list[Step] | None] = {}
        self.keys: dict[int, list[tuple[Location, Any]]] = {}
        self.before: dict[int, dict[Any, Any]] = {}
        self.loose: list[Hashable] = []
        self.noted: list[tuple[Location, Any]] = []
        self.variables: list[Location] = []
        self.tried, self.called = tried, called
        self.begun: list[weakref.ref] = []
        self.backs: list[Callable[[], None]] = []
        self.lasting: Exception | None = None

    def add(self, location: Location, old: Any) -> None:
        """Note the content before the first change of a location."""
        if location.key not in self.entries:
            self.entries[location.key] = (location, old)
            if location.key[0] == "key":
                self.keys.setdefault(id(location.keep), []).append((location, old))
                self.before.setdefault(id(location.keep), {}).setdefault(location.name_key, old)
            if location.key[0] == "cell" or _is_namespace(location.keep):
                self.variables.append(location)
            if location.key[0] not in _NOTED or _is_namespace(location.keep):
                self.loose.append(location.key)

    def locations(self) -> list[Location]:
        return [location for location, _ in self.entries.values()]

    def rollback(self) -> None:
        for location, old in reversed(self.entries.values()):
            location._set(old)
            _stack.undone[id(location.keep)] = undone(location.keep) + 1


class _Stack(threading.local):
    def __init__(self) -> None:
        self.journals: list[Journal] = []
        self.undone: dict[int, int] = {}
        self.guarded: dict[int, tuple[Any, Callable[[], None]]] = {}


_stack = _Stack()


def active() -> bool:
    """Whether a region is being traced in this thread."""
    return bool(_stack.journals)


def undone(x: Any) -> int:
    """How many changes of an object were undone, since the outermost region was opened."""
    return _stack.undone.get(id(x), 0)


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


def push(tried: bool = False, called: bool = False) -> Journal:
    """Begin a region."""
    journal = Journal(tried, called)
    _stack.journals.append(journal)
    return journal


def is_last(journal: Journal) -> bool:
    """Whether no region is open in this one."""
    return _stack.journals[-1] is journal


def pop(journal: Journal) -> None:
    """End a region; its changes stay until rolled back."""
    last = _stack.journals.pop()
    if last is not journal:
        raise RuntimeError("journals must end in the reverse order of their beginning")
    if not _stack.journals:
        _stack.guarded.clear()
        _stack.undone.clear()


def begun(generator: Any) -> None:
    """Note that one of Python's own generators begins in the current region, and so in those around it, by any of which it may come to be undone."""
    for log in _stack.journals:
        log.begun.append(weakref.ref(generator))


def undone_by(back: Callable[[], None]) -> None:
    """Note what undoes a change that was made in the current attempt to no location."""
    if _stack.journals:
        _stack.journals[-1].backs.append(back)


def unwind(journal: Journal, undone: bool = False) -> None:
    """End a region and all that were left open in it by an exception, such as an interrupt; these are undone.

    Where it will be ``undone`` itself, the generators that it has begun are closed: what their ``finally`` does, which Python runs sooner or
    later, is undone with the rest.
    """
    for found in journal.begun if undone else ():
        generator = found()
        with suppress(Exception):
            if generator is not None:
                generator.close()
    while _stack.journals and _stack.journals[-1] is not journal:
        _stack.journals.pop().rollback()
    pop(journal)


def joined_steps(before: list[Step] | None, after: list[Step] | None) -> list[Step] | None:
    """The steps of two parts of a region, where they are known of both."""
    return None if before is None or after is None else before + after


def lasts(error: Exception) -> None:
    """Note a change that cannot be undone; the error in a branch or loop of the graph, and where an attempt that is open has to be undone."""
    if is_staged():
        raise error
    for log in _stack.journals:
        log.lasting = log.lasting or error


def adopt(journal: Journal) -> None:
    """Keep the changes of an ended region: they count as changes of the region around it."""
    if _stack.journals:
        outer = _stack.journals[-1]
        for key, (location, old) in journal.entries.items():
            before = outer.steps.get(key) if key in outer.entries else []
            outer.steps[key] = joined_steps(before, journal.steps.get(key))
            outer.add(location, old)
        outer.noted += journal.noted
        outer.backs += journal.backs


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
    copied = location.key[0] == "contents"
    log.noted.append((location, None if copied else location.get()))
    steps = log.steps.get(location.key)
    if steps is not None:
        log.steps[location.key] = None if step is None else [*steps, step]


_CHANGES = ("contents", "key", "attr")
_NOTED = ("key", "grad", "storage")  # the kinds of locations of which every change is noted


def _is_namespace(x: Any) -> bool:
    """Whether an object is the variables of a module, which code assigns without a note."""
    # A dict of the graph says that it is a dict, and its keys are known when the graph runs.
    return issubclass(type(x), dict) and dict.__contains__(x, "__builtins__")


def guard(x: Any, refuse: Callable[[], None]) -> None:
    """Call ``refuse``, which raises, before any change of a container or object, until the outermost region ends."""
    _stack.guarded[id(x)] = x, refuse


def unguard(x: Any) -> None:
    """Nothing is called before a change of ``x`` any more."""
    _stack.guarded.pop(id(x), None)


def guards() -> dict[int, tuple[Any, Callable[[], None]]]:
    """All that is guarded now."""
    return dict(_stack.guarded)


def guard_only(those: dict[int, tuple[Any, Callable[[], None]]]) -> None:
    """Forget the guards that came since ``guards`` gave those."""
    _stack.guarded = dict(those)


def guarded(x: Any) -> Callable[[], None] | None:
    """What is called before a change of ``x``."""
    found = _stack.guarded.get(id(x))
    return None if found is None else found[1]


def is_nested() -> bool:
    """Whether a construct of the graph is being traced in another one, or in the function."""
    return sum(not log.tried for log in _stack.journals) > 1


def is_staged() -> bool:
    """Whether a branch or loop of the graph is being traced, or something else that may run another number of times than it is traced."""
    return sum(not (log.tried or log.called) for log in _stack.journals) > 1


def open_journals() -> list[Journal]:
    """The journals of the regions being traced, outermost first."""
    return _stack.journals


def written(key: Hashable) -> bool:
    """Whether a region being traced wrote a location."""
    return any(key in log.entries for log in _stack.journals)


def in_the_beginning(location: Location) -> Any:
    """What a location held when the outermost region began."""
    for log in _stack.journals:
        if location.key in log.entries:
            return log.entries[location.key][1]
    return location.get()


def key_place(mapping: Any, key: Any) -> Hashable:
    """The identity of one key of a dict as a location."""
    where = key if isinstance(key, (str, int, float, bool, tuple)) else id(key)
    return ("key", id(mapping), type(key), where)


def removed(mapping: Any, key: Any) -> bool:
    """Whether a region being traced took a key out of a dict that had it before."""
    place = key_place(mapping, key)
    return any(
        place in log.entries and log.entries[place][1] is not MISSING for log in _stack.journals
    )
