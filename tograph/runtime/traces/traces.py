"""A trace: the concrete function of one signature, with what must hold of a call for it to be used.

It serves calls of its key, or, where sizes or numbers are open, of its family; in both cases the guards have to hold.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ..guarding import guards
from ..guarding.size_words import describe_size
from ..values import families
from ..values.arguments import Flat
from ..values.joins import same_number
from ..values.keys import show_spec
from ..values.specs import TensorSpec
from .call_effects import no_places
from .commits import Target
from .concrete import ConcreteFunction


class Trace:
    """A concrete function with what must hold for it to be used."""

    def __init__(
        self,
        concrete: ConcreteFunction,
        key: Any,
        specs: list[TensorSpec],
        checks: guards.Guards,
        finder: Any,
        numbers: Sequence[Any] = (),
        open_numbers: tuple[int, ...] = (),
        names: Sequence[str] = (),
        written: frozenset[Any] = frozenset(),
        asked: frozenset[int] = frozenset(),
    ):
        self.written = written  # the keys of the outer locations that the code changes
        self.asked = asked  # objects among the arguments, of which the code asks which they are
        self.concrete, self.key, self.specs = concrete, key, specs
        self.checks, self.finder = checks, finder
        self.numbers, self.open_numbers, self.names = list(numbers), open_numbers, list(names)
        concrete.asked = None if checks.of_arguments.empty and not concrete.slots else (checks, self.names)  # fmt: skip

    @property
    def open(self) -> bool:
        """Whether calls of other sizes or numbers than the traced ones may use it."""
        return bool(self.open_numbers) or any(
            s.shape is None or None in s.shape for s in self.specs
        )

    def inputs(self, flat: Flat) -> list[Any]:
        """The tensors of a call: those of the arguments, then its open numbers."""
        return families.inputs_of(flat, self.open_numbers)

    def fits(self, key: Any, flat: Flat) -> bool:
        return not self.concrete.outlived and self.holds(key, flat)

    def holds(self, key: Any, flat: Flat) -> bool:
        """Whether it could serve a call."""
        if len(flat.tensors) != len(self.specs) or (flat.closed and self.open_numbers):
            return False
        if key != self.key and not self._covers(flat):
            return False
        return self.checks.hold(self.inputs(flat)) and self.concrete.fits_captured()

    def takes(self, numbers: Sequence[Any]) -> bool:
        """Whether the numbers of a call are those of the trace, or open."""
        for i, (new, old) in enumerate(zip(numbers, self.numbers)):
            if i in self.open_numbers:
                if not families.storable(new):
                    return False
            elif not same_number(new, old):
                return False
        return True

    def _covers(self, flat: Flat) -> bool:
        if not self.takes(flat.numbers):
            return False
        for x, spec in zip(flat.tensors, self.specs):
            if isinstance(x, TensorSpec):
                if x != spec:
                    return False
            elif not spec.accepts(x):
                return False
        return True

    def describe(self) -> str:
        """What is open in it, and its guards on sizes, for people; empty when there is neither."""
        names = self.names
        shown = [f"{n}: {show_spec(s)}" for n, s in zip(names, self.specs) if None in (s.shape or (None,))]  # fmt: skip
        shown += [f"{n}: {type(self.numbers[i]).__name__}" for n, i in zip(names[len(self.specs) :], self.open_numbers)]  # fmt: skip
        text = f"; takes {', '.join(shown)}" if shown else ""
        checks = [describe_size(e, w, names) for e, w in self.checks.sizes]
        return text + (f"; only if {', '.join(checks)}" if checks else "")

    @property
    def plain(self) -> bool:
        """Whether the tensors of a call are all that it has to be asked for."""
        return not self.open_numbers and self.places_known

    @property
    def places_known(self) -> bool:
        """Whether the places that it changes are the same at each call."""
        return self.finder is no_places or self.finder.outside

    def outer_places(self) -> list[Target]:
        """Where the effects of a plain trace go."""
        return [] if self.finder is no_places else self.finder.targets()

    @property
    def stateful(self) -> bool:
        """Whether a plain trace looks tensors up outside of its arguments, or changes places there."""
        return bool(self.concrete.slots) or self.finder is not no_places

    def outer_locations(self) -> list[Any]:
        """What tells the places of ``outer_places``: ``here()`` of each is that of a call."""
        return [] if self.finder is no_places else [at for _, at in self.finder.where]

    def objects(self, bound: inspect.BoundArguments) -> list[Any]:
        """The containers from before the call that it gives."""
        return [find(bound) for find in self.concrete.outers]

    def places(self, bound: inspect.BoundArguments) -> list[Target]:
        return self.finder(bound)
