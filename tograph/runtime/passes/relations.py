"""How a value follows from others where staged branches and loops give them: ``if c: w = w - g; loss = f(w)``.

Behind the construct ``loss`` and ``w`` are two of its outputs. What leads from one to the other stands in a region, or in what it takes as it is from around (``Computed``), or they are
what they were before (``Before``). A **relation** is the tree of these: a branch is related where all its regions are (``Chosen``), a loop where what it begins with is and each
iteration keeps it so (``Repeated``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import always_fails
from ..graph.rewrite import add_input, carried, lead
from .slices import led_to

Base = tuple[Value, list[Value]]


class Scope:
    """A graph, or a region (``name``) of a node in the graph of the scope ``outer``.

    ``given``: values that are the same always, each with what is the same for them in all scopes; ``base``: what is related as the graph begins.
    """

    def __init__(
        self,
        graph: Graph,
        given: Mapping[Value, Any],
        base: Base | None = None,
        owner: Node | None = None,
        name: str = "",
        outer: Scope | None = None,
    ):
        self.graph, self.owner, self.name, self.outer, self.base = graph, owner, name, outer, base
        self.given = dict(given)
        for v in graph.inputs:
            x = self.outside(v)
            if outer is not None and x in outer.given:
                self.given[v] = outer.given[x]
        for node in graph.nodes:
            if node.op == "tg.read" and node.args[0] in self.given:
                self.given[node.outputs[0]] = "read", self.given[node.args[0]]

    def inner(self, owner: Node, name: str) -> Scope:
        return Scope(owner.regions[name], {}, None, owner, name, self)

    def outside(self, v: Value) -> Value | None:
        """What an input that stays what it is stands for around."""
        if self.owner is None or v not in self.graph.inputs:
            return None
        at = self.graph.inputs.index(v)
        x = self.owner.args[lead(self.owner) + at] if at >= carried(self.owner) else None
        return x if isinstance(x, Value) else None

    def led(self, cuts: Sequence[Value]) -> set[Value]:
        """What may be computed from values, also by what the scopes around compute from the same."""
        start = set(cuts)
        outer = [x for c in cuts if (x := self.outside(c)) is not None]
        if outer and self.outer is not None:
            found = self.outer.led(outer)
            start |= {v for v in self.graph.inputs if self.outside(v) in found}
        state = self.graph.inputs[: carried(self.owner)] if self.owner is not None else []
        if not start.isdisjoint(state):
            start.update(state)
        return led_to(self.graph, start)

    def lowered(self, v: Value, at: Scope) -> Value:
        """A value of the scope ``at``, which is this one or one around it, as a value here."""
        if at is self:
            return v
        assert self.outer is not None and self.owner is not None
        return add_input(self.owner, self.outer.lowered(v, at))[self.name]


@dataclass(eq=False)
class Before:
    scope: Scope


@dataclass(eq=False)
class Computed:
    scope: Scope
    end: Value
    cuts: list[Value]


@dataclass(eq=False)
class Chosen:
    """``ways``: by the names of the regions that come to an end."""

    scope: Scope
    node: Node
    ways: dict[str, tuple[Scope, Relation]]


@dataclass(eq=False)
class Repeated:
    scope: Scope
    node: Node
    first: Relation
    body: Scope
    step: Relation


Relation = Before | Computed | Chosen | Repeated


def relation(scope: Scope, end: Any, cuts: Sequence[Any]) -> Relation | None:
    """How ``end`` follows from ``cuts``; None where that is not told. ``Computed`` is a place to look at only."""
    if not all(isinstance(v, Value) for v in (end, *cuts)):
        return None
    if scope.base is not None and (end, list(cuts)) == scope.base:
        return Before(scope)
    if scope.owner is not None and scope.outer is not None and end in scope.graph.inputs:
        around = [scope.outside(v) for v in (end, *cuts)]
        return None if None in around else relation(scope.outer, around[0], around[1:])
    node = end.node
    if node is not None and any(c.node is node for c in cuts) and "gradient" not in node.regions:
        if node.op in ALTERNATIVES:
            return _chosen(scope, node, end, cuts)
        if node.op == "While":
            return _repeated(scope, node, end, cuts)
    return Computed(scope, end, list(cuts))


def _chosen(scope: Scope, node: Node, end: Value, cuts: Sequence[Value]) -> Relation | None:
    ways: dict[str, tuple[Scope, Relation]] = {}
    for name, region in node.regions.items():
        if always_fails(region):
            continue
        inner = scope.inner(node, name)
        found = [
            region.outputs[c.index] if c.node is node else inner.lowered(c, scope) for c in cuts
        ]
        way = relation(inner, region.outputs[end.index], found)
        if way is None:
            return None
        ways[name] = inner, way
    return Chosen(scope, node, ways) if ways else None


def _repeated(scope: Scope, node: Node, end: Value, cuts: Sequence[Value]) -> Relation | None:
    first = relation(scope, node.args[end.index], [node.args[c.index] if c.node is node else c for c in cuts])  # fmt: skip
    if first is None:
        return None
    inner, body = scope.inner(node, "body"), node.regions["body"]

    def of(values: Sequence[Value]) -> list[Value]:
        return [values[c.index] if c.node is node else inner.lowered(c, scope) for c in cuts]

    inner.base = body.inputs[end.index], of(body.inputs)
    step = relation(inner, body.outputs[end.index], of(body.outputs))
    return None if step is None else Repeated(scope, node, first, inner, step)


def computed(found: Relation) -> Iterator[Computed]:
    """The places where something is computed."""
    if isinstance(found, Computed):
        yield found
    elif isinstance(found, Chosen):
        for _, way in found.ways.values():
            yield from computed(way)
    elif isinstance(found, Repeated):
        yield from computed(found.first)
        yield from computed(found.step)


class Unlike(Exception):
    """What is to be carried is not of one type, or there is none."""


@dataclass
class Carrying:
    """Gives what was used where something was computed a way to the outermost graph: constructs get further outputs.

    ``pick``: that value; ``before``: by scope what stands for it in what is as it was.
    """

    pick: Callable[[Computed], Value]
    before: dict[Scope, Value]

    def value(self, found: Relation, scope: Scope) -> Value:
        """The value in a scope."""
        if isinstance(found, Before):
            made = self.before.get(found.scope)
            if made is None:
                raise Unlike
        elif isinstance(found, Computed):
            made = self.pick(found)
        elif isinstance(found, Chosen):
            made = self._chosen(found)
        else:
            made = self._repeated(found)
        return scope.lowered(made, found.scope)

    def _chosen(self, found: Chosen) -> Value:
        node, made = found.node, dict[str, Value]()
        for name in node.regions:
            if name in found.ways:
                inner, way = found.ways[name]
                made[name] = self.value(way, inner)
            else:  # it fails: any will do
                inner = found.scope.inner(node, name)
                scope, x = next(iter(self.before.items()), (None, None))
                if scope is None or x is None:
                    raise Unlike
                made[name] = inner.lowered(x, scope)
        (kind, *others) = dict.fromkeys(v.type for v in made.values())
        if others:
            raise Unlike
        for name, v in made.items():
            node.regions[name].outputs.append(v)
        node.outputs.append(Value(kind, node, len(node.outputs)))
        return node.outputs[-1]

    def _repeated(self, found: Repeated) -> Value:
        node, start = found.node, self.value(found.first, found.scope)
        at, count = lead(node), carried(node)
        for name, region in node.regions.items():
            x = Value(start.type)
            region.inputs.insert(count, x)
            region.input_names.insert(count, "")
            if name == "body":
                self.before[found.body] = x
        node.args = (*node.args[: at + count], start, *node.args[at + count :])
        node.kwargs["carried"] = count + 1
        v = self.value(found.step, found.body)
        if v.type != start.type:
            raise Unlike
        node.regions["body"].outputs.append(v)
        node.outputs.append(Value(start.type, node, len(node.outputs)))
        return node.outputs[-1]
