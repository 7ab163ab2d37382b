"""Value numbers: two values with one number hold the same at run time, wherever both exist.

The number of a node's output follows from its op, its attributes and the numbers of its arguments (hash consing), so
equal regions have outputs of equal numbers too. A read has the state of its resource in its key. State of a loop has
a number that its initial value, its place and the depth of loops give: equal loops have equal numbers inside, and
a loop inside another one never shares a number with it. What must not be merged gets a number of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.ops import Effects
from ..graph.ordering import Known, node_effects
from ..graph.rewrite import carried, constant_key, lead
from .forward import writes_anything


class Numbering:
    """Hands out numbers. ``of`` maps the values that were seen."""

    def __init__(self) -> None:
        self.of: dict[Value, int] = {}
        self._keys: dict[Hashable, int] = {}
        self._fresh = itertools.count()
        self._states: dict[int, int] = {}  # the state of a resource, by the number of its value
        self._epoch = next(self._fresh)  # changes when any resource may have been written

    def number(self, key: Hashable) -> int:
        """The number of a key."""
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = next(self._fresh)
        return found

    def fresh(self, values: Sequence[Value]) -> None:
        """Give values numbers that nothing else has."""
        for value in values:
            self.of[value] = next(self._fresh)

    def argument(self, x: Any) -> Hashable:
        """The key of an argument: numbers for values, constants by type and content."""
        if isinstance(x, Value):
            return self.of[x]
        if isinstance(x, (list, tuple)):
            return (type(x), *map(self.argument, x))
        return ("constant", constant_key(x))

    def visit(self, node: Node, effects: Effects) -> int | None:
        """Number the outputs of a node without regions; its number when it may be merged with an equal one."""
        if effects.random or effects.io or effects.writes or not effects.mergeable:
            self.write(node, effects)
            self.fresh(node.outputs)
            return None
        key: list[Hashable] = [node.op, node.grad, self.argument(node.args)]
        key += [(k, self.argument(v)) for k, v in sorted(node.kwargs.items())]
        if effects.reads:
            ins = node.inputs
            key += [self._epoch, *(self._states.get(self.of[ins[i]]) for i in effects.reads)]
        return self._finish(node, tuple(key))

    def _finish(self, node: Node, key: tuple) -> int:
        number = self.number((*key, *(str(v.type) for v in node.outputs)))
        for i, value in enumerate(node.outputs):
            self.of[value] = self.number(("output", number, i))
        return number

    def write(self, node: Node, effects: Effects) -> None:
        """Note that resources change."""
        ins = node.inputs
        for i in effects.writes:
            self._states[self.of[ins[i]]] = next(self._fresh)
        if writes_anything(effects):
            self._epoch = next(self._fresh)

    def finish_regions(
        self, node: Node, effects: Effects, failing: Sequence[Hashable]
    ) -> int | None:
        """Number the outputs of a region op whose regions are numbered; ``failing``: what may fail in them."""
        impure = effects.random or effects.io or effects.writes or effects.reads
        # The ops in a Try decide what it catches.
        if impure or not effects.mergeable or node.op == "Try":
            self.write(node, effects)
            self.fresh(node.outputs)
            return None
        outs = tuple(tuple(self.of[v] for v in r.outputs) for r in node.regions.values())
        heads = tuple(map(self.argument, node.args[: lead(node) + carried(node)]))
        return self._finish(node, (node.op, node.grad, heads, outs, tuple(failing)))

    def enter(self, node: Node, region: Graph, depth: int, effects: Effects) -> None:
        """Number the inputs of a region."""
        state = carried(node)
        args = node.args[lead(node) :]
        heads = tuple(map(self.argument, args[:state]))
        for i, (value, arg) in enumerate(zip(region.inputs, args)):
            if i < state:
                self.of[value] = self.number(("state", depth, i, heads))
            elif isinstance(arg, Value):
                self.of[value] = self.of[arg]
            else:
                self.of[value] = self.number(self.argument(arg))
        # What the loop writes has another state at the start of each iteration.
        if node.op == "While":
            self.write(node, effects)


def number_graph(numbering: Numbering, graph: Graph, memo: Memo, depth: int) -> list[Hashable]:
    """Number the nodes of a graph whose inputs have numbers; the numbers of those that may fail."""
    failing: list[Hashable] = []
    for node in graph.nodes:
        effects = effects_of(node, memo)
        if node.regions:
            number = number_regions(numbering, node, memo, depth, effects)
        else:
            number = numbering.visit(node, effects)
        if effects.may_fail or effects.diverges:
            failing.append(number)
    return failing


def number_regions(
    numbering: Numbering, node: Node, memo: Memo, depth: int, effects: Effects
) -> int | None:
    """Number the outputs of a region op and all that is in it."""
    depth += node.op == "While"
    failing: list[Hashable] = []
    for name, region in node.regions.items():
        numbering.enter(node, region, depth, effects)
        failing += [name, *number_graph(numbering, region, memo, depth)]
    return numbering.finish_regions(node, effects, failing)


class Memo(dict[Node, Effects]):
    """The effects of nodes. ``known``: those of regions, in a pass that sees a node before it changes what is in its regions: asked
    at every level, each is gone over once."""

    def __init__(self, known: Known | None = None):
        self.known = known


def effects_of(node: Node, memo: Memo) -> Effects:
    """``node_effects``, remembered."""
    found = memo.get(node)
    if found is None:
        found = memo[node] = node_effects(node, memo.known)
    return found
