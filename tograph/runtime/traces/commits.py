"""Commits: what a function changed in outer Python objects before an op that may fail.

The changes of a call happen when its graph is done. An op that fails half-way leaves them undone, but plain Python
would have done those before it. So before an op that may fail, a ``tg.commit`` makes the changes that the
trace knows of by then. Running it twice does no harm: a location is set to what it holds at that point, and changes that are
repeated (``Target.replay``) are counted.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..graph.ops import MAY_COMMIT, OpaqueObject, register
from ..guarding import outer_lists
from ..guarding.sources import Strong, holder
from ..symbols import journal
from ..symbols.funcgraph import FuncGraph, current_graph
from ..symbols.journal import Location, joined_steps
from ..values import flattening, joins, locations
from ..values.flattening import flatten
from ..values.structure import Handle, Ref, Spec, leaf_types, spec_of
from .changes import Changes
from .shared_objects import marked

ADDED = ("added",)  # in the place of steps: the content is what a call adds to a list


class Target:
    """Where a change goes in one call."""

    def __init__(self, location: Any):
        self.location = location
        self.done: list[list[Any]] = []  # the arguments of the steps that were made

    def set(self, content: Any) -> None:
        """Set the location while tracing."""
        self.location.set(content)

    def apply(self, names: Sequence[str] | None, content: Any) -> None:
        """Set the location, or, where ``names`` are given, make the steps that were not made yet; ``ADDED``: add the items that were not."""
        if names is None:
            self.location._set(content)
            return
        container = self.location.keep
        if names == ADDED:
            _renew(container, self.done, content)
            locations.kind_in_c(container).extend(container, content[len(self.done) :])
            self.done = list(content)
            return
        for made, args in zip(self.done, content):
            _renew(container, made, args)
        for name, args in list(zip(names, content))[len(self.done) :]:
            getattr(locations.kind_in_c(container), name)(container, *args)
            self.done.append(args)


def _renew(container: Any, made: Any, now: Any) -> None:
    """Put what a step is given now in the place of what a commit gave it, which may have been changed since."""
    if made is now or isinstance(made, _UNCHANGED) or _put(container, made, now):
        return
    if isinstance(made, (list, tuple)) and isinstance(now, (list, tuple)):
        for a, b in zip(made, now):
            _renew(container, a, b)
    elif isinstance(made, dict) and isinstance(now, dict):
        for key in made.keys() & now.keys():
            _renew(container, made[key], now[key])


_UNCHANGED = (bool, int, float, complex, str, bytes, type(None))


def _put(container: Any, made: Any, now: Any) -> bool:
    """Whether a container holds ``made``, for which it gets ``now``."""
    kind = locations.kind_in_c(container)
    if issubclass(kind, (list, deque)):
        # from the end on, where most is added
        found = [i for i, x in enumerate(reversed(container)) if x is made]
        for i in found:
            kind.__setitem__(container, -1 - i, now)
    elif issubclass(kind, dict):
        found = [k for k, x in kind.items(container) if x is made]
        for k in found:
            kind.__setitem__(container, k, now)
    else:
        found = [x for x in kind.__iter__(container) if x is made]
        for x in found:
            kind.remove(container, x)
            kind.add(container, now)
    return bool(found)


class Held:
    """A location whose owner is held weakly: after the owner's death it takes nothing."""

    def __init__(self, location: Location):
        self.owner = holder(location.keep)
        self.strong = None
        if isinstance(self.owner, Strong) or location.key[0] != "attr":
            self.strong = location
        self.attribute = location.key[2] if location.key[0] == "attr" else ""
        self.key, self.name, self.name_key = location.key, location.name, location.name_key

    @property
    def owned(self) -> bool:
        """Whether it is an attribute of ``owner()``, as long as there is one."""
        return self.strong is None and self.attribute != "__dict__"

    def here(self) -> Any:
        """The location, for one call."""
        if self.strong is not None:
            return self.strong
        owner = self.owner()
        return _NOWHERE if owner is None else locations.attribute(owner, self.attribute)


_NOWHERE = Location(("nowhere",), "nothing", lambda: None, lambda value: None)


