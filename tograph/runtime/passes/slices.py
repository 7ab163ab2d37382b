"""The part of a graph that computes a value from others, and where another part does the same.

A **slice** computes ``end`` from the values ``cut``. It has the nodes on the way from these, and those that need nothing but what is ``given``
anyway; what it uses besides, which the graph computes otherwise, are further inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..graph.ir import Graph, Node, Value, map_values
from ..graph.ordering import node_effects
from ..graph.rewrite import constant_key, copy_node, lead
from .prune import prune


@dataclass
class Slice:
    """A graph with one output; ``sources``: the values that its inputs stand for."""

    graph: Graph
    sources: list[Value]


def led_to(graph: Graph, start: Collection[Value]) -> set[Value]:
    """The values that may be computed from some."""
    found = set(start)
    for node in graph.nodes:
        if not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    return found


def between(graph: Graph, end: Value, cut: Collection[Value], given: Collection[Value]) -> Slice | None:  # fmt: skip
    """The slice, which has no nodes where ``end`` is one of ``cut``; None where ``end`` is not computed from these, or by what does more than compute."""
    led, free = led_to(graph, cut), _free(graph, given)
    if end not in led:
        return None
    ends, nodes, sources = {*cut, *given}, set[Node](), dict[Value, None]()
    todo = [end]
    while todo:
        v = todo.pop()
        if v in ends or v.node is None or not (v in led or v in free):
            sources[v] = None
        elif v.node not in nodes:
            if not _repeatable(v.node, given):
                return None
            nodes.add(v.node)
            todo += v.node.inputs
    made = Graph("slice")
    env = {v: Value(v.type) for v in sources}
    made.inputs, made.input_names = list(env.values()), [""] * len(env)
    made.nodes = [copy_node(n, env) for n in graph.nodes if n in nodes]
    made.outputs = [env[end]]
    prune(made)
    used = {v for n in made.nodes for v in n.inputs} | set(made.outputs)
    kept = [v for v in sources if env[v] in used]
    made.inputs, made.input_names = [env[v] for v in kept], [""] * len(kept)
    return Slice(made, kept)


def _free(graph: Graph, given: Collection[Value]) -> set[Value]:
    """What is computed from ``given`` alone."""
    found = set(given)
    for node in graph.nodes:
        if found.issuperset(node.inputs) and _repeatable(node, given):
            found.update(node.outputs)
    return found


def _repeatable(node: Node, given: Collection[Value]) -> bool:
    """Whether a node does the same once more: it only computes, and what it reads is ``given``."""
    effects = node_effects(node)
    quiet = not (effects.random or effects.io or effects.writes)
    return quiet and all(node.inputs[i] in given for i in effects.reads)


def with_contents(graph: Graph, places: Collection[Value]) -> None:
    """Let inputs of a graph, which are resources that its regions read, be their contents."""
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        node.replace_inputs(lambda v: replaced.get(v, v))
        if node.op == "tg.read" and node.args[0] in places:
            replaced[node.outputs[0]] = node.args[0]
        args = node.args[lead(node) :] if node.regions else ()
        for region in node.regions.values():
            with_contents(region, {v for v, a in zip(region.inputs, args) if a in places})
    gone = {v.node for v in replaced}
    graph.nodes = [n for n in graph.nodes if n not in gone]
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]
    for node in graph.nodes:
        node.control_inputs = [n for n in node.control_inputs if n not in gone]


def matching(made: Graph, end: Value, known: Mapping[Value, Value]) -> dict[Value, Value] | None:
    """What stands for the values of a slice where ``end`` is computed in the same way; ``known``: what does for some of its inputs."""
    found = dict(known)
    todo = [(made.outputs[0], end)]
    while todo:
        a, b = todo.pop()
        if a in found:
            if found[a] is not b:
                return None
        elif a.node is None:
            if a.type != b.type:
                return None
            found[a] = b
        elif b.node is None:
            return None
        elif a.node.regions and b.node.regions:
            (m, of_m), (n, of_n) = _narrowed(a), _narrowed(b)
            if not alike(m, n):
                return None
            found[a] = b
            todo += zip(of_m, of_n)
        elif a.index != b.index or not alike(a.node, b.node):
            return None
        else:
            found.update(zip(a.node.outputs, b.node.outputs))
            todo += zip(a.node.inputs, b.node.inputs)
    return found


def _narrowed(v: Value) -> tuple[Node, list[Value]]:
    """A copy of a node with regions that gives one of its outputs only, and what that takes."""
    assert v.node is not None
    env = {x: Value(x.type) for x in dict.fromkeys(v.node.inputs)}
    given = {copy: x for x, copy in env.items()}
    made = Graph("one")
    made.inputs = list(env.values())
    node = copy_node(v.node, env)
    made.nodes, made.outputs = [node], [env[v]]
    prune(made)
    return node, [given[x] for x in node.inputs]


def alike(a: Node, b: Node) -> bool:
    """Whether two nodes are the same but for the values that they take."""
    return (
        (a.op, a.grad, len(a.inputs), list(a.regions)) == (b.op, b.grad, len(b.inputs), list(b.regions))
        and [v.type for v in a.outputs] == [v.type for v in b.outputs]
        and constant_key(_shape(a.args)) == constant_key(_shape(b.args))
        and _options(a) == _options(b)
        and all(_same(r, b.regions[name]) for name, r in a.regions.items())
    )  # fmt: skip


def _options(node: Node) -> dict:
    return {k: constant_key(_shape(v)) for k, v in node.kwargs.items()}


def _shape(args: object) -> object:
    return map_values(lambda v: "value", args)


def _same(a: Graph, b: Graph) -> bool:
    """Whether two regions compute the same from their inputs."""
    if len(a.inputs) != len(b.inputs) or len(a.nodes) != len(b.nodes):
        return False
    env = dict(zip(a.inputs, b.inputs))
    for m, n in zip(a.nodes, b.nodes):
        if not alike(m, n) or any(env.get(v) is not w for v, w in zip(m.inputs, n.inputs)):
            return False
        env.update(zip(m.outputs, n.outputs))
    return len(a.outputs) == len(b.outputs) and all(env.get(v) is w for v, w in zip(a.outputs, b.outputs))  # fmt: skip
