"""The least and the most that a whole number can be, by the facts of what it is computed from: intervals, where ``proofs`` asks about sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .affine import Affine
from .number_facts import Case, Fact
from .proofs import Numbers

Limits = tuple[int | None, int | None]
DEPTH = 4


def limits(x: Numbers, form: Affine, met: Sequence[Affine] = (), depth: int = DEPTH) -> Limits:
    """Of a sum. ``met``: what holds where it is asked for; None: nothing is known."""
    low, high = form.constant, form.constant
    bounded = [True, True]
    for atom, n in form.terms.items():
        least, most = (_limit(x, atom, sign, met, depth) for sign in (1, -1))
        for side, limit in enumerate((least, most) if n > 0 else (most, least)):
            bounded[side] = bounded[side] and limit is not None
        low += n * ((least if n > 0 else most) or 0)
        high += n * ((most if n > 0 else least) or 0)
    return low if bounded[0] else None, high if bounded[1] else None


def _limit(x: Numbers, atom: Any, sign: int, met: Sequence[Affine], depth: int) -> int | None:
    """The least (1) or the most (-1) that an atom can be: the best of what facts tell."""
    if not depth:
        return None
    local: list[Fact] = [[[f]] for f in met if f.terms.get(atom, 0) * sign > 0]
    found = [n for fact in (*local, *x.facts(atom)) if (n := _by(x, atom, sign, fact, met, depth)) is not None]  # fmt: skip
    return None if not found else max(found) if sign > 0 else min(found)


def _by(x: Numbers, atom: Any, sign: int, fact: Fact, met: Sequence[Affine], depth: int) -> int | None:  # fmt: skip
    """What holds in all cases of a fact."""
    ends = []
    for case in fact:
        found = list(_in_case(x, atom, sign, case, met, depth))
        if not found:
            return None
        ends.append(max(found) if sign > 0 else min(found))
    return min(ends) if sign > 0 else max(ends)


def _in_case(x: Numbers, atom: Any, sign: int, case: Case, met: Sequence[Affine], depth: int) -> Iterator[int]:  # fmt: skip
    for bound in case:
        n = bound.terms.get(atom, 0)
        if n * sign <= 0:
            continue
        rest = Affine(bound.constant, {a: k for a, k in bound.terms.items() if a != atom})
        most = limits(x, rest, (*met, *case), depth - 1)[1]
        if most is not None:
            yield -(most // n) if n > 0 else most // -n
