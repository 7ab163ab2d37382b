"""Graphs with tensors on a GPU and on the CPU: what is on the CPU goes along.

Such tensors are small as a rule: counters, limits, rates that somebody made without a device. They are copied to the device before
a run, and what the caller gets on the CPU is brought back after it, so that no op in a loop waits for the other side. Large ones
may only go to the device (``x.to(device)``, ``uploads``) or come from it as results. A
graph that computes with much data on the CPU, or random numbers of the CPU's generator, stays with the host program. What the host prints, or calls
Python functions with, it sees where it belongs (``tg.on_cpu``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..graph.ir import Graph, Node, Value, all_nodes, all_values, map_values
from ..graph.ordering import node_effects
from ..graph.types import OBJECT, ListType, OptionalType, TensorType, Type
from ..kernels.device import gpu_of
from ..kernels.loop_ir import Unsupported
from .resume import HOST_OPS
from .retarget import retarget

MOST = 1 << 20  # bytes of a tensor that the CPU is to compute with
MOVES = frozenset(["aten._to_copy.default"])


def gathered(graph: Graph) -> tuple[Graph, str, frozenset[int]]:
    """(the graph with all tensors on its GPU, that GPU, the numbers of the outputs that belong on the CPU)."""
    values = list(all_values(graph))
    found = sorted({t.device for v in values for t in tensors(v.type)})
    gpu = gpu_of(values)
    if not gpu or not {*found} <= {gpu, "cpu"}:
        raise Unsupported(f"tensors on {' and '.join(found) or 'no device'}: a plan is for one GPU")
    if found == [gpu]:
        return graph, gpu, frozenset()
    for node in all_nodes(graph):
        _check(node)
    back = frozenset(i for i, v in enumerate(graph.outputs) if on_cpu(v))
    if any(not isinstance(graph.outputs[i].type, TensorType) for i in back):
        raise Unsupported("lists of tensors on the CPU beside tensors on a GPU")
    moved = retarget(graph, gpu)
    _seen_there(graph, moved)
    return moved, gpu, back


def _seen_there(graph: Graph, moved: Graph) -> None:
    """Have what the host does see tensors of the CPU on the CPU. ``moved``: the graph with all on the GPU, which changes."""
    nodes: list[Node] = []
    for old, new in zip(graph.nodes, moved.nodes, strict=True):
        for name, region in old.regions.items():
            _seen_there(region, new.regions[name])
        if old.op in HOST_OPS:
            nodes += _on_cpu(new, [w for v, w in zip(old.inputs, new.inputs, strict=True) if on_cpu(v)])  # fmt: skip
        nodes.append(new)
    moved.nodes[:] = nodes


def _on_cpu(node: Node, values: Sequence[Value]) -> list[Node]:
    """Nodes that give what is behind these values on the CPU; the node takes that from now on."""
    made = {v: Node("tg.on_cpu", (v,), {}, [OBJECT], location=node.location) for v in dict.fromkeys(values)}  # fmt: skip

    def given(v: Value) -> Value:
        return made[v].outputs[0] if v in made else v

    node.args, node.kwargs = map_values(given, node.args), map_values(given, node.kwargs)
    return list(made.values())


def _check(node: Node) -> None:
    """Unsupported for what has to stay on the CPU."""
    here = [v for v in (*node.inputs, *node.outputs) if on_cpu(v)]
    if node.op in HOST_OPS and not all(isinstance(v.type, TensorType) for v in here):
        raise Unsupported(f"{node.op} of tensors on the CPU beside tensors on a GPU")
    if here and not node.regions and node_effects(node).random:
        raise Unsupported(f"{node.op} on the CPU beside tensors on a GPU")
    if node.op in MOVES:  # what else takes the tensor is asked for itself
        return
    for v in here:
        for kind in tensors(v.type):
            size = math.prod(n or MOST for n in kind.shape) if kind.shape is not None else MOST
            if size * kind.dtype.itemsize > MOST:
                raise Unsupported(f"{kind} beside tensors on a GPU: much to copy")


def on_cpu(v: Value) -> bool:
    return any(t.device == "cpu" for t in tensors(v.type))


def tensors(kind: Type) -> Iterator[TensorType]:
    """The types of the tensors in a value."""
    if isinstance(kind, TensorType):
        yield kind
    elif isinstance(kind, (ListType, OptionalType)) and kind.element is not None:
        yield from tensors(kind.element)
