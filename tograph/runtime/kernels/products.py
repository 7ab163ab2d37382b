"""Matrix products as folds, for sizes that are known only at run time; products of known sizes have kernels of their own.

``PRODUCTS[op](builder, node, index)`` gives an element. ``SHARED[op]``: for each of the two matrices its argument's place, and
the dim that the fold runs over.
"""

from __future__ import annotations

from collections.abc import Callable

from ..graph.ir import Node
from .elements import Elements
from .exprs import Term
from .loop_ir import Unsupported
from .views import Index, broadcast

Product = Callable[[Elements, Node, Index], Term]
SHARED = {"aten.mm.default": ((0, -1), (1, -2)), "aten.bmm.default": ((0, -1), (1, -2)), "aten.mv.default": ((0, -1), (1, -1)),
          "aten.dot.default": ((0, -1), (1, -1)), "aten.addmm.default": ((1, -1), (2, -2)),
          "aten.baddbmm.default": ((1, -1), (2, -2))}  # fmt: skip


def _product(b: Elements, node: Node, index: Index) -> Term:
    if node.kwargs or b.dtype(node.outputs[0]) not in ("f32", "f64"):
        raise Unsupported(f"{node.op} with factors, or of this dtype")
    (left, own), (right, _) = SHARED[node.op]
    x, y = node.args[left], node.args[right]
    (k,) = b.row_index([b.size(x)[own]])
    columns = len(b.size(y)) > 1
    lead = index[: len(b.size(x)) - 1]
    term = b.at(x, (*lead, k)) * b.at(y, (*index[:-2], k, index[-1]) if columns else (k,))
    total = term if b.row == () else b.maker.reduce("sum", term)
    if left:
        total = total + b.at(node.args[0], broadcast(index, b.size(node.args[0])))
    return total


PRODUCTS: dict[str, Product] = dict.fromkeys(SHARED, _product)
