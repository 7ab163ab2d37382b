"""Building blocks of passes: copies of graphs, substitution, and regions whose inputs come and go.

Passes change a graph in place and return it; who wants to keep the original copies it first. Values are
never shared between graphs, and ``Value.node`` and ``Value.index`` stay true. Control inputs follow from effects
and program order, so passes leave them out: ``ordering.set_control_inputs`` makes them at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from .ir import Graph, Node, Value, all_nodes, map_values
from .ops import OpaqueObject
from .ordering import node_effects, set_control_inputs
from .types import ObjectType, ScalarType, TensorType, Type


def copied(graph: Graph, ordered: bool = False) -> Graph:
    """A graph with new nodes and values that means the same. ``ordered``: with its control inputs."""
    made = Graph(graph.name)
    made.input_names = list(graph.input_names)
    env = {v: Value(v.type) for v in graph.inputs}
    made.inputs = [env[v] for v in graph.inputs]
    nodes: dict[Node, Node] = {}
    for node in graph.nodes:
        nodes[node] = copy_node(node, env, ordered)
        if ordered:
            nodes[node].control_inputs = [nodes[n] for n in node.control_inputs if n in nodes]
    made.nodes = list(nodes.values())
    made.outputs = [env[v] for v in graph.outputs]
    made.over = tuple(env[v] for v in graph.over if v in env)
    return made


def ordered_copy(graph: Graph) -> Graph:
    """A copy whose control inputs are those of its effects."""
    made = copied(graph)
    set_control_inputs(made)
    return made


def copy_node(node: Node, env: dict[Value, Value], ordered: bool = True) -> Node:
    """A copy of a node on the values of ``env``, which takes its outputs; ``ordered`` as in ``copied``, for its regions."""
    copy = Node(
        node.op,
        map_values(env.__getitem__, node.args),
        map_values(env.__getitem__, node.kwargs),
        [v.type for v in node.outputs],
        regions={name: copied(region, ordered) for name, region in node.regions.items()},
        location=node.location,
        grad=node.grad,
    )
    copy.unsure = node.unsure
    if node.over:
        copy.over = tuple(env[v] for v in node.over if v in env)
    env.update(zip(node.outputs, copy.outputs))
    return copy


class Renaming(dict[Value, Any]):
    """What stands for values that are gone: another value, or a constant."""

    def of(self, value: Value) -> Any:
        return self.get(value, value)

    def apply(self, node: Node) -> None:
        """Rename the arguments of a node."""
        if self and not self.keys().isdisjoint(node.inputs):
            node.replace_inputs(self.of)

    def outputs(self, graph: Graph) -> None:
        """Rename the outputs of a graph; a constant there becomes a node."""
        for i, value in enumerate(graph.outputs):
            found = self.of(value)
            if not isinstance(found, Value):
                found = constant(graph.nodes, found, value)
            graph.outputs[i] = found


def constant(nodes: list[Node], x: Any, old: Value) -> Value:
    """A new node at the end of ``nodes`` for a constant that ``old`` turned out to be."""
    location = old.node.location if old.node else None
    nodes.append(Node("py.constant", (x,), None, (old.type,), location=location))
    return nodes[-1].outputs[0]


def replaced(graph: Graph, make: Callable[[Node, list[Node]], Sequence[Any] | None]) -> Graph:
    """``graph`` with other nodes in the place of some, inner regions first.

    ``make`` appends the nodes that a node becomes to the list, and returns what stands for its outputs; None: the node stays.
    """
    names, nodes = Renaming(), list[Node]()
    for node in graph.nodes:
        names.apply(node)
        for region in node.regions.values():
            replaced(region, make)
        made = make(node, nodes)
        if made is None:
            nodes.append(node)
        else:
            names.update(zip(node.outputs, made, strict=True))
    graph.nodes = nodes
    names.outputs(graph)
    return graph


# ---- regions


def lead(node: Node) -> int:
    """How many arguments of a region op come before those that its regions take."""
    return len(node.args) - len(next(iter(node.regions.values())).inputs)


def passed(node: Node) -> tuple:
    """The arguments that the regions take."""
    return node.args[lead(node) :]


def carried(node: Node) -> int:
    """How many of the inputs of the regions change from one run of a region to the next."""
    return node.kwargs["carried"] if node.op == "While" else 0


def splice(region: Graph, args: Sequence[Any], nodes: list[Node], grad: bool) -> list[Any]:
    """Append the nodes of a region that runs once, for ``args``; what stands for its outputs."""
    names = Renaming(zip(region.inputs, args))
    for node in region.nodes:
        names.apply(node)
        node.grad = node.grad and grad
        nodes.append(node)
    return [names.of(v) for v in region.outputs]


def add_input(node: Node, x: Value) -> dict[str, Value]:
    """Pass one more value to the regions of a node; the input that stands for it in each region."""
    for i, arg in enumerate(passed(node)[carried(node) :]):
        if arg is x:
            at = carried(node) + i
            return {name: region.inputs[at] for name, region in node.regions.items()}
    node.args = (*node.args, x)
    made = {}
    for name, region in node.regions.items():
        made[name] = Value(x.type)
        region.inputs.append(made[name])
        region.input_names += [""] * (len(region.inputs) - len(region.input_names))
    return made


def add_state(
    node: Node, inner: Sequence[Value], outputs: Sequence[Value], starts: Sequence[Any]
) -> list[Value]:
    """Give a ``While`` further state: ``inner`` stands for it in the body, which leaves ``outputs``. What it ends as, behind the node."""
    at = node.kwargs["carried"]
    body, cond = node.regions["body"], node.regions["cond"]
    body.outputs = [*body.outputs[:at], *outputs, *body.outputs[at:]]
    for region, own in ((body, inner), (cond, [Value(v.type) for v in inner])):
        region.inputs = [*region.inputs[:at], *own, *region.inputs[at:]]
        region.input_names = [""] * len(region.inputs)
    node.args = (*node.args[:at], *starts, *node.args[at:])
    node.kwargs["carried"] = at + len(inner)
    ends = [Value(v.type, node, at + k) for k, v in enumerate(inner)]
    node.outputs += ends
    return ends


def keep_inputs(node: Node, keep: Sequence[bool]) -> None:
    """Drop the inputs of the regions that ``keep`` says False for, and their arguments."""
    if all(keep):
        return
    first = lead(node)
    rest = tuple(a for a, k in zip(node.args[first:], keep) if k)
    node.args = node.args[:first] + rest
    for region in node.regions.values():
        names = region.input_names + [""] * (len(region.inputs) - len(region.input_names))
        region.input_names = [n for n, k in zip(names, keep) if k]
        region.inputs = [v for v, k in zip(region.inputs, keep) if k]


def keep_outputs(node: Node, keep: Sequence[bool]) -> None:
    """Drop the outputs of a region op that ``keep`` says False for; a loop loses their state too."""
    if all(keep):
        return
    node.outputs = [v for v, k in zip(node.outputs, keep) if k]
    for i, value in enumerate(node.outputs):
        value.index = i
    if node.op == "While":
        count = len(node.args) - len(keep)
        keep_inputs(node, [*keep, *[True] * count])
        node.kwargs["carried"] = len(node.outputs)
    for name, region in node.regions.items():
        if name != "cond":
            region.outputs = [v for v, k in zip(region.outputs, keep) if k]


def map_graphs(graph: Graph, change: Callable[[Graph], Any]) -> None:
    """Apply ``change`` to a graph and to all graphs in it."""
    change(graph)
    for node in graph.nodes:
        for region in node.regions.values():
            map_graphs(region, change)


def count_nodes(graph: Graph) -> int:
    """The nodes of a graph and of its regions."""
    return sum(1 for _ in all_nodes(graph))


def leave_out(graph: Graph, ops: Container[str]) -> None:
    """Take away nodes that only have an effect."""

    def drop(graph: Graph) -> None:
        graph.nodes = [n for n in graph.nodes if n.op not in ops]

    map_graphs(graph, drop)


# ---- facts


def same_value(a: Any, b: Any) -> bool:
    """Whether two arguments are the same value, or equal constants of one type."""
    if isinstance(a, Value) or isinstance(b, Value):
        return a is b
    return constant_key(a) == constant_key(b)


def constant_key(x: Any) -> Any:
    """A key that tells constants apart as Python's types, and floats by every bit that ``repr`` shows."""
    if isinstance(x, (list, tuple)):
        return (type(x), *map(constant_key, x))
    if isinstance(x, (float, complex)):
        return (type(x), repr(x))
    return (type(x), id(x.value)) if isinstance(x, OpaqueObject) else (type(x), x)


