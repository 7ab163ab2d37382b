"""Results of branches and loops that are views of an input become views of it at numbers that the branches and loops give.

A tensor that a branch or loop gives is memory of its own in native code. Where it is in each path a view of one unwritten input, taken by the same ops, only the
places differ (``x[i] if c else x[0]``; ``best = x[k]`` in a loop): the branch or loop gives these numbers as well, and behind it the view is taken
of the input, which ``results`` leaves to the caller. In a loop what reads such a view takes it of the input too, so that a row is not carried.

A ``Pattern`` is what such values have in common: the input, and the ops with what is the same in each path; ``MOVING`` stands for a number that is not.
Numbers are the rows and the bounds of slices; all else must be known and the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import Renaming, add_input, add_state, carried, copied, lead, passed
from ..graph.types import INT, TensorType, Type, is_static
from ..passes.prune import prune
from . import results
from .groups import known_numel

SELECT, SLICE, UNBIND = "aten.select.int", "aten.slice.Tensor", "aten.unbind.int"
_NUMBERS = {SELECT: (1,), SLICE: (1, 2)}  # which arguments behind the tensor
_BRANCHES = ("If", "Case")
MOVING = object()
Numbers = tuple[Any, ...]  # of all such arguments of a pattern: constants, or values of the graph that has the view


@dataclass(frozen=True)
class Step:
    """An op of a view: its arguments behind the tensor, and which of its outputs counts."""

    op: str
    args: tuple[Any, ...]
    index: int
    types: tuple[Type, ...]
    node: Node = field(compare=False)

    def joined(self, other: Step) -> Step | None:
        """What two have in common; None where they are not alike."""
        places = _NUMBERS.get(self.op, ())
        if (self.op, self.index, len(self.args)) != (other.op, other.index, len(other.args)):
            return None
        args = []
        for i, (a, b) in enumerate(zip(self.args, other.args)):
            if a is not b and a != b and i not in places:
                return None
            args.append(a if a is b or a == b else MOVING)
        types = [_joined_type(a, b) for a, b in zip(self.types, other.types)]
        known = tuple(t for t in types if t is not None)
        return replace(self, args=tuple(args), types=known) if len(known) == len(types) else None

    @property
    def places(self) -> Numbers:
        """Its numbers, those that are not known as ``MOVING``."""
        return tuple(self.args[i] for i in _NUMBERS.get(self.op, ()))

    def on(self, x: Value, numbers: Sequence[Any]) -> Node:
        """The op on a tensor, at ``numbers``."""
        args = list(self.args)
        for i, n in zip(_NUMBERS.get(self.op, ()), numbers):
            args[i] = n
        return Node(self.op, (x, *args), None, self.types, location=self.node.location, grad=self.node.grad)  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """Views of ``base``, an input of the whole graph."""

    base: Value
    steps: tuple[Step, ...] = ()

    @property
    def places(self) -> Numbers:
        return tuple(n for s in self.steps for n in s.places)

    def on(self, base: Value, numbers: Sequence[Any]) -> list[Node]:
        """The nodes that take the view at ``numbers`` of what stands for the input."""
        nodes, x, at = list[Node](), base, 0
        for s in self.steps:
            count = len(s.places)
            nodes.append(s.on(x, numbers[at : at + count]))
            x, at = nodes[-1].outputs[s.index], at + count
        return nodes


Known = dict[Value, Pattern]


def placed(graph: Graph, count: int | None) -> Graph:
    """``graph``, or a copy of it in which such results among the first ``count`` are views of an input."""
    if all(_root(v) is None for v in graph.outputs[:count]):
        return graph
    made = copied(graph)
    inputs = set(made.inputs) - results.written_inputs(made)
    known = {v: Pattern(v) for v in made.inputs if v in inputs and isinstance(v.type, TensorType)}
    _follow(made, known)
    found = {v: r for v in made.outputs[:count] if (r := _root(v)) in known}
    roots = [r for v, r in found.items() if r is not None and (r is not v or known[r].steps)]
    if not roots:
        return graph
    _Placing(made, known, roots).run()
    return made


def _root(v: Value) -> Value | None:
    """What a branch or loop gives and a value is a view of, or is."""
    while v.node is not None and v.node.op in results.VIEW_OPS:
        v = v.node.args[0]
    return v if v.node is not None and v.node.op in (*_BRANCHES, "While") else None


# ---- what is known


def _follow(graph: Graph, known: Known) -> None:
    """Find the patterns of what the nodes of a graph give, from those of its inputs."""
    for node in graph.nodes:
        if node.op in results.VIEW_OPS:
            base = known.get(node.args[0]) if isinstance(node.args[0], Value) else None
            found = [base and _then(base, v) for v in node.outputs]
        elif node.op in _BRANCHES:
            found = _follow_branches(node, known)
        elif node.op == "While":
            found = _follow_loop(node, known)
        else:
            continue
        _note(node.outputs, found, known)


def _note(values: Iterable[Value], found: Iterable[Pattern | None], known: Known) -> None:
    for v, p in zip(values, found):
        known.pop(v, None)
        if p is not None:
            known[v] = p


def _follow_branches(node: Node, known: Known) -> list[Pattern | None]:
    given = _patterns(passed(node), known)
    rows = []
    for region in node.regions.values():
        _note(region.inputs, given, known)
        _follow(region, known)
        if _arrives(region):
            rows.append(_patterns(region.outputs, known))
    found = rows[0] if rows else [None] * len(node.outputs)
    for row in rows[1:]:
        found = list(map(_joined, found, row))
    return found


def _follow_loop(node: Node, known: Known) -> list[Pattern | None]:
    """The patterns that hold in each iteration: those of the start, joined with what the body leaves until nothing changes."""
    body, state = node.regions["body"], carried(node)
    given = _patterns(node.args, known)
    while True:
        _note(body.inputs, given, known)
        _follow(body, known)
        left = _patterns(body.outputs, known)
        found = [*map(_joined, given[:state], left), *given[state:]]
        if found == given:
            return found[:state]
        given = found


def _patterns(values: Iterable[Any], known: Known) -> list[Pattern | None]:
    return [known.get(v) if isinstance(v, Value) else None for v in values]


def _then(base: Pattern, v: Value) -> Pattern | None:
    """A view of what has a pattern; None where it takes more than numbers."""
    node = v.node
    assert node is not None
    op, args = _arguments(v)
    places = _NUMBERS.get(op, ())
    own = [args[i] for i in places]
    if node.kwargs or any(n.type != INT if isinstance(n, Value) else type(n) is not int for n in own):  # fmt: skip
        return None
    if len(node.inputs) - 1 != sum(isinstance(n, Value) for n in own):
        return None
    args = tuple(MOVING if isinstance(a, Value) else a for a in args)
    single = op != node.op or len(node.outputs) == 1
    types = (v.type,) if single else tuple(o.type for o in node.outputs)
    return Pattern(base.base, (*base.steps, Step(op, args, 0 if single else v.index, types, node)))


def _arguments(v: Value) -> tuple[str, tuple[Any, ...]]:
    """The op of a view and its arguments behind the tensor: all of a slice, and the row of an ``unbind`` as the same row by ``select``."""
    node = v.node
    assert node is not None
    rest = node.args[1:]
    if node.op == UNBIND:
        return SELECT, (rest[0] if rest else 0, v.index)
    if node.op == SLICE:
        dim, start, end, step = (*rest, *(0, None, None, 1)[len(rest) :])
        return SLICE, (dim, 0 if start is None else start, 2**63 - 1 if end is None else end, step)
    return node.op, rest


def _joined(a: Pattern | None, b: Pattern | None) -> Pattern | None:
    if a is None or b is None or a.base is not b.base or len(a.steps) != len(b.steps):
        return None
    steps = tuple(s for x, y in zip(a.steps, b.steps) if (s := x.joined(y)) is not None)
    return Pattern(a.base, steps) if len(steps) == len(a.steps) else None


def _joined_type(a: Type, b: Type) -> Type | None:
    """A type of both; None where they differ in more than sizes."""
    if a == b:
        return a
    if not (isinstance(a, TensorType) and isinstance(b, TensorType)) or len(a.shape) != len(b.shape):  # fmt: skip
        return None
    shape = tuple(n if n == m else None for n, m in zip(a.shape, b.shape))
    made = replace(a, shape=shape)
    return made if made == replace(b, shape=shape) else None


# ---- the numbers


class _Placing:
    """The rewrite of one graph. ``numbers`` are those of each value that a result may be."""

    def __init__(self, graph: Graph, known: Known, roots: Sequence[Value]):
        self.graph, self.known, self.roots = graph, known, set(roots)
        self.around: dict[Graph, tuple[Node, str, Graph]] = {}
        self.owners: dict[Value, tuple[Node, int]] = {}
        self._look(graph)
        self.needed = self._behind(roots)
        self.numbers: dict[Value, Numbers] = {v: () for v in graph.inputs}
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
        node, i = self.owners[v] if v in self.owners else (v.node, v.index)
        if node is None:
            return []
        if node.op in results.VIEW_OPS:
            return [node.args[0]]
        if node.op == "While":
            body = node.regions["body"]
            more = [body.inputs[i], body.outputs[i], node.outputs[i]] if i < carried(node) else []
            return [node.args[i], *more]
        if v in self.owners:
            return [passed(node)[i]]
        return [r.outputs[i] for r in node.regions.values() if _arrives(r)]

    def _give(self, graph: Graph, names: Renaming) -> None:
        """Find the numbers of the values of a graph; branches and loops give theirs."""
        nodes, graph.nodes = graph.nodes, []
        for node in nodes:
            names.apply(node)
            wanted = [v for v in node.outputs if v in self.needed]
            if wanted and node.op in results.VIEW_OPS:
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
            op, args = _arguments(v)
            own = (args[i] for i in _NUMBERS.get(op, ()))
            self.numbers[v] = (*self.numbers[node.args[0]], *own)

    def _of_branches(self, node: Node, wanted: list[Value]) -> None:
        regions = [r for r in node.regions.values() if _arrives(r)]
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
            fewer |= any([self._drop(r) for r in node.regions.values()])
            used.update(node.inputs)
            kept.append(node)
        graph.nodes = kept[::-1]
        return fewer


def _arrives(region: Graph) -> bool:
    """Whether what comes behind a branch may see what it gives: where it always raises that stands for nothing."""
    return bool(region.outputs) and all(n.op != "tg.raise" for n in region.nodes)


def _is_number(kind: Type) -> bool:
    """Whether a loop carries values of a type in a register."""
    return isinstance(kind, TensorType) and is_static(kind) and known_numel(kind.shape) == 1
