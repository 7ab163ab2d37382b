"""Common subexpressions: of two nodes that compute the same, where the first surely ran before the second, one stays.

Pure If, Case and While count as well, and an inner node that equals an outer one takes its value from outside. A
node that may fail can go when an equal one ran before it: that one would have failed. An output of an If or Case that
all branches take from one outer value is that value. Two results that the caller can write into stay two
(``aliasing``).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value
from ..graph.ops import Effects
from ..graph.rewrite import Renaming, add_input
from .aliasing import Storages
from .numbering import Memo, Numbering, effects_of


class _Scope:
    """What has been computed where a node stands: in its graph, and in the graphs around it."""

    def __init__(self, outer: _Scope | None = None, node: Node | None = None, name: str = ""):
        self.outer, self.node, self.name = outer, node, name
        self.nodes: dict[int, Node] = {}
        self.values: dict[int, Value] = {}

    def find(self, number: int) -> tuple[_Scope, Node] | None:
        scope: _Scope | None = self
        while scope is not None:
            if number in scope.nodes:
                return scope, scope.nodes[number]
            scope = scope.outer
        return None

    def bring(self, value: Value, home: _Scope, numbering: Numbering) -> Value:
        """A value of an enclosing graph as an input of this one."""
        if home is self:
            return value
        assert self.outer is not None and self.node is not None
        outside = self.outer.bring(value, home, numbering)
        made = add_input(self.node, outside)
        for inner in made.values():
            numbering.of[inner] = numbering.of[outside]
        return made[self.name]


class _Pass:
    def __init__(self, graph: Graph):
        self.numbering = Numbering()
        self.storages = Storages(graph)
        self.memo = Memo({})

    def graph(self, graph: Graph, scope: _Scope, depth: int) -> list[Hashable]:
        """Merge the nodes of a graph; the numbers of those that may fail."""
        names, nodes, failing = Renaming(), [], []
        for value in graph.inputs:
            scope.values.setdefault(self.numbering.of[value], value)
        for node in graph.nodes:
            names.apply(node)
            effects = effects_of(node, self.memo)
            if node.regions:
                number = self.regions(node, scope, depth, effects)
            else:
                number = self.numbering.visit(node, effects)
            if effects.may_fail or effects.diverges:
                failing.append(number)
            if number is not None and self.replaced(node, number, scope, names):
                continue
            nodes.append(node)
            self.unify(node, scope, names)
            for value in node.outputs:
                scope.values.setdefault(self.numbering.of[value], value)
        graph.nodes = nodes
        names.outputs(graph)
        return failing

    def regions(self, node: Node, scope: _Scope, depth: int, effects: Effects) -> int | None:
        depth += node.op == "While"
        failing: list[Hashable] = []
        for name, region in node.regions.items():
            self.numbering.enter(node, region, depth, effects)
            failing += [name, *self.graph(region, _Scope(scope, node, name), depth)]
        return self.numbering.finish_regions(node, effects, failing)

    def replaced(self, node: Node, number: int, scope: _Scope, names: Renaming) -> bool:
        """Whether an equal node has run before, whose outputs now stand for those of ``node``."""
        found = scope.find(number)
        if found is None:
            scope.nodes[number] = node
            return False
        home, before = found
        if not self.storages.merge_equal(node, before):
            return False
        for old, new in zip(node.outputs, before.outputs):
            names[old] = scope.bring(new, home, self.numbering)
        return True

    def unify(self, node: Node, scope: _Scope, names: Renaming) -> None:
        """Outputs that are one outer value in all branches."""
        if node.op not in ALTERNATIVES:
            return
        for i, out in enumerate(node.outputs):
            numbers = {self.numbering.of[r.outputs[i]] for r in node.regions.values()}
            known: Any = scope.values.get(numbers.pop()) if len(numbers) == 1 else None
            if known is None or known.type != out.type:
                continue
            inside = [r.outputs[i] in r.inputs for r in node.regions.values()]
            if all(inside) or self.storages.merge(out, known):
                names[out] = known
                self.numbering.of[out] = self.numbering.of[known]


def cse(graph: Graph) -> Graph:
    """``graph`` with each thing computed once."""
    work = _Pass(graph)
    work.numbering.fresh(graph.inputs)
    work.graph(graph, _Scope(), 0)
    return graph
