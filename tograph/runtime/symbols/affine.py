"""Whole numbers of a graph as sums: ``constant + n1 * atom1 + n2 * atom2 + ...``.

An atom is a value of which no more is known than the facts of ``number_facts``: what is drawn, a length, the state of a loop. Two numbers
differ by a known amount where their sums have the same atoms. Sums add up without overflow: Python's numbers are exact, and arithmetic
on tensors is taken apart only where ``proofs`` shows that it stays inside 64 bits.

A tensor of several elements has the sum of each of its elements, at the same place in all of its atoms.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple


class At(NamedTuple):
    """The element of ``atom`` that stands in ``part``, a value made of some of the elements."""

    part: Hashable
    atom: Hashable


class Length(NamedTuple):
    """The size of dimension ``dim`` of a tensor."""

    tensor: Hashable
    dim: int


class Iterations(NamedTuple):
    """How many iterations of a loop there were before this one."""

    body: Hashable


class Affine(NamedTuple):
    constant: int
    terms: Mapping[Any, int]

    def __add__(self, other: Any) -> Affine:
        terms = dict(self.terms)
        for atom, n in other.terms.items():
            terms[atom] = terms.get(atom, 0) + n
        kept = {atom: n for atom, n in terms.items() if n}
        return Affine(self.constant + other.constant, kept)

    def __sub__(self, other: Affine) -> Affine:
        return self + other.times(-1)

    def times(self, n: int) -> Affine:
        terms = {atom: k * n for atom, k in self.terms.items()} if n else {}
        return Affine(self.constant * n, terms)

    def plus(self, n: int) -> Affine:
        return Affine(self.constant + n, self.terms)


ZERO = Affine(0, {})


def constant(n: int) -> Affine:
    return Affine(int(n), {})


def of_atom(atom: Hashable) -> Affine:
    return Affine(0, {atom: 1})
