"""What a search for the state of a loop begins from: what an earlier search of the same loop found, or one of a copy of it (``siblings``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors import TographError
from ..symbols.funcgraph import current_graph
from ..symbols.journal import Location as Place
from ..values import joins
from ..values.structure import Spec, is_staged_list
from .guesses import Guess
from .joining import as_value, visible
from .loop_regions import contents_after
from .loop_specs import next_spec
from .regions import replayed
from .seeds import Outcome, plain, storages_at, widened
from .siblings import alike, counterparts, kept, within_reach

if TYPE_CHECKING:
    from .loops import Rounds

State = list[tuple[Place, Spec, Spec]]  # (place here, spec before the loop and spec there)


def begin_with(rounds: Rounds, found: Outcome, changed: frozenset[Any]) -> None:
    """Begin with what an earlier search found. ``changed``: what the body around is known to change of what was there before it."""
    places = _given(rounds, found)
    if places is None:
        return
    known = [p for p in found.state if p.key in changed and p.key not in places]
    # A list that a variable held in an earlier round of the loop around may be out of reach in this one: to write it would be to write what is outside.
    places |= {p.key: p for p in within_reach(known, [rounds.test, rounds.body], memory=False)}
    places |= storages_at(found.slots)
    others = [p for p in found.state if p.key not in places]
    places |= counterparts(others, found.functions, rounds.functions)
    keys = {old: new.key for old, new in places.items()}
    merged = rounds.told.merged
    rounds.told.merged = merged | {keys[k] for k in found.merged if k in keys}
    state = _state(found, places)
    specs = {p.key: _begun(rounds, p, before, spec) for p, before, spec in state}
    if any(s is None for s in specs.values()):
        rounds.told.merged = merged
        return
    _take_over(rounds, found, state, specs, keys)
    rounds.carried.adopt(found.carried, keys, current_graph())
    rounds.memory = found.memory
    rounds.memory.changed &= changed


def begin_like(rounds: Rounds, found: Outcome) -> bool:
    """Begin with what a copy of the loop found, as a guess; whether what goes in allows it."""
    places = _given(rounds, found)
    if places is None:
        return False
    others = [p for p in found.state if p.key not in places]
    places |= {p.key: p for p in within_reach(others, [rounds.test, rounds.body])}
    others = [p for p in others if p.key not in places]
    places |= counterparts(others, found.functions, rounds.functions)
    keys = {old: new.key for old, new in places.items()}
    rounds.told.merged |= {keys[k] for k in found.merged if k in keys}
    state = _state(found, places)
    entries = {p.key: rounds.entry(p) for p, _, _ in state}
    specs = {p.key: alike(b, s, entries[p.key], current_graph()) for p, b, s in state}
    if any(s is None for s in specs.values()):
        return False
    rounds.before |= entries
    _take_over(rounds, found, state, specs, keys)
    rounds.carried.expect_of(found.carried, keys)
    rounds.memory = found.memory.beside(keys)
    return True


def _given(rounds: Rounds, found: Outcome) -> dict[Any, Place] | None:
    """What both searches were given, by the keys of the earlier one; None where one was given more."""
    if len(rounds.given) != len(found.given) - found.rotated:
        return None
    if found.rotated:
        rounds.rotate()
    return {old.key: new for old, new in zip(found.given, rounds.given)}


def _state(found: Outcome, places: Mapping[Any, Place]) -> State:
    """The state of the earlier search, where it is here too."""
    rows = zip(found.state, found.specs)
    return [(places[p.key], found.before[p.key], s) for p, s in rows if p.key in places]


def _begun(rounds: Rounds, place: Place, before: Spec, found: Spec) -> Spec | None:
    """The spec of a place to begin with, where an earlier search found this one (see ``widened``)."""
    now = rounds.entry(place)
    rounds.before[place.key] = now
    return widened(before, found, now, place, current_graph())


def _take_over(
    rounds: Rounds,
    found: Outcome,
    state: State,
    specs: Mapping[Any, Spec | None],
    keys: Mapping[Any, Any],
) -> None:
    """Have the state of the earlier search, with these specs."""
    have = {p.key for p in rounds.state}
    rounds.taken_over = [p for p, _, _ in state if p.key not in have]
    for place in rounds.taken_over:
        rounds.add(place, rounds.before[place.key])
    rounds.specs = [specs.get(p.key) or s for p, s in zip(rounds.state, rounds.specs)]
    rounds.history.keys |= {keys[k] for k in found.grown if k in keys}
    rounds.guess = Guess((), ())


def holds(rounds: Rounds) -> bool:
    """Whether the search ends soon, with what it would have found by itself."""
    lists = [(i, s) for i, s in enumerate(rounds.specs) if is_staged_list(s)]
    try:
        settled = any(rounds.settled() for _ in range(3)) and _justified(rounds)
        # A list that holds more than it was taken to would keep what the other loop's does.
        return settled and all(joins.equal(plain(s), plain(rounds.specs[i])) for i, s in lists)
    except TographError:  # where it is not the guess, it comes again
        return False


def _justified(rounds: Rounds) -> bool:
    if rounds.loop.raised or not rounds.carried.confirmed:
        return False
    left = rounds.told.left(rounds.state, contents_after(rounds.loop, rounds.state))
    with replayed(rounds.loop):
        joined = [
            visible(next_spec(rounds.before[p.key], p, c, rounds.options), current_graph())
            for p, c in zip(rounds.state, left)
        ]
    pairs = zip(joined, rounds.specs)
    return all(joins.equal(plain(a), plain(b)) for a, b in pairs) and not any(
        kept(as_value(rounds.loop.entered[p.key]), c, rounds.before[p.key], s)
        for p, c, s in zip(rounds.state, left, rounds.specs)
    )
