"""Which results of a call share parts of their gradients: each group of them has a node of torch's autograd of its own.

In eager PyTorch the histories of two results meet in the ops that both depend on. Where nothing was saved there (``+``, views, sums) one
gradient can be taken after the other; where something was saved, the first frees it for the second. So the outputs of
a call are parted into **shares**: two of them are in one where an op of the backward graph that reads a saved value, or joins cotangents by
more than an addition, gets cotangents of both. A share's backward graph is the whole one with the other cotangents left
out, which is linear in them: what depends on those only is zero, and an addition of such a zero is its other operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..graph.ir import Graph, Node, Value
from ..graph.ordering import prune, set_control_inputs
from ..graph.rewrite import copy_node
from .vjp import Pullback

MOST = 8  # shares of a call; with more of them all outputs are one
_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Share:
    """``given`` and ``present`` are positions among those of the pullback, ``stored`` among its kept inputs and saved values.

    ``backward``: the stored values and the cotangents of the share -> its gradients. ``saves``: a gradient frees what is stored.
    """

    given: list[int]
    stored: list[int]
    present: list[int]
    backward: Graph
    saves: bool


def shares(pullback: Pullback) -> list[Share]:
    """The shares of a graph's outputs, in the order of their first ones."""
    graph, count = pullback.backward, len(pullback.given)
    first = len(graph.inputs) - count
    depends: dict[Value, frozenset[int]] = {}
    parts: dict[int, list[int]] = {}
    if 1 < count <= 8 * MOST:
        depends, group = _dependences(graph, graph.inputs[first:])
        for i in range(count):
            parts.setdefault(_root(group, i), []).append(i)
    if not 1 < len(parts) <= MOST:
        return [
            Share(
                list(range(count)),
                list(range(first)),
                list(range(len(pullback.present))),
                graph,
                bool(pullback.saves),
            )
        ]
    return [
        _share(graph, first, part, depends, any(pullback.given[i] in pullback.saves for i in part))
        for part in parts.values()
    ]


def _dependences(
    graph: Graph, cotangents: Sequence[Value]
) -> tuple[dict[Value, frozenset[int]], list[int]]:
    """The cotangents that each value depends on, and for each cotangent one that it belongs together with."""
    depends = {v: frozenset([i]) for i, v in enumerate(cotangents)}
    group = list(range(len(cotangents)))
    for node in graph.nodes:
        having = [v for v in dict.fromkeys(node.inputs) if depends.get(v)]
        found = _NONE.union(*(depends[v] for v in having))
        joins = len(having) > 1 and not _adds(node)
        if found and (joins or len(having) < len(set(node.inputs))):
            for i in found:
                group[_root(group, i)] = _root(group, min(found))
        depends.update(dict.fromkeys(node.outputs, found))
    return depends, group


def _adds(node: Node) -> bool:
    """Whether a node is the sum of two values of its own type."""
    if node.op != "aten.add.Tensor" or node.kwargs or len(node.inputs) != 2:
        return False
    return all(v.type == node.outputs[0].type for v in node.inputs)


def _root(group: list[int], i: int) -> int:
    while group[i] != i:
        i = group[i]
    return i


def _share(
    graph: Graph,
    first: int,
    part: list[int],
    depends: dict[Value, frozenset[int]],
    saves: bool,
) -> Share:
    own = frozenset(part)

    def zero(v: Value) -> bool:
        return bool(depends.get(v)) and own.isdisjoint(depends[v])

    made = Graph(graph.name)
    env = {v: Value(v.type) for v in graph.inputs}
    for node in graph.nodes:
        left = [v for v in node.inputs if not zero(v)]
        if all(map(zero, node.outputs if node.outputs else node.inputs)):
            continue  # what is asked of other cotangents is asked in their share
        if len(left) < len(node.inputs):
            env[node.outputs[0]] = env[left[0]]
        else:
            made.nodes.append(copy_node(node, env))
    present = [k for k, v in enumerate(graph.outputs) if depends.get(v) and not zero(v)]
    made.outputs = [env[graph.outputs[k]] for k in present]
    prune(made)
    used = {v for n in made.nodes for v in n.inputs} | set(made.outputs)
    stored = [i for i in range(first) if env[graph.inputs[i]] in used]
    made.inputs = [env[graph.inputs[i]] for i in [*stored, *(first + i for i in part)]]
    made.input_names = [""] * len(made.inputs)
    set_control_inputs(made)
    return Share(part, stored, present, made, saves)
