"""Which outputs of a graph are tensors of the caller's own: an argument, a captured tensor, or a view of one.

Where a staged construct decides that (``return x if c else y``), the graph gives an index besides, after its other outputs, and
for each number of the index there is a tensor of the caller's or the new one that the graph gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import autodiff, passes
from ..graph.ir import Graph, Value
from ..graph.rewrite import copied
from ..native.entry import Wanted
from ..native.leaving import Told
from ..symbols.funcgraph import FuncGraph
from ..symbols.symbolic import View
from .results import Outer, Shown


class Given(NamedTuple):
    """An input, or a view of it, in the caller's memory."""

    input: int
    chain: tuple[View, ...]

    def of(self, inputs: Sequence[Any]) -> Any:
        x = inputs[self.input]
        for view in self.chain:
            x = view.func(x, *view.args, **view.kwargs)
            x = x if view.index is None else x[view.index]
        return x


class Chosen(NamedTuple):
    """By the number that the output ``index`` gives, one of the caller's tensors, or a new one (None)."""

    index: int
    options: tuple[Given | None, ...]


class Identities:
    """The outputs that are the caller's, by position: ``given``, and those ``chosen`` when the graph runs."""

    def __init__(self, outputs: Sequence[Value] = (), shown: Shown | None = None):
        """``outputs``: those that are not an index."""
        shown = shown or Shown({}, {})
        self.count = len(outputs)
        self.made: list[autodiff.Made] = []  # leaves that the code makes
        self._outer = {i: shown.given[v] for i, v in enumerate(outputs) if v in shown.given}
        self._some = {i: shown.chosen[v] for i, v in enumerate(outputs) if v in shown.chosen}
        self.indices = list(dict.fromkeys(index for index, _ in self._some.values()))
        self.given: dict[int, Given] = {}
        self.chosen: dict[int, Chosen] = {}

    def settle(self, root: FuncGraph) -> None:
        """Find the tensors among the inputs of the graph, which has all of them now."""
        place = {v: i for i, v in enumerate(root.graph.inputs)}

        def given(outer: Outer) -> Given:
            return Given(place[root.captures[outer[0]]], outer[1])

        self.given = {i: given(outer) for i, outer in self._outer.items()}
        self.chosen = {
            i: Chosen(
                self.count + self.indices.index(index), tuple(o and given(o) for o in options)
            )
            for i, (index, options) in self._some.items()
        }
        self._outer, self._some, self.indices = {}, {}, []

    @property
    def record(self) -> list[Any]:
        """What a file keeps: the identities of whole inputs, which need none of this process's functions."""
        given = [[i, x.input] for i, x in self.given.items() if not x.chain]
        chosen = [[i, c.index, [None if o is None or o.chain else o.input for o in c.options]] for i, c in self.chosen.items()]  # fmt: skip
        return [self.count, given, chosen]

    @classmethod
    def of_record(cls, record: list[Any]) -> Identities:
        """The identities of a file. An option that is a view of an input has become a new tensor there."""
        made = cls()
        made.count, given, chosen = record
        made.given = {i: Given(at, ()) for i, at in given}
        for i, index, options in chosen:
            made.chosen[i] = Chosen(index, tuple(None if o is None else Given(o, ()) for o in options))  # fmt: skip
        return made

    @property
    def whole(self) -> bool:
        """Whether all of them are inputs, chosen by an index: what an entry can give."""
        found = [o for choice in self.chosen.values() for o in choice.options if o is not None]
        return not (self.given or any(o.chain for o in found))

    @property
    def told(self) -> tuple[Told, ...]:
        """Which outputs are the caller's unless their index says that they are new."""
        return tuple(
            Told(i, c.index, tuple(k for k, o in enumerate(c.options) if o is None))
            for i, c in self.chosen.items()
        )

    def left(self, graph: Graph) -> Graph:
        """The graph for callers that take their own tensors: it copies none of them into an output."""
        own = {i: x.input for i, x in self.given.items() if not x.chain}
        if all(graph.outputs[i] is graph.inputs[at] for i, at in own.items()):
            return graph
        made = copied(graph)
        for i, at in own.items():
            made.outputs[i] = made.inputs[at]
        return passes.prune(made, writers=True)

    def values(self, graph: Graph) -> Graph:
        """The graph without indices."""
        if len(graph.outputs) == self.count:
            return graph
        made = copied(graph)
        made.outputs = made.outputs[: self.count]
        return passes.prune(made, writers=True)

    def wanted(self, single: bool) -> Wanted:
        """What an entry gives."""
        chosen = self.chosen.items()
        found = {
            i: (c.index, [None if o is None else o.input for o in c.options]) for i, c in chosen
        }
        return Wanted(self.count, found, single)

    def outputs(self, made: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """What a call gives for what the graph ``made`` of ``inputs``."""
        if not (self.given or self.chosen):
            return list(made)
        out = list(made)
        for i, found in self.given.items():
            out[i] = found.of(inputs)
        for i, choice in self.chosen.items():
            one = choice.options[int(made[choice.index])]
            out[i] = made[i] if one is None else one.of(inputs)
        return out[: self.count]
