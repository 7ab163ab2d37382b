"""Gradients for cotangents that are None: what eager PyTorch leaves out is left out, not computed with zeros.

Where a result of a call takes part in nothing, torch's autograd runs none of the formulas behind it. With zeros in its place they would run: the
same numbers where all is finite, NaN where a derivative is infinite (``0 * inf``). ``without`` is a backward graph with
those formulas left out. A backward graph is linear in its cotangents, so

* what depends on absent cotangents only is absent;
* a sum with something absent is its other operand;
* of a branch or loop that gives both, the regions are treated so, and a loop's state is absent where it is so before and after a trip;
* any other op that joins both takes zeros, as torch's formulas do.

Of what is absent, sizes may still be asked: then it is computed, from an input of zeros.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value, map_values
from ..graph.ops import takes_size
from ..graph.rewrite import carried, copy_node, keep_inputs, lead, passed
from ..graph.types import BOOL, TensorType
from ..symbols.carrier import differentiable
from .alternatives import zeros
from .graphs import append

# Of these the operands at the positions said are added to the others: without one of them the result is the operand named last.
_SUMS = {
    "aten.add.Tensor": {0: 1, 1: 0},
    "aten.sub.Tensor": {1: 0},
    "aten.addmm.default": {1: 0, 2: 0},
    "tg.handle_add": {0: 1, 1: 0},
}
_USERS = "gradient"  # a call of what a user wrote: torch gives that zeros


def without(graph: Graph, none: Collection[int], there: Collection[int]) -> Copy:
    """``graph`` where the inputs ``none`` are absent cotangents, and ``there`` are those that are not.

    Example: ``without(backward, [2], [3]).graph(positions)``
    """
    return Copy(graph, none, there)


class Copy:
    """A copy in the making. ``made`` has inputs for all of the graph's; ``asked``: those absent ones that are read all the same."""

    def __init__(self, graph: Graph, none: Collection[int], there: Collection[int]):
        self.source, self.made = graph, Graph(graph.name)
        self.env = {v: Value(v.type) for v in graph.inputs}
        self.made.inputs = list(self.env.values())
        self.made.input_names = [""] * len(graph.inputs)
        self.there = {graph.inputs[i]: True for i in there}
        for i in none:
            self.there[graph.inputs[i]] = False
            del self.env[graph.inputs[i]]
        self.asked: set[int] = set()
        for node in graph.nodes:
            self._node(node)

    def absent(self) -> set[int]:
        """The outputs that are absent."""
        return {i for i, v in enumerate(self.source.outputs) if self.there.get(v) is False}

    def present(self) -> set[int]:
        """The outputs that depend on a cotangent that is there."""
        return {i for i, v in enumerate(self.source.outputs) if self.there.get(v)}

    def graph(self, outputs: Iterable[int]) -> Graph:
        """The copy, with some of the outputs; what is absent of them is zeros."""
        self.made.outputs = [self._value(self.source.outputs[i]) for i in outputs]
        return self.made

    def _node(self, node: Node) -> None:
        kinds = {self.there.get(v) for v in node.inputs}
        if False in kinds and True not in kinds:
            self.there.update(dict.fromkeys(node.outputs, False))
        elif False not in kinds:
            self.made.nodes.append(copy_node(node, self.env))
            if True in kinds:
                self._give(node)
        elif node.op in ALTERNATIVES or (node.op == "Call" and node.kwargs.get("name") != _USERS):
            self._alternatives(node)
        elif node.op == "While":
            self._loop(node)
        else:
            self._join(node)

    def _give(self, node: Node) -> None:
        self.there.update(dict.fromkeys(node.outputs, True))

    def _join(self, node: Node) -> None:
        rest = None if node.kwargs else self._rest(node)
        if rest is not None:
            self.env[node.outputs[0]] = self._value(rest)
        else:
            for v in node.inputs:
                self._value(v)
            made = copy_node(node, self.env)
            if "told" in node.kwargs:
                self._tell(node, made)
            self.made.nodes.append(made)
        self._give(node)
        if "told" in node.kwargs and "none" in node.kwargs:
            self._drop(node)

    def _drop(self, node: Node) -> None:
        """A gradient of the user's own is None where no cotangent that is there gives something."""
        count = node.kwargs["told"]
        having = [
            j
            for j, g in enumerate(node.args[-2 * count : -count])
            if self.there.get(g) is not False
        ]
        for k, v in enumerate(node.outputs):
            if all((j, k) in node.kwargs["none"] for j in having):
                self.there[v] = False

    def _tell(self, node: Node, made: Node) -> None:
        """Tell a gradient of the user's own which of its cotangents are absent: it takes a bool for each behind them."""
        count = node.kwargs["told"]
        gone = [self.there.get(g) is False for g in node.args[-2 * count : -count]]
        no = append(self.made, "py.constant", False, type=BOOL)
        made.args = (*made.args[:-count], *(no if g else flag for g, flag in zip(gone, made.args[-count:])))  # fmt: skip

    def _rest(self, node: Node) -> Value | None:
        """What a sum is without the operands that are absent."""
        for i, other in _SUMS.get(node.op, {}).items():
            left = node.args[other]
            absent = isinstance(node.args[i], Value) and self.there.get(node.args[i]) is False
            if absent and isinstance(left, Value) and left.type == node.outputs[0].type:
                return left
        return None

    def _value(self, v: Value) -> Value:
        """A value of the copy, zeros for an absent one."""
        if v not in self.env:
            node = v.node
            if self._is_zero(v):
                self.env[v] = zeros(self.made, v.type, None)
            elif node is None:
                at = self.source.inputs.index(v)
                self.asked.add(at)
                self.env[v] = self.made.inputs[at]
            else:
                for u in node.inputs:
                    self._value(u)
                self.made.nodes.append(copy_node(node, self.env))
        return self.env[v]

    def _is_zero(self, v: Value) -> bool:
        """Whether an absent value is known to be zeros, of a known size."""
        node, kind = v.node, v.type
        if not isinstance(kind, TensorType) or None in kind.shape or not differentiable(kind):
            return False
        if node is None:
            return True
        by = [u.type for u in node.inputs if self.there.get(u) is False]
        return all(map(differentiable, by)) and not takes_size(node.op)

    def _split(self, values: Iterable[object]) -> tuple[set[int], set[int]]:
        """Which of some values are absent, and which are cotangents that are there."""
        kinds = [self.there.get(v) if isinstance(v, Value) else None for v in values]
        none = {i for i, k in enumerate(kinds) if k is False}
        return none, {i for i, k in enumerate(kinds) if k}

    def _alternatives(self, node: Node) -> None:
        """A choice between regions: an output is absent where it is so in all of them."""
        none, there = self._split(passed(node))
        copies = {name: Copy(region, none, there) for name, region in node.regions.items()}
        gone = set.intersection(*(c.absent() for c in copies.values()))
        kept = [i for i in range(len(node.outputs)) if i not in gone]
        regions = {name: c.graph(kept) for name, c in copies.items()}
        self._emit(node, regions, kept, none.difference(*(c.asked for c in copies.values())))

    def _loop(self, node: Node) -> None:
        """A loop: a place of its state is absent where it is so in every trip; what only adds up what is absent began with zeros."""
        body, cond, state = node.regions["body"], node.regions["cond"], set(range(carried(node)))
        none, there = self._split(node.args)
        while True:
            copies = Copy(body, none, there), Copy(cond, none, there)
            kept = sorted(state - none)
            made = {"cond": copies[1].graph([0]), "body": copies[0].graph(kept)}
            asked = copies[0].asked | copies[1].asked
            having = there | (state & (copies[0].present() | asked))
            gone = (none | copies[0].absent()) - having
            if having == there and gone == none:
                break
            there, none = having, gone
        self._emit(node, made, kept, none - asked)

    def _emit(
        self, node: Node, regions: dict[str, Graph], kept: list[int], dropped: set[int]
    ) -> None:
        """The node with the outputs ``kept``, without those inputs of its regions that are ``dropped``."""
        first = lead(node)
        args = [
            map_values(self._value, a) if i < first or i - first not in dropped else None
            for i, a in enumerate(node.args)
        ]
        kwargs = map_values(self._value, node.kwargs)
        if node.op == "While":
            kwargs = {**kwargs, "carried": len(kept)}
        types = [node.outputs[i].type for i in kept]
        made = Node(node.op, tuple(args), kwargs, types, regions=regions, location=node.location, grad=node.grad)  # fmt: skip
        keep_inputs(made, [i not in dropped for i in range(len(args) - first)])
        self.made.nodes.append(made)
        self.there.update(dict.fromkeys(node.outputs, False))
        for i, v in zip(kept, made.outputs):
            self.there[node.outputs[i]] = True
            self.env[node.outputs[i]] = v
