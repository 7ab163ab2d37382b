"""Dropout as what it keeps, and products.

What is kept is drawn by a kernel of its own, which waits for nothing, so that those of several dropouts are one. The products are parts of kernels with
what stands around them. They round as torch's kernels do: once, in what elements of the type are computed in.
"""

from __future__ import annotations

import torch

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.rewrite import replaced
from ..graph.types import DTYPE_NAMES, TensorType, is_static
from ..kernels import triton_random
from ..kernels.triton_ops import SIGNATURE
from .draws import REAL


def apart(graph: Graph) -> Graph:
    """Change dropout in a graph, and in those inside of it, to what it keeps, which waits for nothing, and products, which are parts of kernels."""
    moved: dict[Node, Node] = {}

    def change(node: Node, nodes: list[Node]) -> list[Value] | None:
        if node.op == "aten.native_dropout.default" and _drops(node):
            x, p = node.args[:2]
            kind = TensorType(torch.bool, x.type.shape, x.type.device)
            args = (p, x.type.dtype, list(x.type.shape), torch.device(x.type.device))
            moved[node] = made = Node("tg.kept", args, {}, [kind], location=node.location)
            made.control_inputs = node.control_inputs
            nodes.append(made)
            keep = triton_random.rounded(1.0 - p, triton_random.wider(SIGNATURE[DTYPE_NAMES[x.type.dtype]]))  # fmt: skip
            return [_scaled(node, x, made.outputs[0], 1.0 / keep, nodes), made.outputs[0]]
        if node.op == "aten.native_dropout_backward.default" and isinstance(node.args[2], float):
            grad, kept, scale = node.args
            return [_scaled(node, grad, kept, scale, nodes)]
        return None

    replaced(graph, change)
    for node in all_nodes(graph) if moved else ():
        node.control_inputs = [moved.get(n, n) for n in node.control_inputs]
    return graph


def _drops(node: Node) -> bool:
    x, p, *train = node.args
    known = is_static(x.type)
    return known and x.type.dtype in REAL and train != [False] and isinstance(p, float) and 0 < p < 1  # fmt: skip


def _scaled(node: Node, x: Value, kept: Value, scale: float, nodes: list[Node]) -> Value:
    for factor in (kept, scale):
        nodes.append(Node("aten.mul.Tensor", (x, factor), {}, [x.type], location=node.location))
        (x,) = nodes[-1].outputs
    return x
