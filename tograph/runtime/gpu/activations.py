"""``relu`` behind a product with a bias, done by the product itself: torch has a library function for both.

So it is where the kernel would do nothing else. One that does more reads the product all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from ..graph.ir import Graph, Node, Value
from ..graph.types import TensorType
from ..graph.uses import use_counts
from ..kernels.build import Region

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def activated(graph: Graph, parts: Sequence[Node | Region]) -> list[Node | Region]:
    """The steps of a graph with such products."""
    uses = use_counts(graph)
    made: dict[Node, Node] = {}
    gone = set()
    for part in parts:
        product = _product(part, uses)
        if product is not None and product in parts:
            (relu,) = part.nodes
            made[product] = Node("aten._addmm_activation.default", product.args, {}, [relu.outputs[0].type], location=product.location)  # fmt: skip
            made[product].outputs = relu.outputs
            made[product].control_inputs = product.control_inputs
            gone.add(id(part))
    return [made.get(p, p) if isinstance(p, Node) else p for p in parts if id(p) not in gone]


def _product(part: Node | Region, uses: Counter[Value]) -> Node | None:
    """The product of which a step is the ``relu``, and nothing else."""
    if not isinstance(part, Region) or [n.op for n in part.nodes] != ["aten.relu.default"]:
        return None
    x = part.nodes[0].args[0]
    node = x.node
    if node is None or node.op != "aten.addmm.default" or node.kwargs or len(node.args) != 3 or uses[x] > 1:  # fmt: skip
        return None
    bias, out = node.args[0].type, x.type
    fits = isinstance(bias, TensorType) and isinstance(out, TensorType) and out.dtype in _DTYPES
    return node if fits and bias.shape == out.shape[1:] else None
