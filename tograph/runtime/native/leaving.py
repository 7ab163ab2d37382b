"""Which outputs of a graph leave the library, and which of them the caller finds by an index.

Native code gives tensors of its own. Where an output turns out to be a tensor of the caller's (a loop without an iteration leaves
its state as it was) it declines, unless another output is an index that says so: then the caller takes its own tensor, and what the code gave is not looked at.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from ..graph.ir import Value

Indices = dict[Value, list[tuple[Value, tuple[int, ...]]]]


class Told(NamedTuple):
    """The output ``at`` is one of the caller's tensors unless the output ``index`` is one of ``own``."""

    at: int
    index: int
    own: tuple[int, ...]


class Leaving(NamedTuple):
    """``visible``: the outputs behind so many go to other programs only, see ``rows``; None: all leave."""

    visible: int | None = None
    told: tuple[Told, ...] = ()

    def indices(self, outputs: Sequence[Value], computed: Container[Value]) -> Indices:
        """For each value of which all places among ``outputs`` are told by values that the code computes, these and the numbers that stand for its own."""
        told = {t.at: t for t in self.told if outputs[t.index] in computed}
        found: Indices = {}
        for i, v in enumerate(outputs[: self.visible]):
            if i in told:
                found.setdefault(v, []).append((outputs[told[i].index], told[i].own))
        alone = {v for i, v in enumerate(outputs[: self.visible]) if i not in told}
        return {v: rows for v, rows in found.items() if v not in alone}
