"""``reduce_retracing``: calls that differ only in sizes and Python numbers share a trace.

A **family** is all calls with one key but for sizes of tensors and values of ints and floats. The first call of a family is
traced for its very sizes and numbers. From the second on, a dimension that differs from what was seen is traced as open (its
size is a staged int), and so is a number (a staged number, passed as a 0-d tensor). Where Python needs the number itself,
or tracing fails, the number, or everything, stays as it is: a trace for each value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .joins import same_number
from .keys import relaxed, without_numbers, without_sizes
from .specs import TensorSpec

DTYPES = {int: torch.int64, float: torch.float64}


@dataclass
class Family:
    """What was seen of a family: its tensors' specs with open dimensions, its numbers, and which of these vary."""

    specs: list[TensorSpec]
    numbers: list[Any]
    varying: set[int] = field(default_factory=set)
    needed: set[int] = field(default_factory=set)  # numbers that Python depends on
    closed: bool = False  # tracing with something open failed

    def widen(self, specs: Sequence[TensorSpec], numbers: Sequence[Any]) -> None:
        """Take in another call."""
        self.specs = [relaxed(new, old) for new, old in zip(specs, self.specs)]
        for i, (new, old) in enumerate(zip(numbers, self.numbers)):
            if not same_number(new, old):
                self.varying.add(i)

    def open_numbers(self, numbers: Sequence[Any]) -> tuple[int, ...]:
        """The numbers to stage: those that vary, as far as a tensor can hold them."""
        if self.closed:
            return ()
        chosen = sorted(self.varying - self.needed)
        return tuple(chosen) if all(storable(numbers[i]) for i in chosen) else ()

    def open_specs(self, exact: list[TensorSpec]) -> list[TensorSpec]:
        """What tensors are traced as."""
        return exact if self.closed else self.specs


def storable(x: Any) -> bool:
    """Whether a 0-d tensor holds the number exactly."""
    return type(x) is float or -(2**63) <= x < 2**63


def number_tensor(x: Any) -> torch.Tensor:
    """A number as an argument of a graph."""
    return torch.tensor(x, dtype=DTYPES[type(x)])


def inputs_of(flat: Any, open_numbers: tuple[int, ...]) -> list[Any]:
    """The tensors of a call: those of the arguments, then its open numbers."""
    if not open_numbers:
        return flat.tensors
    found = flat.inputs.get(open_numbers)
    if found is None:
        numbers = (number_tensor(flat.numbers[i]) for i in open_numbers)
        found = flat.inputs[open_numbers] = [*flat.tensors, *numbers]
    return found


def numbers_in(guards: Sequence[Any], first: int) -> set[int]:
    """The staged numbers that guards ask about; ``first`` is the position of the first one among the inputs."""
    found: set[int] = set()

    def walk(expr: Any) -> None:
        if isinstance(expr, tuple) and expr:
            if expr[0] == "number":
                found.add(expr[1] - first)
            for part in expr:
                walk(part)

    for expr, _ in guards:
        walk(expr)
    return found


def advice(old: Any, new: Any, reduced: bool) -> str:
    """The setting that would have avoided a trace for the key ``new`` after one for ``old``."""
    if without_sizes(old) != without_sizes(new):
        if _without_lengths(without_sizes(old)) == _without_lengths(without_sizes(new)):
            return "Each length of a list is a trace of its own: stack its items into one tensor (pad them where they differ), and loop over that."
        return "Pass the same kinds of arguments (dtypes, flags, objects) at every call, or call a function of its own for each."
    if old == new:
        return "Pass what changes as a tensor argument, or keep it in a tg.Variable."
    if reduced:
        return "Python needs the sizes or numbers that change: pass numbers as tensors, and pad to a few sizes."
    if without_numbers(old) == without_numbers(new):
        return "Pass the number as a tensor, or use tg.function(reduce_retracing=True)."
    return "Use tg.function(reduce_retracing=True), or an input_signature with None for the dimensions that change."


def _without_lengths(key: Any) -> Any:
    """A key with equal items that follow each other as one."""
    if not isinstance(key, tuple):
        return key
    parts = list(map(_without_lengths, key))
    return tuple(p for i, p in enumerate(parts) if i == 0 or p != parts[i - 1])
