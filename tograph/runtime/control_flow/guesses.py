"""What a body is taken to do before the first trace of it: bind the variables that it assigns to new tensors.

Most do, and a round that begins with a placeholder for each of them is the one that settles the loop. Where a guess turns out
wrong, because an iteration leaves the tensor that was there before the loop, or the body cannot be traced so, that round does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.types import TensorType
from ..symbols.journal import Location as Place
from ..symbols.symbolic import SymTensor
from ..values.joins import generalize, join
from ..values.structure import Leaf, Spec, spec_of
from .carried import Carried
from .loop_regions import StateRegion


class Guess:
    """The places of a loop's state that are guessed to get another tensor, with their specs before the loop."""

    def __init__(self, state: Sequence[Place], specs: Sequence[Spec]):
        self.before = {p.key: s for p, s in zip(state, specs) if _likely(p, s)}

    @property
    def open(self) -> bool:
        """Whether there are guesses that no trace has confirmed."""
        return bool(self.before)

    def specs(self, state: Sequence[Place], specs: Sequence[Spec]) -> list[Spec]:
        """The specs with a placeholder for each guess."""
        return [Leaf(s.type) if p.key in self.before else s for p, s in zip(state, specs)]

    def expect(self, carried: Carried) -> None:
        """What the guesses say of the identity of the tensors."""
        for key in self.before:
            carried.expect((key, ()))

    def wrong(self, loop: StateRegion, state: Sequence[Place], carried: Carried) -> bool:
        """Give up the guesses that a trace disproves; whether there are any."""
        if loop.raised:
            return self.drop(carried)
        places = [p for p in state if p.key in self.before]
        given = {id(loop.entered[p.key]): self.before[p.key] for p in places}
        wrong = False
        for place in places:
            left = loop.content(place)
            after = given.get(id(left)) or generalize(spec_of(left))
            together = join(self.before[place.key], after)
            if isinstance(together, Leaf) and together.fixed:
                del self.before[place.key]
                carried.forget((place.key, ()))
                wrong = True
        return wrong

    def close(self) -> None:
        """All guesses are confirmed."""
        self.before = {}

    def drop(self, carried: Carried) -> bool:
        """Give up all guesses; whether there were any."""
        for key in self.before:
            carried.forget((key, ()))
        found, self.before = self.open, {}
        return found


def _likely(place: Place, spec: Spec) -> bool:
    """Whether a place is a variable that holds a tensor of the trace."""
    if place.key[0] not in ("cell", "key") or not isinstance(spec, Leaf):
        return False
    plain = isinstance(spec.const, SymTensor) and not hasattr(spec.const, "assign_add")
    return plain and isinstance(spec.type, TensorType)
