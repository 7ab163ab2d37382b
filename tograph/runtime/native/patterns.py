"""What views of an input have in common in each path through branches and loops.

A ``Pattern`` is the input, and the ops with what is the same in each path; ``MOVING`` stands for a number that is not. Numbers are the rows and the
bounds of slices; all else must be known and the same. ``follow`` finds those of a graph, of which each input that counts has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import carried, passed
from ..graph.types import INT, TensorType, Type
from .results import VIEW_OPS

SELECT, SLICE, UNBIND = "aten.select.int", "aten.slice.Tensor", "aten.unbind.int"
_NUMBERS = {SELECT: (1,), SLICE: (1, 2)}  # which arguments behind the tensor
BRANCHES = ("If", "Case")
MOVING = object()
# Of all such arguments of a pattern: constants, or values of the graph that has the view.
Numbers = tuple[Any, ...]


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


def follow(graph: Graph, known: Known) -> None:
    """Find the patterns of what the nodes of a graph give, from those of its inputs."""
    for node in graph.nodes:
        if node.op in VIEW_OPS:
            base = known.get(node.args[0]) if isinstance(node.args[0], Value) else None
            found = [base and _then(base, v) for v in node.outputs]
        elif node.op in BRANCHES:
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
        follow(region, known)
        if arrives(region):
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
        follow(body, known)
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


def own_numbers(v: Value) -> Numbers:
    """The numbers of one op of a view."""
    op, args = _arguments(v)
    return tuple(args[i] for i in _NUMBERS.get(op, ()))


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


def arrives(region: Graph) -> bool:
    """Whether what comes behind a branch may see what it gives: where it always raises that stands for nothing."""
    return bool(region.outputs) and all(n.op != "tg.raise" for n in region.nodes)
