"""The patterns of ``match`` (``match_stmt``), as functions that match a subject.

A literal or value pattern against a tensor gives a staged condition; the shapes of sequence, mapping and class patterns are Python's and
are decided while tracing, but for the length of a list of the graph, and keys and attributes that are there on some paths only: what is
read of those is read where the case has matched (``Later``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import StagingError
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library.staged_string import StagedString
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import Ref, current_graph, user_location
from ..runtime.symbols.journal import MISSING
from ..runtime.values import facts
from ..runtime.values.flattening import choose
from ..runtime.values.reach import reachable, user_variables
from ..runtime.values.structure import UNSET, is_growing, is_union, may_miss
from ..runtime.values.tables import is_table
from .attributes import descriptor
from .calls import call
from .comparisons import contains
from .conditional_expression import if_exp
from .logical import and_, or_
from .subscripts import getitem
from .user_operators import eq

Pattern = Callable[[Any, dict[str, Any]], Any]


@dataclass
class Match:
    """``matched`` is a bool or a staged condition; ``captures`` what the names stand for."""

    matched: Any
    captures: dict[str, Any] = field(default_factory=dict)


@dataclass
class Later:
    """A part of a subject that can be read only where what came before it in the pattern holds."""

    read: Callable[[], Any]


def now(x: Any) -> Any:
    return x.read() if isinstance(x, Later) else x


def match_captured(found: Match, name: str) -> Any:
    """What a name stands for, where the case has matched."""
    return now(found.captures[name])


def _later(match: Pattern, subject: Later, captures: dict[str, Any]) -> Any:
    """A pattern for a part that is read later: names get what the pattern finds when they are bound."""
    own: dict[str, Any] = {}

    def again(word: str) -> Any:
        found: dict[str, Any] = {}
        _without_effects(lambda: match(now(subject), found))
        return now(found[word])

    matched = match(now(subject), own)
    captures |= {word: Later(lambda word=word: again(word)) for word in own}
    return matched


def over_options(match: Pattern) -> Pattern:
    """A pattern for a subject that may be one of several kinds: it holds where the option that counts matches."""

    def test(subject, captures):
        if isinstance(subject, Later):
            return _later(test, subject, captures)
        if not is_union(subject):
            return match(subject, captures)
        found: Any = False
        caught: list[dict[str, Any]] = []
        for i in facts.possible(subject):
            own: dict[str, Any] = {}
            matched = match(subject.options_[i], own)
            caught.append(own)
            if matched is not False:
                here = facts.is_option(subject, i)
                found = or_(found, lambda here=here, m=matched: and_(here, lambda: m))
        known = dict(zip(facts.possible(subject), caught))
        for word in dict.fromkeys(n for own in caught for n in own):
            options = [known.get(i, {}).get(word, UNSET) for i in range(len(subject.options_))]
            if any(isinstance(o, Later) for o in options):
                captures[word] = Later(lambda o=options: _of_options(subject, o))
            else:
                captures[word] = choose(subject.tag_, options, current_graph())
        return found

    return test


def _of_options(subject: Any, options: list[Any]) -> Any:
    """What a name stands for, of the option that the subject is: that has matched, so those without one are not it."""
    left = [i for i in facts.possible(subject) if options[i] is not UNSET]

    def chain(left: list[int]) -> Any:
        if len(left) == 1:
            return now(options[left[0]])
        test = facts.is_option(subject, left[0])
        return if_exp(test, lambda: now(options[left[0]]), lambda: chain(left[1:]))

    return chain(left)


def match_case(subject, pattern) -> Match:
    captures: dict[str, Any] = {}
    return Match(pattern(subject, captures), captures)


def match_value(value):
    return over_options(lambda subject, captures: eq(subject, value))


def match_singleton(value):
    def match(subject, captures):
        return subject is value if value is None else _is_bool(subject, value)

    return over_options(match)


def _is_bool(subject, value):
    if isinstance(subject, SYMBOLS):
        return subject == value if subject.node.kind is bool else False
    return subject is value


def match_capture(name):
    def match(subject, captures):
        if name is not None:
            captures[name] = subject
        return True

    return match


def match_as(pattern, name):
    def match(subject, captures):
        matched = pattern(subject, captures)
        captures[name] = subject
        return matched

    return match


def match_or(*patterns):
    def match(subject, captures):
        """Names get what the first alternative that matches finds."""
        found: Any = False
        caught: dict[str, Any] = {}
        for pattern in patterns:
            own: dict[str, Any] = {}
            matched: list[Any] = []
            before = found

            def test(pattern=pattern, own=own, matched=matched):
                matched.append(pattern(subject, own))
                return matched[-1]

            found = or_(before, test)
            if matched and matched[0] is not False:
                caught = own if before is False else _first(before, caught, own)
            if found is True:
                break
        captures |= caught
        return found

    return match


def _first(test: Any, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What the names of ``one`` stand for where ``test`` holds, else those of ``other``, which are the same."""
    return {
        n: Later(lambda n=n: if_exp(test, lambda: now(one[n]), lambda: now(other[n]))) for n in one
    }


