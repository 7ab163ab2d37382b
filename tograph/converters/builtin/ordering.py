"""``functools.cmp_to_key``: what it gives is compared by the user's function, converted."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from ...runtime.symbols.funcgraph import is_tracing
from ..call_rules import DECIDING
from ..registry import handles


@dataclass(frozen=True, eq=False)
class Ranked:
    """A value beside the function that compares it with another one."""

    compare: Any
    value: Any

    __hash__ = None  # as of what Python's own function gives

    def __tograph_flatten__(self):
        return self.compare, [self.value]

    @staticmethod
    def __tograph_unflatten__(compare, parts):
        return Ranked(compare, *parts)

    def __lt__(self, other):
        return self.compare(self.value, other.value) < 0

    def __gt__(self, other):
        return self.compare(self.value, other.value) > 0

    def __le__(self, other):
        return self.compare(self.value, other.value) <= 0

    def __ge__(self, other):
        return self.compare(self.value, other.value) >= 0

    def __eq__(self, other):
        return self.compare(self.value, other.value) == 0


DECIDING.update((Ranked.__lt__, Ranked.__gt__, Ranked.__le__, Ranked.__ge__, Ranked.__eq__))


@handles(functools.cmp_to_key)
def cmp_to_key_(mycmp):
    if not is_tracing():
        return functools.cmp_to_key(mycmp)
    return lambda obj: Ranked(mycmp, obj)