def holds_tensors(kind: Type) -> bool:
    """Whether a run-time value of the type is, or may hold, a tensor."""
    return not isinstance(kind, ScalarType)


def is_torch_op(node: Node) -> bool:
    """Whether a node runs an operator of torch."""
    return node.op.startswith(("aten.", "op."))


def _static(kind: Type) -> bool:
    if isinstance(kind, TensorType):
        return None not in kind.shape
    return not isinstance(kind, ObjectType)


def cannot_fail(node: Node) -> bool:
    """Whether a node surely computes its outputs: no effect, and no shape that run time could make wrong."""
    effects = node_effects(node)
    if effects.may_fail or effects.diverges or effects.random or effects.io or effects.writes:
        return False
    if node.regions:
        return all(cannot_fail(n) for r in node.regions.values() for n in r.nodes)
    if is_torch_op(node):
        shapes = all(_static(v.type) for v in (*node.inputs, *node.outputs))
        return shapes and not any(_sizes(a) for a in (*node.args, *node.kwargs.values()))
    return True


def _sizes(arg: Any) -> bool:
    """Whether an argument is a list with numbers that only run time knows, such as a shape."""
    if not isinstance(arg, (list, tuple)):
        return False
    return any(isinstance(v, Value) and isinstance(v.type, ScalarType) for v in arg)


def beside_inputs(graph: Graph, start: int) -> None:
    """Move the nodes from number ``start`` on, which have no effects, to where the last of their inputs is made.

    What each turn of an unrolled loop adds to them stands in that turn then.
    """
    added = graph.nodes[start:]
    del graph.nodes[start:]
    rank: dict[Node, int] = {}
    for node in added:
        makers = [v.node for v in node.inputs]
        for maker in makers:
            if maker is not None and maker not in rank:
                rank[maker] = graph.nodes.index(maker)
        places = [-1 if maker is None else rank[maker] for maker in makers]
        rank[node] = max(places, default=start)
    # The last places first, so that the others stay what they are; nodes of one place keep their order.
    for node in sorted(added, key=rank.__getitem__)[::-1]:
        graph.nodes.insert(rank[node] + 1, node)
