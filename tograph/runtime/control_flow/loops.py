"""``While`` from Python callables.

The fixed point of the state: the body is traced with the state that the entry suggests, what comes out is joined with
what went in, and that is repeated with the wider state until it is stable. Each repetition traces the body, and all loops in it, once
more; so the first round already takes the variables that the body assigns for new tensors (``Guess``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import GradientError, TographError
from ..graph.ir import Value
from ..guarding import outer_numbers, reads
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.journal import Location as Place
from ..values import joins
from ..values.joins import generalize
from ..values.structure import Choice, Spec, spec_of
from . import stale_views
from .attempts import alternative, has_alternative
from .beginnings import begin_like, begin_with, holds
from .branches import predicate, staged_if
from .carried import Carried
from .first_iterations import whole_or
from .guesses import Guess
from .joining import as_value, visible
from .loop_fields import Fields, without_fields
from .loop_histories import LoopHistories
from .loop_regions import (
    StateRegion,
    contents_after,
    contents_of,
    emit_while,
    known_to_begin,
    trace_with_state,
)
from .loop_specs import Growth, LoopOptions, endless, initial_spec, next_spec, opened
from .loop_tests import limited, predicate_value, removable, rotated
from .number_state import NumberState
from .recomputed import Recomputed
from .regions import is_module_globals, replayed, with_ambient
from .seeds import (
    Memory,
    Outcome,
    Slot,
    remembering,
    slot_for,
    slots_of,
)
from .siblings import TRIES, absent
from .telling import Told
from .unrolled import unrolled

MAX_ROUNDS = 16


def staged_while(
    test: Callable[[], Any],
    body: Callable[[], Any],
    places: Sequence[Place],
    options: LoopOptions | None = None,
    first: Any = None,
) -> None:
    """``while test(): body()`` when the graph runs, over the contents of ``places`` and all that the body changes.

    ``first`` is what the test gave before the loop, when it was asked already.
    """
    places = with_ambient(places)
    slot = slot_for(user_location(), places, body)
    start = functools.partial(Rounds, test, body, places, options or LoopOptions())
    parts = options is None and slot.outermost
    whole = functools.partial(_searched, start, [first], slot, parts)

    def behind() -> Rounds | None:
        body()
        return _searched(start, [None], slot)

    def in_branch() -> Rounds | None:
        staged_if(predicate(test(), "while"), lambda: _first_apart(test, body, places), lambda: None, places)  # fmt: skip
        return None

    if options is None and not has_alternative():
        rounds = whole_or(whole, behind if first is True else in_branch, places, parts)
    else:
        rounds = whole()
    if rounds is not None and parts and rounds.makes_state():
        rounds = behind()
    if rounds is None:
        return
    slot.leave(rounds.outcome())
    try:
        rounds.emit()
    except GradientError as error:
        if error.rising and options is None:
            unrolled(test, body, places, first, error)
            return
        if rounds.history.again or not error.again:
            raise
        _searched(functools.partial(start, again=True), [first], slot).emit()


def _first_apart(test: Callable[[], Any], body: Callable[[], Any], places: Sequence[Place]) -> None:
    """The first iteration, and the loop of those that follow it."""
    body()
    with alternative():
        staged_while(test, body, places)


def _searched(
    start: Callable[[list[Any]], Rounds], first: list[Any], slot: Slot, parts: bool = False
) -> Rounds:
    """The rounds of a loop, settled. ``first`` holds what the test gave before the loop, or None until it is asked. With ``parts``, a loop
    whose first iteration surely runs and makes state may be left as soon as that is seen: it begins anew behind that iteration.
    """
    beside, rounds, root = slot.beside, start(first), current_graph().root
    if slot.outcome is not None:
        begin_with(rounds, slot.outcome, slot.changed)
    elif beside is not None and beside.failures < TRIES and not root.alone:
        if begin_like(rounds, beside) and holds(rounds):
            root.alike = True
            return rounds
        rounds = start(first)
        rounds.failures = beside.failures + 1
    for _ in range(MAX_ROUNDS):
        if rounds.settled() or (parts and rounds.makes_state()):
            return rounds
        if rounds.goes_on():
            break
    error: Any = endless(rounds.unsettled())
    if rounds.goes_on():
        error.apart = False  # behind the first iteration too
    raise error


class Rounds:
    """The rounds of tracing a loop: ``state`` are the places that it carries, with ``specs``; ``same`` those that stay what they are."""

    cond: StateRegion
    loop: StateRegion
    failures = 0
    anew: Recomputed | None = None

    def __init__(
        self,
        test: Any,
        body: Any,
        places: Sequence[Place],
        options: LoopOptions,
        first: list[Any],
        again: bool = False,
    ):
        self.test, self.body, self.options, self.first = test, body, options, first
        self.functions = (test, body)
        self.memory, self.given, self.rotated = Memory(), [*places], False
        self.same = [p for p in places if p.scratch or _leaf(p)]
        self.state = [p for p in places if p not in self.same]
        if options.maximum_iterations is not None:
            self.test, self.body, counter = limited(test, body, options.maximum_iterations)
            self.state.append(counter)
            self.given.append(counter)
        self.told = Told(self.body, self.state)
        contents = contents_of(self.state, self.told)
        self.specs = [initial_spec(c, p, options) for c, p in zip(contents, self.state)]
        self.carried, self.history = Carried(), LoopHistories(self.state, contents)
        self.history.again = again
        self.guess = Guess(self.state, self.specs)
        self.numbers = NumberState()
        self.before = {p.key: s for p, s in zip(self.state, self.specs)}
        self.moving: list[tuple[Place, Spec]] = []
        self.taken_over: list[Place] = []  # from an earlier search, not yet seen to be changed
        self.growth = Growth()
        self.stale: set[Value] = set()
        self.fields = Fields()

    def entry(self, place: Place) -> Spec:
        """The spec of what a place holds before the loop."""
        return initial_spec(self.told.entry(place, as_value(place.get())), place, self.options)

    def add(self, place: Place, spec: Spec) -> None:
        """A place is state from here on."""
        self.history.add(place.key, as_value(place.get()))
        self.state.append(place)
        self.specs.append(spec)

    def outcome(self) -> Outcome:
        """What the search found."""
        merged, grown = frozenset(self.told.merged), frozenset(self.history.keys)
        known = without_fields(self.state, self.specs)
        found = (self.before, self.rotated, merged, self.carried, grown, self.memory)
        rest = (*found, slots_of(self.state), self.failures)
        return Outcome(self.functions, self.given, *known, *rest)

    def settled(self) -> bool:
        """Trace the test and the body once more; whether what came out is what went in."""
        self.fields.extend(self, contents_of(self.state, self.told))
        if self.guess.open:
            if not self._guessed():
                return False
        elif not self._traced(self.specs) or self._idle():
            return False
        again = self.history.change(self.loop, self.state)
        again = self.fields.extend(self, contents_after(self.loop, self.state), self.loop) or again
        if self._recomputes():
            return False
        # What else a round says goes for one with that history, too.
        if self._merged() or not self._stable() or again:
            return False
        if stale_views.taken(self.loop.graph, [self.cond.graph], self.stale):
            return False
        return not (self.numbers.doubts(self.loop) or self.history.unsettled(self.loop))

    def _guessed(self) -> bool:
        """Trace with the guesses; whether all of them hold."""
        guess, exact = self.guess, self.specs
        guess.expect(self.carried)
        try:
            if not self._traced(guess.specs(self.state, exact)):
                return False
        except TographError:  # where it is not the guess, it comes again
            guess.drop(self.carried)
            return False
        if guess.wrong(self.loop, self.state, self.carried):
            return False
        self.specs = guess.specs(self.state, exact)
        guess.close()
        return True

    def _traced(self, specs: Sequence[Spec]) -> bool:
        """Trace with these specs; False where the test has to be moved into the body first."""
        with remembering(self.memory, self.carried):
            return self._trace(specs)

    def _trace(self, specs: Sequence[Spec]) -> bool:
        self.carried.begin(self.state, specs, contents_of(self.state, self.told))
        with_state = (self.state, specs, self.same, self.carried, self.told)
        test = self.test
        self.cond = trace_with_state("cond", lambda: predicate_value(test()), *with_state)
        if self.cond.raised or self.cond.changed_outside or not removable(self.cond.graph):
            self.rotate()
            return False
        self.numbers.tested(self.cond)
        self.loop = trace_with_state("body", self.body, *with_state, self.history, self.numbers)
        self.memory.changed = frozenset(self.loop.changed)
        if not self.loop.raised:
            self.fields.leave(self.loop)
        return True

    def rotate(self) -> None:
        """Move the test into the body: it does more than compute."""
        if self.first[0] is None:
            self.first[0] = self.test()
        self.test, self.body, flag = rotated(self.test, self.body, self.first[0])
        self.rotated = True
        self.given.append(flag)
        spec = generalize(opened(spec_of(flag.get())))
        self.before[flag.key] = spec
        self.add(flag, spec)

    def _recomputes(self) -> bool:
        """Whether an iteration is to compute state anew that it differentiates, otherwise than it did in this trace."""
        if anew := self.history.earlier.anew:
            if self.anew is None:
                self.body = self.anew = Recomputed(self.body, self.history.location)
                self.history.hopeless = self.anew.hopeless
            if self.anew.ask(anew, self.state):
                return True
        cells = None if self.anew is None else self.anew.grown()
        for cell in [c for c in cells or () if c.key not in self.before]:
            spec = self.before[cell.key] = initial_spec(as_value(cell.get()), cell, self.options)
            self.add(cell, spec)
        return cells is not None

    def _idle(self) -> bool:
        """Give up the places that were taken over and that an iteration leaves as they are; whether there are any."""
        places, self.taken_over = self.taken_over, []
        loop = self.loop
        idle = {p.key for p in places if loop.content(p) is loop.entered[p.key] and not loop.raised}
        idle |= self.fields.keys_of(idle)
        kept = [(p, s) for p, s in zip(self.state, self.specs) if p.key not in idle]
        self.state, self.specs = [p for p, _ in kept], [s for _, s in kept]
        return bool(idle)

    def _merged(self) -> bool:
        """Whether an iteration leaves containers of its own in places that told them as themselves until now."""
        if self.loop.raised:
            return False
        merged = self.told.widen(self.loop, self.state, contents_after(self.loop, self.state))
        initial = contents_of(self.state, self.told) if merged else ()
        for i, (place, content) in enumerate(zip(self.state, initial)):
            if place in merged:
                self.specs[i] = initial_spec(content, place, self.options)
                self.before[place.key] = self.specs[i]
        return bool(merged)

    def _stable(self) -> bool:
        """Join what came out with what went in; whether that is the same, and nothing else was changed."""
        loop, told = self.loop, self.told
        left = told.left(self.state, contents_after(loop, self.state))
        fresh = self._fresh()
        entries, after = self._of_fresh(fresh)
        with replayed(loop):
            joined = self._joined(left)
            added = [
                visible(next_spec(s, p, c, self.options), current_graph())
                for s, p, c in zip(entries, fresh, after)
            ]
            again = not loop.raised and self.carried.widen(
                loop.graph, [*self.state, *fresh], [*joined, *added], [*left, *after]
            )
        again = told.share(self.state, contents_after(loop, self.state), loop.marks) or again
        moving = [
            (p, new)
            for p, old, new in zip(self.state, self.specs, joined)
            if not joins.equal(old, new)
        ]
        if not (fresh or again or moving):
            return True
        self.moving = moving or self.moving
        self.state, self.specs = [*self.state, *fresh], [*joined, *added]
        self.fields.extend(self, contents_after(loop, self.state), loop)
        self.growth.add(self.specs)
        return False

    def goes_on(self) -> bool:
        """Whether each iteration makes something larger, so that the rounds take longer and longer."""
        return self.growth.goes_on()

    def _joined(self, left: Sequence[Any]) -> list[Spec]:
        """The specs of the state joined with those of what an iteration left."""
        return [
            visible(s if self.loop.raised else next_spec(s, p, c, self.options), current_graph())
            for s, p, c in zip(self.specs, self.state, left)
        ]

    def _fresh(self) -> list[Place]:
        """The places that an iteration changes and that are no state yet."""
        loop = self.loop
        known = {p.key for p in self.state}
        known |= {p.key for p in self.same if loop.content(p) is loop.entered[p.key]}
        return [p for k, (p, new) in loop.changed.items() if k not in known and not _restored(p, new)]  # fmt: skip

    def _of_fresh(self, fresh: Sequence[Place]) -> tuple[list[Spec], list[Any]]:
        """The specs of what fresh places hold before the loop, and what an iteration leaves in them."""
        self.told.widen(self.loop, fresh, contents_after(self.loop, fresh))
        entries = []
        for place in fresh:
            outer_numbers.changes(place, reads.current())
            content = as_value(place.get())
            self.history.add(place.key, content)
            entries.append(generalize(spec_of(self.told.entry(place, content))))
            self.before[place.key] = entries[-1]
        return entries, self.told.left(fresh, contents_after(self.loop, fresh))

    def makes_state(self) -> bool:
        """Whether iterations find out if an earlier one has made an attribute or entry of an object: after the first, which surely runs, they do not."""
        found = not self.rotated and any(
            p.key[0] in ("key", "attr")
            and not is_module_globals(p)
            and absent(self.before[p.key])
            and isinstance(s, Choice)
            for p, s in zip(self.state, self.specs)
        )
        return found and self.begins()

    def begins(self) -> bool:
        """Whether the first iteration surely runs."""
        return not self.loop.raised and known_to_begin(self.cond, self.told)

    def unsettled(self) -> list[tuple[Place, Spec]]:
        """The places that changed in the last rounds."""
        return self.moving or list(zip(self.state, self.specs))

    def emit(self) -> None:
        """Record the loop."""
        found = (self.state, self.specs, self.carried, self.told, self.options.checkpoint, self.history)  # fmt: skip
        emit_while(self.cond, self.loop, *found)


def _restored(place: Place, new: Any) -> bool:
    """Whether an iteration leaves a bool of an object as it was before the loop, when it has used another: ``requires_grad``, ``training``."""
    return place.key[0] == "attr" and type(new) is bool and new is place.get()


def _leaf(place: Place) -> bool:
    """Whether a place holds a tensor that gradients are gathered in.

    In-place ops, ``p -= step``, leave it the same tensor, with its ``.grad``. A place that an iteration gives another one becomes state.
    """
    content = as_value(place.get())
    return isinstance(content, torch.Tensor) and content.requires_grad and content.is_leaf
