"""Graphs in which a value of one type becomes several values of other types.

Model. A graph is written anew, node by node. ``parts`` says for each old value what stands for it: one new value, or those
that ``split`` takes its type apart into. A node that has such a value among its inputs or outputs is written by the rule
for its op, or refused; every other one is copied. Regions take and return the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from ...errors import InterchangeError
from ..graph.ir import Graph, Node, Value, map_values
from ..graph.types import Type

Parts = tuple[Any, ...]  # values, or Python numbers that are known


class Expansion:
    """One graph being written anew. ``rules``: op -> function(self, node, *args, **kwargs), giving the parts of each output.

    A rule is given the parts of a value of a split type as a tuple, and the new value in the place of any other.
    """

    rules: ClassVar[dict[str, Callable[..., list[Parts]]]] = {}

    def __init__(self, source: Graph, system: str, outer: Expansion | None = None):
        self.source, self.system, self.outer = source, system, outer
        self.made = Graph(source.name)
        self.parts: dict[Value, Parts] = {}
        self.at: Node | None = None

    def split(self, kind: Type) -> list[Type] | None:
        """The types of the parts; None for a type that stays as it is."""
        raise NotImplementedError

    def refuse(self, what: str) -> InterchangeError:
        return InterchangeError(self.system, what, self.at.location if self.at else None)

    # ---- writing

    def emit(self, op: str, *args: Any, type: Type, **kwargs: Any) -> Value:
        return self.emit_many(op, args, [type], **kwargs)[0]

    def emit_many(self, op: str, args: Sequence[Any], types: Sequence[Type], **kwargs: Any) -> list[Value]:  # fmt: skip
        at = self.at
        node = Node(op, tuple(args), kwargs, types, location=at.location if at else None, grad=at.grad if at else True)  # fmt: skip
        self.made.nodes.append(node)
        return node.outputs

    def value(self, x: Any, kind: Type) -> Value:
        """A part as a value: a number that is known becomes a node."""
        return x if isinstance(x, Value) else self.emit("py.constant", x, type=kind)

    # ---- the graph

    def run(self) -> Self:
        """Write all but the outputs."""
        names = [*self.source.input_names, *[""] * len(self.source.inputs)]
        for old, name in zip(self.source.inputs, names):
            kinds = self.split(old.type) or [old.type]
            self.parts[old] = tuple(map(Value, kinds))
            self.made.inputs += self.parts[old]
            self.made.input_names += [name] * len(kinds)
        for node in self.source.nodes:
            self.at = node
            for old, parts in zip(node.outputs, self.node(node)):
                self.parts[old] = tuple(parts)
        return self

    def finish(self) -> Graph:
        """The graph, its outputs being the parts of the old ones."""
        for old in self.source.outputs:
            self.made.outputs += self.values_of(old)
        return self.made

    def values_of(self, old: Value) -> list[Value]:
        kinds = self.split(old.type) or [old.type]
        return [self.value(x, k) for x, k in zip(self.parts[old], kinds)]

    def node(self, node: Node) -> Sequence[Parts]:
        if node.regions:
            return self.region(node)
        touched = any(self.split(v.type) is not None for v in (*node.inputs, *node.outputs))
        if not touched:
            return self.copy(node)
        rule = self.rules.get(node.op)
        if rule is None:
            raise self.refuse(node.op)
        return rule(self, node, *self.argument(node.args), **self.argument(node.kwargs))

    def argument(self, tree: Any) -> Any:
        return map_values(lambda v: self.parts[v] if self.split(v.type) is not None else self.parts[v][0], tree)  # fmt: skip

    def copy(self, node: Node) -> list[Parts]:
        made = Node(node.op, self.argument(node.args), self.argument(node.kwargs), [v.type for v in node.outputs],
                    location=node.location, grad=node.grad)  # fmt: skip
        self.made.nodes.append(made)
        return [(v,) for v in made.outputs]

    # ---- regions

    def inner(self, region: Graph) -> Any:
        """The expansion of a region, all but its outputs."""
        return type(self)(region, self.system, self).run()

    def flat(self, args: Sequence[Any]) -> list[Any]:
        """The parts of arguments, one after the other; constants as they are."""
        return [p for a in args for p in (self.parts[a] if isinstance(a, Value) else (a,))]

    def region(self, node: Node) -> Sequence[Parts]:
        """A region op: every list of values in the parts of its own."""
        kinds = [self.split(v.type) or [v.type] for v in node.outputs]
        regions = {name: self.inner(region).finish() for name, region in node.regions.items()}
        kwargs = dict(node.kwargs)
        if node.op == "While":
            count = node.kwargs["carried"]
            kwargs["carried"] = sum(map(len, kinds[:count]))
        return self.rebuilt(node, self.flat(node.args), regions, kwargs, kinds)

    def rebuilt(self, node: Node, args: Sequence[Any], regions: dict[str, Graph], kwargs: dict[str, Any],
                kinds: Sequence[Sequence[Type]]) -> list[Parts]:  # fmt: skip
        """Append the node; the parts of its old outputs."""
        made = Node(node.op, tuple(args), kwargs, [k for ks in kinds for k in ks], regions=regions, location=node.location,
                    grad=node.grad)  # fmt: skip
        self.made.nodes.append(made)
        rest = iter(made.outputs)
        return [tuple(next(rest) for _ in ks) for ks in kinds]
