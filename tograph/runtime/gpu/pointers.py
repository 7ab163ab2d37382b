"""Inputs that stay where they are from call to call, such as weights: a captured graph reads them there, without a copy.

The address of each input is looked at in every call. Inputs that had one address in the first ``CALLS`` calls are read in place
from then on: the graph is captured again with their addresses. One that moves later is copied from then on, by a graph
that is captured once more, so there are few captures. Large inputs that move, and that only a few steps outside of loops read, are read
in place too: the graph is told their addresses before each launch (``refresh``). No tensor is kept alive by that: an address is
used in a call that was given a tensor there.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import Any

import torch

from .compacting import compact
from .forms import Form, Plain
from .plan import Host, Plan
from .refresh import movable

CALLS = 3
SMALLEST = 1 << 16  # bytes in all: below that copies cost less than a capture


class Pointers:
    """``bound``: the inputs, by number, that are read in place; ``moving``: those that are elsewhere in each call."""

    def __init__(self, plan: Plan, elsewhere: Container[int] = ()):
        """``elsewhere``: the inputs that are not on the plan's device."""
        self.bound: frozenset[int] = frozenset()
        self.moving: frozenset[int] = frozenset()
        self._calls = 0
        yields = any(isinstance(s, Host) for s, _ in plan.walk())
        self._places = {
            i: None
            for i, f in enumerate(plan.form.inputs)
            if _reads(f) and not yields and i not in elsewhere
        }
        told = movable(compact(plan)) if self._places else {}
        numbers = places(plan, frozenset(self._places))
        self._movable = frozenset(i for v, i in numbers.items() if v in told)

    def fixed(self) -> None:
        """Copy what is not in one place from now on."""
        self._movable = self.moving = frozenset()

    def moved(self, inputs: Sequence[Any]) -> bool:
        """Look at the inputs of a call; whether ``bound`` or ``moving`` has changed."""
        self._calls += 1
        gone = [i for i, at in self._places.items() if at not in (None, address(inputs[i]))]
        for i in gone:
            del self._places[i]
        if self._calls <= CALLS:
            self._places = {i: address(inputs[i]) for i in self._places}
        before = self.bound, self.moving
        if self._calls == CALLS and sum(inputs[i].nbytes for i in self._places) >= SMALLEST:
            self.bound = frozenset(i for i, at in self._places.items() if at)
        elif gone:
            self.bound = self.bound - set(gone)
        if self._calls >= CALLS:
            self.moving = self._movable - self.bound
        return before != (self.bound, self.moving)


def address(x: torch.Tensor) -> int:
    """Where a tensor's elements are, one after the other; 0 where they are not."""
    return x.data_ptr() if x.is_contiguous() else 0


def _reads(form: Form) -> bool:
    return isinstance(form, Plain) and isinstance(shape := getattr(form.type, "shape", None), tuple) and math.prod(shape) > 1  # fmt: skip


def places(plan: Plan, bound: frozenset[int]) -> dict[Any, int]:
    """The memory of the plan that stands for each bound input, and the input's number."""
    found, part = {}, 0
    for i, form in enumerate(plan.form.inputs):
        if i in bound:
            found[plan.inputs[part]] = i
        part += len(form.types)
    return found
