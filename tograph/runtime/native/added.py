"""A matrix product and the matrix that is added to it are one node, whose result is written once.

``x + a @ b`` becomes ``addmm(x, a, b)``, which rounds as the two do: the micro-kernels add what is added to the whole sum. Products
that do not need each other stay apart from each other, because they run together (``joined``): ``x`` must not need a product that
``a`` and ``b`` do not need. Where a pointwise op uses the sum, its loop nest adds for nothing, and ``x`` need not be in memory for it.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter

from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import copied
from ..graph.uses import use_counts
from . import joined
from .groups import POINTWISE

_ADD, _PRODUCT = "aten.add.Tensor", "aten.mm.default"


def added(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which such additions are part of the product."""
    if not _wanted(graph):
        return graph
    made = copied(graph)
    _rewrite(made)
    return made


def _wanted(graph: Graph) -> bool:
    """Whether there is one."""
    ops = {n.op for n in graph.nodes}
    return {_ADD, _PRODUCT} <= ops or any(_wanted(r) for n in graph.nodes for r in n.regions.values())  # fmt: skip


def _rewrite(graph: Graph) -> None:
    for node in graph.nodes:
        for region in node.regions.values():
            _rewrite(region)
    uses = use_counts(graph)
    nested = {v for n in graph.nodes if n.op in POINTWISE for v in n.inputs}
    needs: dict[Value, int] = {}  # a bit for each product that a value is computed from
    gone: set[Node] = set()
    bit = 1
    for node in graph.nodes:
        product = None if nested.intersection(node.outputs) else _product(node, uses, needs)
        if product is not None:
            gone.add(product)
            x = node.args[node.args[0] is product.outputs[0]]
            node.op, node.args = "aten.addmm.default", (x, *product.args)
        found = functools.reduce(operator.or_, (needs.get(v, 0) for v in node.inputs), 0)
        if joined.fits(node):
            found, bit = found | bit, bit << 1
        needs.update(dict.fromkeys(node.outputs, found))
    graph.nodes = [n for n in graph.nodes if n not in gone]


def _product(node: Node, uses: Counter[Value], needs: dict[Value, int]) -> Node | None:
    """The product that a node adds a matrix to, and that is not used otherwise."""
    if node.op != _ADD or node.kwargs or len(node.args) != 2:
        return None
    for v, x in (node.args, node.args[::-1]):
        if not isinstance(v, Value) or not isinstance(x, Value) or v.node is None or x is v:
            continue
        alone = v.node.op == _PRODUCT and uses[v] == 1 and joined.fits(v.node)
        own = functools.reduce(operator.or_, (needs.get(a, 0) for a in v.node.inputs), 0)
        if alone and x.type == v.type and not needs.get(x, 0) & ~own:
            return v.node
    return None