def _all(tests, captures):
    """Whether all hold. What a test computed in a branch, behind one that the run decides, is computed again where its name is bound."""
    found = True
    for test in tests:
        before = set(captures)
        found = and_(found, test)
        if found is False:
            return False
        for word in [w for w in captures if w not in before and _is_left(captures[w])]:
            captures[word] = Later(lambda w=word, test=test: _again(test, w, captures))
    return found


def _again(test: Callable[[], Any], word: str, captures: dict[str, Any]) -> Any:
    kept = dict(captures)
    try:
        _without_effects(test)
        return now(captures[word])
    finally:
        captures.clear()
        captures.update(kept)


def _without_effects(test: Callable[[], Any]) -> None:
    """``test()`` a second time; StagingError where that changes something a second time."""
    log = journal.push(called=True)
    try:
        test()
    finally:
        journal.unwind(log)
    changed = [place.keep for place in log.locations()]
    before = reachable([*user_variables(), test], changed) if changed else set()
    journal.adopt(log)
    if any(id(x) in before for x in changed):  # not what the code has made itself
        raise StagingError(
            "a pattern reads an attribute or item behind a condition that is known only when the graph runs, by code that changes something, and "
            "names a part of it: read it in front of the `match`",
            user_location(),
        )


def _is_left(x: Any) -> bool:
    """Whether a number or tensor belongs to a branch that has ended."""
    if is_union(x):
        return any(map(_is_left, (x.tag_, *x.options_)))
    ref = x.node.ref if isinstance(x, SYMBOLS) else getattr(x, "ref", None)
    return isinstance(ref, Ref) and ref.graph.closed


@dataclass
class match_star:
    name: str | None


_SEQUENCE, _MAPPING = 1 << 5, 1 << 6  # bits of a class: `collections.abc` counts it as one


_TEXTS = (str, StagedString, bytes, bytearray, torch.Tensor)  # no sequences for ``match``


def _counts_as(x, bit: int) -> bool:
    """Whether Python takes an object for a sequence or mapping; what stands for one in a trace is one."""
    if not type(x).__module__.startswith("tograph."):
        return bool(type(x).__flags__ & bit)
    if bit == _MAPPING:
        return hasattr(x, "keys")
    return hasattr(x, "__getitem__") and not (isinstance(x, (dict, set)) or is_table(x))


def match_sequence(*patterns):
    star = next((i for i, p in enumerate(patterns) if isinstance(p, match_star)), None)

    def match(subject, captures):
        if isinstance(subject, _TEXTS) or not _counts_as(subject, _SEQUENCE):
            return False
        if is_growing(subject):
            return _listed(subject, patterns, star, captures)
        rows = [p for i, p in enumerate(patterns) if i != star]
        if star == 0 and not rows:  # any sequence will do
            if patterns[0].name is not None:
                captures[patterns[0].name] = call(list, subject)
            return True
        count = call(len, subject)
        if isinstance(count, SYMBOLS):
            return _listed(subject, patterns, star, captures)
        if count != len(rows) if star is None else count < len(rows):
            return False
        items = _items(subject, count, star, rows, patterns, captures) if rows else []
        return _all([lambda p=p, x=x: p(x, captures) for p, x in zip(rows, items)], captures)

    return over_options(match)


