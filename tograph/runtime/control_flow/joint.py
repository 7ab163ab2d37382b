"""The identity of the tensors that a join of regions gives: which tensor each variable is, by the region that was taken.

Of an ``If`` the condition tells the region. The regions of other nodes give the number of what they leave as one more output, and so
do those of an ``If`` that leave one of several tensors themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.ir import Node, Value
from ..graph.types import INT
from ..symbols.funcgraph import FuncGraph, Ref, current_graph
from ..symbols.symbolic import SymTensor
from ..values import structure
from .attaching import attach, resolved
from .identity import (
    Binding,
    Key,
    Option,
    add_options,
    bindings,
    filled,
    first,
    index_of,
    numbers_of,
    position,
    settle,
    variables,
    with_holes,
)
from .picking import Which
from .regions import Region, replayed


class Joint:
    """The options of the variables that a join gives, and how they are told."""

    def __init__(
        self, slots: Sequence[tuple[Any, list[Any]]], specs: Sequence[Any], live: Sequence[Region]
    ):
        self.live, outer = list(live), current_graph()
        self.keys = variables([place for place, _ in slots], specs)
        self.found: list[dict[Key, Binding]] = []
        self.options: dict[Key, list[Option]] = {}
        self.variable: set[Key] = set()
        for i, region in enumerate(live):
            left = [contents[i] for _, contents in slots]
            with replayed(region):
                found = bindings(self.keys, left, specs, region.graph)
            settle(found, region.graph, {}, outer)
            self.found.append(found)
            for key, binding in found.items():
                add_options(self.options.setdefault(key, []), binding.all())
                if binding.variable:
                    self.variable.add(key)
        self.names = {k[0]: k[1] for k in self.keys if k is not None}
        self.moving = [k for k in self.names if len(self.options.get(k, ())) > 1]
        self.holes = with_holes(self.options)

    def _told(self, op: str) -> list[Key]:
        """The variables whose option is an output of the node."""
        if op == "If" and len(self.live) == 2:
            return [k for k in self.moving if not self._by_condition(k)]
        return self.moving

    def _by_condition(self, key: Key) -> bool:
        return all(key not in f or f[key].settled is not None for f in self.found)

    def count(self, op: str) -> int:
        return len(self._told(op)) + sum(len(option.numbers) for _, option in self.holes)

    def outputs(self, region: Region, op: str) -> list[Value]:
        """The indices that a region gives, and the numbers in holes, in its graph."""
        found = {} if region.raised else self.found[self.live.index(region)]
        graph, out = region.graph, []
        for key in self._told(op):
            out.append(index_of(key, found, self.options[key], graph) if key in found else 0)
        for key, option in self.holes:
            out += numbers_of(key, option, found, graph)
        return [
            at if isinstance(at, Value) else graph.emit("py.constant", at, type=INT) for at in out
        ]

    def attach(
        self, node: Node, made: Sequence[Any], indices: Sequence[Value], graph: FuncGraph
    ) -> None:
        """Give the tensors that the join made, in order, the memory of what they are."""
        tensors = {
            k[0]: x
            for k, x in zip(self.keys, made, strict=True)
            if k is not None and isinstance(x, SymTensor)
        }
        told = self._told(node.op)
        index = dict(zip(told, indices[: len(told)], strict=True))
        numbers = filled(self.holes, iter(indices[len(told) :]), graph)

        def which(key: Key) -> Which:
            if key in index:
                return resolved(Ref(index[key], graph))
            return self._of_condition(key, node, graph) if key in self.moving else first

        attach(tensors, self.names, self.options, which, graph, self.variable, numbers)

    def _of_condition(self, key: Key, node: Node, graph: FuncGraph) -> Which:
        at = []
        for found in reversed(self.found):  # the index 0 is False, the second branch
            option = found[key].settled if key in found else None
            at.append(0 if option is None else position(self.options[key], option))
        head = node.args[0]
        if at[0] == at[1] or not isinstance(head, Value):
            return lambda inner: at[int(bool(head))] if not isinstance(head, Value) else at[0]
        condition = structure.Ref(head, graph)

        def which(inner: FuncGraph) -> Any:
            taken = inner.emit("py.int", inner.resolve(condition), type=INT)
            return taken if at == [0, 1] else inner.emit("tg.choose", taken, at, type=INT)

        return which