class _Calls(threading.local):
    def __init__(self) -> None:
        # For each call that runs, where its changes go, and the objects from before it that it gives.
        self.running: list[tuple[Sequence[Target], Sequence[Any]]] = []


calls = _Calls()


class Plan:
    """What a ``tg.commit`` does: (key of a location, names of steps or None, spec of the content) each."""

    def __init__(self, parts: list[tuple[Any, Sequence[str] | None, Spec]]):
        self.parts = parts
        # contents that are set in the place of those that follow from the run
        self.instead: dict[int, Any] = {}
        self.places: list[int | None] = []

    def resolve(self, order: dict[Any, int]) -> None:
        """Locations are known by their positions when the trace is done; those that nobody sees outside have none."""
        self.places = [order.get(key) for key, _, _ in self.parts]

    def put_back(self, contents: dict[Any, Any], there: Collection[Any]) -> None:
        """Set other contents in some places, and nothing in those where what they shall hold is ``there``."""
        for i, (key, names, spec) in enumerate(self.parts):
            if key in there:
                self.parts[i] = None, names, spec
            elif key in contents:
                self.instead[i] = contents[key]

    def run(self, *values: Any) -> None:
        rest = iter(values)
        targets, objects = calls.running[-1]
        known: dict[Any, Any] = {("outer", i): x for i, x in enumerate(objects)}
        made = [flattening.unflatten(spec, rest, lambda v: v, known) for _, _, spec in self.parts]
        for i, ((_, names, _), content, place) in enumerate(zip(self.parts, made, self.places)):
            if place is None:
                continue
            if i in self.instead:
                names, content = None, self.instead[i]
            targets[place].apply(names, content)


register(
    "tg.commit",
    run=lambda plan, values: plan.value.run(*values),
    effects=MAY_COMMIT,
    gradient="none",
    outputs=0,
)


