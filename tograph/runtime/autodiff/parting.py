"""A joint graph of forward and backward, cut in two.

The forward graph gives the outputs and the saved values; the backward graph takes some of the inputs, the saved values and the
cotangents. Which values are saved is the choice of ``cut``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..graph.ir import Graph, Node, Value, map_values, values_in
from ..graph.ops import overload
from ..graph.ordering import prune
from ..graph.rewrite import copy_node
from ..symbols.carrier import differentiable
from .cut import saved_values, size
from .graphs import append
from .joint import Joint
from .unsaved import TINY, copies, firm, large, savable


@dataclass
class Parts:
    """``forward``: inputs -> outputs + saved. ``backward``: inputs[kept] + saved + cotangents -> grads (``present``), and ``ways`` if asked for.

    ``loose``: those of ``kept`` that eager PyTorch has not saved, see ``unsaved``.
    """

    forward: Graph
    backward: Graph
    inputs: list[Value]
    kept: list[int]
    saved: list[Value]
    given: list[int]
    present: list[int]
    told: list[Any]
    saves: frozenset[int]
    ways: dict[int, Value] = field(default_factory=dict)
    filled: frozenset[int] = frozenset()
    unsure: tuple[int, ...] = ()
    loose: frozenset[int] = frozenset()


def part(
    joint: Joint,
    costly: Collection[int] = (),
    repeated: bool = False,
    ways: bool = False,
    readable: Collection[int] = (),
    outside: bool = False,
) -> Parts:
    """Cut a joint graph in two; the inputs ``costly`` count as values to save, the others are there anyway.

    ``repeated``: it is the body of a loop, so what is saved is saved for each trip. ``readable``: the inputs that the backward part is given as they
    were when the forward part read them. ``outside``: the inputs are tensors that may be written before the backward part runs: those that eager PyTorch would not
    have saved are not among what it takes (``unsaved``).
    """
    reads = _reads(joint, readable)
    free = [v for i, v in enumerate(joint.inputs) if i not in set(costly)]
    ends = [g for g in joint.grads if g is not None]
    told = joint.ways if ways else {}
    ends += told.values()
    wanted, firm = _needed(joint, ends)
    state = [joint.inputs[i] for i in costly]
    loose = [v for v in free if v not in firm]
    choose = partial(_chosen, joint.forward, [*free, *reads], state, wanted, repeated)
    found = savable(loose, wanted)
    saved, again = choose(found if outside else [])
    if not outside and (found := [v for v in found if large(v)]):
        instead = choose(found)
        if all(size(v) <= TINY for v in set(instead[0]).difference(saved)):
            saved, again = instead
    forward = Graph(joint.func.graph.name)
    forward.inputs, forward.nodes = list(joint.inputs), list(joint.forward)
    forward.input_names = [""] * len(joint.inputs)
    backward = _backward(joint, free, saved, again, ends, reads)
    saved = [_constant(v, forward) if _by_the_way(v, joint) else v for v in saved]
    if outside:
        saved = copies(forward, saved)
    forward.outputs = joint.outputs + saved
    kept = [i for i, v in enumerate(joint.inputs) if v in backward[1]]
    prune(forward)
    present = [k for k, g in enumerate(joint.grads) if g is not None]
    asked = dict(zip(told, backward[0].outputs[len(present) :]))
    apart = frozenset(i for i in kept if joint.inputs[i] in set(loose))
    return Parts(forward, backward[0], joint.inputs, kept, saved, joint.given, present, joint.told, joint.saves, asked, joint.filled, joint.unsure, apart)  # fmt: skip


def _chosen(
    forward: list[Node], free: list[Value], state: list[Value], wanted: list[Value], repeated: bool, loose: list[Value]
) -> tuple[list[Value], list[Node]]:  # fmt: skip
    """What is saved and what is computed again, where something is to be saved in place of ``loose``."""
    rest = [v for v in free if v not in set(loose)]
    return saved_values(forward, rest, [*state, *loose], wanted, repeated)


def _reads(joint: Joint, readable: Collection[int]) -> dict[Value, Value]:
    """What the forward part reads of inputs, by value."""
    inputs = {joint.inputs[i] for i in readable}
    nodes = [n for n in joint.forward if n.op == "tg.read" and n.args[0] in inputs]
    return {n.outputs[0]: n.args[0] for n in nodes if n.outputs[0].type == n.args[0].type}


def _by_the_way(value: Value, joint: Joint) -> bool:
    """Whether torch takes a saved value for a constant: an output of an op beside its result, such as the mean of a layer norm."""
    node = value.node
    if node is None or len(node.outputs) < 2 or not node.op.startswith("aten."):
        return False
    views = any(r.alias_info is not None for r in overload(node.op)._schema.returns)
    return not views and differentiable(value.type) and value not in joint.connected


def _constant(value: Value, graph: Graph) -> Value:
    return append(graph, "aten.detach.default", value, type=value.type)


def _needed(joint: Joint, ends: list[Value]) -> tuple[list[Value], set[Value]]:
    """The values of the forward part that the backward part reads, and those that eager PyTorch has saved, see ``unsaved.firm``."""
    own = {v for n in joint.backward for v in n.outputs} | set(joint.cotangents)
    live, seen = set(ends), dict.fromkeys(v for v in ends if v not in own)

    def runs(node: Node) -> bool:
        return node.op == "tg.assert" or any(v in live for v in node.outputs)

    for node in reversed(joint.backward):
        if runs(node):
            live.update(node.inputs)
    run = [node for node in joint.backward if runs(node)]
    for node in run:
        seen.update(dict.fromkeys(v for v in node.inputs if v not in own))
    return list(seen), firm(run, ends, joint.loose)


def _backward(
    joint: Joint,
    free: list[Value],
    saved: list[Value],
    again: list[Node],
    ends: list[Value],
    reads: dict[Value, Value],
):
    graph = Graph(joint.func.graph.name + "_backward")
    nodes = again + joint.backward
    made = {v for n in nodes for v in n.outputs}
    used = {v for n in nodes for v in values_in((n.args, n.kwargs))} | set(ends)
    used |= {reads[v] for v in used & reads.keys()}
    keep = [v for v in free if v in used and v not in made and v not in saved]
    env = {v: Value(v.type) for v in [*keep, *saved, *joint.cotangents]}
    graph.inputs = list(env.values())
    graph.input_names = [""] * len(graph.inputs)
    env |= {v: env[x] for v, x in reads.items() if x in env}
    for node in nodes:
        if all(v in env for v in values_in((node.args, node.kwargs))):
            graph.nodes.append(copy_node(node, env))
    graph.outputs = [map_values(env.__getitem__, g) for g in ends]
    prune(graph)
    left = {v for n in graph.nodes for v in n.inputs} | set(graph.outputs)
    unused = [v for v in keep if env[v] not in left]
    graph.inputs = [v for v in graph.inputs if v not in {env[u] for u in unused}]
    graph.input_names = [""] * len(graph.inputs)
    return graph, {v for v in keep if v not in set(unused)}
