"""Results of branches and loops that are views of an input become views of it at numbers that the branches and loops give.

A tensor that a branch or loop gives is memory of its own in native code. Where it is in each path a view of one unwritten input, taken by the same ops, only the
places differ (``x[i] if c else x[0]``; ``best = x[k]`` in a loop): the branch or loop gives these numbers as well, and behind it the view is taken
of the input, which ``results`` leaves to the caller. In a loop what reads such a view takes it of the input too, so that a row is not carried.

``Pattern`` says what such values have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import Renaming, add_input, add_state, carried, copied, passed
from ..graph.types import INT, TensorType, Type, is_static
from ..passes.prune import prune
from .groups import known_numel
from .patterns import BRANCHES, MOVING, Known, Numbers, Pattern, arrives, follow, own_numbers
from .results import VIEW_OPS, written_inputs


def placed(graph: Graph, count: int | None) -> Graph:
    """``graph``, or a copy of it in which such results among the first ``count`` are views of an input."""
    if all(_root(v) is None for v in graph.outputs[:count]) or not _roots(graph, count)[1]:
        return graph
    made = copied(graph)
    _Placing(made, *_roots(made, count)).run()
    return made


def _roots(graph: Graph, count: int | None) -> tuple[Known, list[Value]]:
    """The patterns of a graph, and the values of its branches and loops that are to be views, since results are or are taken of them."""
    written = written_inputs(graph)
    inputs = [v for v in graph.inputs if isinstance(v.type, TensorType) and v not in written]
    known = {v: Pattern(v) for v in inputs}
    follow(graph, known)
    found = {v: r for v in graph.outputs[:count] if (r := _root(v)) in known}
    return known, [r for v, r in found.items() if r is not None and (r is not v or known[r].steps)]


def _root(v: Value) -> Value | None:
    """What a branch or loop gives and a value is a view of, or is."""
    while v.node is not None and v.node.op in VIEW_OPS:
        v = v.node.args[0]
    return v if v.node is not None and v.node.op in (*BRANCHES, "While") else None


class _Placing:
    """The rewrite of one graph. ``numbers`` are those of each value that a result may be."""

    def __init__(self, graph: Graph, known: Known, roots: Sequence[Value]):
        self.graph, self.known, self.roots = graph, known, set(roots)
        self.around: dict[Graph, tuple[Node, str, Graph]] = {}
        self.owners: dict[Value, tuple[Node, int]] = {}
        self._look(graph)
        self.needed = self._behind(roots)
        self.numbers: dict[Value, Numbers] = dict.fromkeys(graph.inputs, ())
        self.added: set[Node] = set()

    def run(self) -> None:
        names = Renaming()
        self._give(self.graph, names)
        names.outputs(self.graph)
        prune(self.graph)
        while self._drop(self.graph):
            prune(self.graph)

    def _look(self, graph: Graph) -> None:
        """Note where regions and their inputs are."""
        for node in graph.nodes:
            for name, region in node.regions.items():
                self.around[region] = node, name, graph
                self.owners.update({v: (node, i) for i, v in enumerate(region.inputs)})
                self._look(region)

    def _behind(self, roots: Sequence[Value]) -> set[Value]:
        """The values that ``roots`` may be, or be views of."""
        todo, found = list(roots), set[Value]()
        while todo:
            v = todo.pop()
            if v not in found:
                found.add(v)
                todo += self._next(v)
        return found

    def _next(self, v: Value) -> list[Value]:
        node, i = self.owners.get(v, (v.node, v.index))
        if node is None:
            return []
        if node.op in VIEW_OPS:
            return [node.args[0]]
        if node.op == "While":
            body = node.regions["body"]
            more = [body.inputs[i], body.outputs[i], node.outputs[i]] if i < carried(node) else []
            return [node.args[i], *more]
        if v in self.owners:
            return [passed(node)[i]]
        return [r.outputs[i] for r in node.regions.values() if arrives(r)]

    def _give(self, graph: Graph, names: Renaming) -> None:
        """Find the numbers of the values of a graph; branches and loops give theirs."""
        nodes, graph.nodes = graph.nodes, []
        for node in nodes:
            names.apply(node)
            wanted = [v for v in node.outputs if v in self.needed]
            if wanted and node.op in VIEW_OPS:
                self._of_views(node, wanted)
            elif wanted and node.op == "While":
                self._of_loop(graph, node, wanted)
            elif wanted:
                self._of_branches(node, wanted)
            graph.nodes.append(node)
            for v in wanted:
                if v in self.roots:
                    names[v] = self._view(graph, graph.nodes, v)
                    self.numbers[names[v]] = self.numbers[v]

    def _of_views(self, node: Node, wanted: list[Value]) -> None:
        for v in wanted:
            self.numbers[v] = (*self.numbers[node.args[0]], *own_numbers(v))

    def _of_branches(self, node: Node, wanted: list[Value]) -> None:
        regions = [r for r in node.regions.values() if arrives(r)]
        for name, region in node.regions.items():
            self._enter(node, name, region, 0)
            self._give(region, Renaming())
        for v in wanted:
            rows = [self.numbers[r.outputs[v.index]] for r in regions]
            self.numbers[v] = tuple(
                self._merged(node, dict(zip(regions, (row[k] for row in rows))))
                if place is MOVING else place
                for k, place in enumerate(self.known[v].places)
            )  # fmt: skip

    def _merged(self, node: Node, numbers: dict[Graph, Any]) -> Value:
        """One more output, which is the number of each branch; any of one that raises."""
        for region in node.regions.values():
            if region.outputs:
                region.outputs.append(self._value(region.nodes, numbers.get(region, 0), node))
        node.outputs.append(Value(INT, node, len(node.outputs)))
        return node.outputs[-1]

    def _of_loop(self, graph: Graph, node: Node, wanted: list[Value]) -> None:
        body, starts, inner = node.regions["body"], list[Value](), list[Value]()
        state = [v.index for v in wanted]
        self._enter(node, "body", body, carried(node))
        for i in state:
            own = list[Any]()
            for place, n in zip(self.known[node.outputs[i]].places, self.numbers[node.args[i]]):
                if place is MOVING:
                    starts.append(self._value(graph.nodes, n, node))
                    inner.append(Value(INT))
                own.append(inner[-1] if place is MOVING else place)
            self.numbers[body.inputs[i]] = tuple(own)
        self._give(body, Renaming())
        left = [
            self._value(body.nodes, n, node) for i in state
            for place, n in zip(self.known[node.outputs[i]].places, self.numbers[body.outputs[i]]) if place is MOVING
        ]  # fmt: skip
        at = carried(node)
        ends = iter(add_state(node, inner, left, starts))
        tests = iter(node.regions["cond"].inputs[at : at + len(inner)])
        for i in state:
            places = self.known[node.outputs[i]].places
            test = node.regions["cond"].inputs[i]
            self.numbers[node.outputs[i]] = tuple(next(ends) if n is MOVING else n for n in places)
            self.numbers[test] = tuple(next(tests) if n is MOVING else n for n in places)
            self.known[test] = self.known[body.inputs[i]]
            if not _is_number(test.type):
                for region in (body, node.regions["cond"]):
                    self._take_inside(region, region.inputs[i])

    def _enter(self, node: Node, name: str, region: Graph, first: int) -> None:
        """The numbers of the inputs of a region from the first on that does not change."""
        for v, x in list(zip(region.inputs, passed(node)))[first:]:
            if v in self.needed:
                self.numbers[v] = tuple(add_input(node, n)[name] if isinstance(n, Value) else n for n in self.numbers[x])  # fmt: skip

    def _take_inside(self, region: Graph, v: Value) -> None:
        """Put a view of the input in the place of what a loop carries."""
        nodes = list[Node]()
        x = self._view(region, nodes, v)
        for node in region.nodes:
            node.replace_inputs(lambda u: x if u is v else u)
        region.outputs = [x if u is v else u for u in region.outputs]
        region.nodes[:0] = nodes

    def _view(self, graph: Graph, nodes: list[Node], v: Value) -> Value:
        """A value as a view of the input, by new nodes."""
        pattern = self.known[v]
        base = self._base(graph, pattern.base)
        made = pattern.on(base, self.numbers[v])
        nodes += made
        self.added.update(made)
        return made[-1].outputs[pattern.steps[-1].index] if made else base

    def _base(self, graph: Graph, base: Value) -> Value:
        """What stands for an input of the whole graph in a region."""
        if graph not in self.around:
            return base
        node, name, outer = self.around[graph]
        return add_input(node, self._base(outer, base))[name]

    def _value(self, nodes: list[Node], n: Any, like: Node) -> Value:
        """A number as a value."""
        if isinstance(n, Value):
            return n
        nodes.append(Node("py.constant", (n,), None, (INT,), location=like.location))
        return nodes[-1].outputs[0]

    def _drop(self, graph: Graph) -> bool:
        """Take away new views that nobody reads; whether there were any."""
        used, kept, fewer = set(graph.outputs), list[Node](), False
        for node in reversed(graph.nodes):
            if node in self.added and used.isdisjoint(node.outputs):
                fewer = True
                continue
            for region in node.regions.values():
                fewer |= self._drop(region)
            used.update(node.inputs)
            kept.append(node)
        graph.nodes = kept[::-1]
        return fewer


def _is_number(kind: Type) -> bool:
    """Whether a loop carries values of a type in a register."""
    return isinstance(kind, TensorType) and is_static(kind) and known_numel(kind.shape) == 1