class Commits:
    """Called before every op that may fail, with the graph that it is added to."""

    def __init__(
        self,
        seen: Callable[[Location], bool],
        stays: Callable[[Location, Any], bool],
        found: dict[int, Any],
    ):
        """``seen``: whether the caller sees a change; ``stays``: whether a variable, which regions note before they assign it, holds what it held
        as the call began, which is then a guard; ``found``: what has been found outside, by ids."""
        self.seen, self.stays = seen, stays
        # By graph what was committed last, and in which period that was begun to be noted: those of earlier periods belong to marks, too.
        self.last: dict[FuncGraph, tuple[int, dict[Any, Any]]] = {}
        self.period = 0
        self.plans: list[Plan] = []
        self.changes = Changes(found)
        # Gives what existed before the call, and that calls find, a number (``shared_objects``).
        self.outer: Callable[[Any], int | None] = lambda x: None

    def __call__(self, graph: FuncGraph) -> None:
        if not self.changes.begin(graph):
            return
        known = self._known(graph)
        parts, contents = [], []
        for key, (location, names, content) in self._changes().items():
            if key in known and _same(known[key], content):
                continue
            if key not in known and names is None and self.stays(location, _at_first(key)):
                continue
            known = self._own(graph)
            known[key] = _as_it_is(content)
            self._may_be_done(graph.outer, key)
            parts.append((key, names, structure_of(content)))
            contents.append(content)
        if not parts:
            return
        specs = marked(list(map(_value, contents)), [s for *_, s in parts], self.outer)
        parts = [(key, names, spec) for (key, names, _), spec in zip(parts, specs)]
        plan = Plan(parts)
        self.plans.append(plan)
        values = [v for c, (_, _, s) in zip(contents, parts) for v in flatten(_value(c), s, graph)]
        with graph.root.unwatched():
            graph.add("tg.commit", (OpaqueObject(plan, "changes of outer objects"), values))

    def mark(self) -> Any:
        """What was committed so far, to go ``back`` to when what follows is undone."""
        self.period += 1
        return dict(self.last), len(self.plans)

    def back(self, mark: Any) -> None:
        last, count = mark
        self.last = dict(last)
        self.changes.forget()
        del self.plans[count:]

    def put_back(self, restored: dict[Any, Any], mark: Any) -> bool:
        """What was committed since a mark, where the last journal began, of these places is what they hold now; False where that is not all to be done."""
        (last, count), around = mark, current_graph()
        while around is not None and around not in last:
            around = around.outer
        before = {} if around is None else last[around][1]
        there = {k for k, now in restored.items() if before.get(k, _at_first(k)) is now}
        other = restored.keys() - there
        changed = {k for log in journal.open_journals()[:-1] for k in log.entries}
        # One that had changed before, and was not committed then, has been committed before all else since.
        if any(
            k in before or k not in changed or leaf_types(structure_of(restored[k])) for k in other
        ):
            return False
        for plan in self.plans[count:]:
            plan.put_back({k: restored[k] for k in other}, there)
        for at in list(self.last):
            had = last[at][1] if at in last else {}
            self._own(at).update({k: had.get(k, restored[k]) for k in there})
        self._own(current_graph()).update(restored)
        self.changes.forget()
        return True

    def holds(self, graph: FuncGraph, entries: dict[Any, Any]) -> None:
        """What locations hold already, when a call begins."""
        self._own(graph).update(entries)

    def _known(self, graph: FuncGraph) -> dict[Any, Any]:
        """What was committed before this point of a graph, to be looked at."""
        if graph not in self.last:
            found = self._known(graph.outer) if graph.outer is not None else {}
            self.last[graph] = self.period, dict(found)
        return self.last[graph][1]

    def _own(self, graph: FuncGraph) -> dict[Any, Any]:
        """The same, to be changed: no mark has it."""
        known = self._known(graph)
        if self.last[graph][0] != self.period:
            known = dict(known)
            self.last[graph] = self.period, known
        return known

    def _may_be_done(self, graph: FuncGraph | None, key: Any) -> None:
        """A commit stands in a region: whether it is made is not known around that, and behind it."""
        while graph is not None:
            self._own(graph)[key] = _MAYBE
            graph = graph.outer

    def _changes(self) -> dict[Any, tuple[Location, Sequence[str] | None, Any]]:
        found: dict[Any, Any] = {}
        own = True  # so far in no construct of the graph: what is repeated at every call is still known
        steps: dict[Any, list[journal.Step] | None] = {}
        root = current_graph().root
        for at, log in enumerate(journal.open_journals()):
            own &= at == 0 or log.tried
            for key, location in self.changes.of(log):
                if location.scratch:
                    continue
                if not self.seen(location):
                    self.changes.unseen(location)
                    continue
                steps[key] = joined_steps(steps.get(key, []), log.steps.get(key) if own else None)
                made = steps[key]
                if outer_lists.extended(location.keep, root) is not None:
                    found[key] = (location, ADDED, location.get())
                elif key[0] == "contents" and made is not None:
                    found[key] = (location, [n for n, _ in made], [list(a) for _, a in made])
                else:
                    found[key] = (location, None, location.get())
        return found


_MAYBE = object()  # either what was committed last, or what is there


def _at_first(key: Any) -> Any:
    """What a place held when the call began."""
    logs = (log.entries[key] for log in journal.open_journals() if key in log.entries)
    return next((old for _, old in logs), None)


def structure_of(content: Any) -> Spec:
    return joins.opened(spec_of(_value(content)))


def _value(x: Any) -> Any:
    return Handle(x) if isinstance(x, Ref) else x


def _as_it_is(x: Any, within: tuple[int, ...] = ()) -> Any:
    """What is committed, with copies of the lists, tuples and dicts in it that may change later."""
    if type(x) not in (list, tuple, dict) or id(x) in within:
        return x
    within = (*within, id(x))
    if type(x) is dict:
        return {k: _as_it_is(v, within) for k, v in x.items()}
    return type(x)(_as_it_is(v, within) for v in x)


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is dict and type(b) is dict:
        keys = len(a) == len(b) and all(x is y for x, y in zip(a, b))
        return keys and all(map(_same, a.values(), b.values()))
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, list) and isinstance(b, list):
        a, b = _items(a), _items(b)
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b


def _items(x: list) -> tuple:
    """The items of a plain list, the columns of one of the graph."""
    return (*getattr(x, "columns", ()), *list.__iter__(x))