def _items(subject, count, star, rows, patterns, captures) -> list[Any]:
    """The items that have a pattern of their own. Where no name gets the others, Python reads them by index, and these alone."""
    if star is None:
        return call(list, subject)
    after = len(patterns) - star - 1
    if patterns[star].name is None:
        at = [i if i < star else count - after + i - star for i in range(len(rows))]
        return [getitem(subject, i) for i in at]
    items = call(list, subject)
    captures[patterns[star].name] = items[star : count - after]
    return items[:star] + items[count - after :]


def _listed(subject, patterns, star, captures):
    """The sequence pattern of a list whose length only the run knows."""
    count, fixed = call(len, subject), len(patterns) - (star is not None)
    tests = [lambda: count == fixed if star is None else count >= fixed]
    for i, p in enumerate(patterns):
        after = len(patterns) - 1 - i
        if i == star:
            if p.name is not None:
                part = slice(i, -after if after else None)
                captures[p.name] = Later(lambda part=part: call(list, getitem(subject, part)))
            continue
        at = i if star is None or i < star else -after - 1
        item = Later(lambda at=at: getitem(subject, at))
        tests.append(lambda p=p, item=item: p(item, captures))
    return _all(tests, captures)


def match_mapping(keys, patterns, rest):
    def match(subject, captures):
        if not _counts_as(subject, _MAPPING):
            return False
        count = call(len, subject) if keys else 0
        if not isinstance(count, SYMBOLS) and count < len(keys):
            return False
        for i, k in enumerate(keys):
            if k in keys[:i]:
                raise ValueError(f"mapping pattern checks duplicate key ({k!r})")
        if any(k not in subject for k in keys):
            return False
        if rest is not None:
            captures[rest] = {k: v for k, v in subject.items() if k not in keys}
        tests = []
        for k, p in zip(keys, patterns):
            x = subject[k]
            if may_miss(x):
                tests.append(lambda k=k: contains(k, subject))
                x = Later(lambda k=k: getitem(subject, k))
            tests.append(lambda p=p, x=x: p(x, captures))
        return _all(tests, captures)

    return over_options(match)


def _read(subject: Any, attr: str) -> Any:
    """An attribute, read once, as Python does: a property may have effects. MISSING where there is none."""
    if isinstance(descriptor(subject, attr), property):
        return call(getattr, subject, attr, MISSING)
    return getattr(subject, attr, MISSING)


def _field(subject, attr, x, pattern, captures):
    """The tests of an attribute, of which ``x`` was read."""
    if not may_miss(x):
        return [lambda: pattern(x, captures)]
    part = Later(lambda: call(getattr, subject, attr))
    return [lambda: call(hasattr, subject, attr), lambda: pattern(part, captures)]


def _positional(cls: type, count: int, names: tuple[str, ...]) -> tuple[str, ...]:
    """The attributes that positional sub-patterns of a class are for; TypeError as Python raises it."""
    fields = getattr(cls, "__match_args__", ()) if count else ()
    if type(fields) is not tuple:
        raise TypeError(f"{cls.__name__}.__match_args__ must be a tuple (got {type(fields).__name__})")  # fmt: skip
    if count > len(fields):
        raise TypeError(f"{cls.__name__}() accepts {len(fields)} positional sub-patterns ({count} given)")  # fmt: skip
    seen: list[str] = []
    for attr in (*fields[:count], *names):
        if type(attr) is not str:
            raise TypeError(f"__match_args__ elements must be strings (got {type(attr).__name__})")
        if attr in seen:
            raise TypeError(f"{cls.__name__}() got multiple sub-patterns for attribute {attr!r}")
        seen.append(attr)
    return fields


_SELF = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def match_class(cls, patterns, names, kwd):
    def match(subject, captures):
        kind = subject.node.kind if isinstance(subject, SYMBOLS) else call(type, subject)
        if not issubclass(kind, cls):
            return False
        tests = []
        if patterns and cls in _SELF:
            tests.append(lambda: patterns[0](subject, captures))
        else:
            fields = _positional(cls, len(patterns), names)
            for attr, p in zip(fields, patterns):
                if (x := _read(subject, attr)) is MISSING:
                    return False
                tests += _field(subject, attr, x, p, captures)
        for attr, p in zip(names, kwd):
            if (x := _read(subject, attr)) is MISSING:
                return False
            tests += _field(subject, attr, x, p, captures)
        return _all(tests, captures)

    return over_options(match)
