"""The order in which a set of integers is gone over: CPython keeps them in a table, at places that their hashes and the order of insertion tell.

Model (``Objects/setobject.c``): an integer goes to ``hash & mask``; where that is taken, to one of the next ``_PROBES`` places, then to
those of a sequence that takes in the other bits of the hash. A table that is filled to three fifths is replaced by a larger one, into which
its items go in their order. Known of sets to which items were only added; which strings and floats come first is not told here.
"""

from __future__ import annotations

from typing import Any

import torch

from ..runtime.graph.types import ScalarType
from ..runtime.values.structure import Leaf
from ..runtime.values.tables import StagedSet
from .call_rules import DECIDING
from .calls import call

_PROBES, _SHIFT, _SMALLEST, _MANY = 9, 5, 8, 50000
_FREE = -(2**63)
_MODULUS = 2**61 - 1
_BITS = 2**59 - 1  # what is left of a negative hash that is shifted as an unsigned one


def is_told(x: StagedSet) -> bool:
    """Whether the order of a set follows from its items."""
    spec = x.item_spec
    integers = isinstance(spec, Leaf) and spec.type == ScalarType(int)
    return x.only_added and (spec is None or integers)


def ordered(x: StagedSet) -> Any:
    """The items of such a set in the order of Python."""
    keys = x.keys_list()
    return keys if x.item_spec is None else call(_ordered, keys)


def _ordered(keys):
    n = len(keys)
    room = _SMALLEST
    while room <= 4 * n:
        room *= 2
    table = torch.full((room,), _FREE)
    mask = _SMALLEST - 1
    for filled, key in enumerate(keys, 1):
        table[_place(table, key, mask)] = key
        if filled * 5 >= mask * 3:
            old, before = table.clone(), mask + 1
            table.fill_(_FREE)
            wanted = filled * 2 if filled > _MANY else filled * 4
            mask = _SMALLEST
            while mask <= wanted:
                mask *= 2
            mask -= 1
            for i in range(before):
                moved = old[i].item()
                if moved != _FREE:
                    table[_place(table, moved, mask)] = moved
    return table[table != _FREE].tolist()


def _place(table, key, mask):
    """The free place in a table for a new key."""
    rest = _hash(key)
    start = rest & mask
    while True:
        last = start + _PROBES if start + _PROBES <= mask else start
        i = start
        while i < last and table[i] != _FREE:
            i += 1
        if table[i] == _FREE:
            return i
        rest = (rest >> _SHIFT) & _BITS
        start = (start * 5 + 1 + (rest & mask)) & mask


def _hash(n):
    if n >= _MODULUS:
        n = n % _MODULUS
    elif n <= -_MODULUS:
        n = -(-n % _MODULUS)
    return -2 if n == -1 else n


DECIDING.update((_ordered, _place, _hash))
