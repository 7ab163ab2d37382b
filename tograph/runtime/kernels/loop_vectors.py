"""What is no pointwise op in a loop that is one kernel: products with a captured matrix, and items of a vector.

The vector lies across the lanes of the program, so an item of it is a fold in which the others count nothing. That is exact: of
the bits, as integers, all but one are 0. A vector made of items is a choice by position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.ir import Node, Value
from .loop_formulas import dtype_of, size_of
from .loop_ir import FLOATS, ITEM_SIZES, Unsupported
from .triton_ops import TYPES

MATRIX = 1 << 14  # elements of a matrix that one program holds


class Vectors:
    """Texts of such nodes. The class that writes the kernel has the names of values and lines."""

    node: Node
    form: str
    partial: bool
    n: int
    names: dict[Value, str]
    matrices: dict[Value, str]
    line: Callable[[str], None]
    fresh: Callable[[], str]
    is_vector: Callable[[Value], bool]

    # ---- products

    def _only_matrix(self, k: int) -> bool:
        inside = self.node.regions["body"].inputs[k]
        return any(n.op == "aten.mv.default" and n.args[0] is inside for n in self.node.regions["body"].nodes)  # fmt: skip

    def _matrix(self, name: str, k: int, a: Value) -> None:
        if a.type.shape != (self.n, self.n) or size_of(a) > MATRIX:
            raise Unsupported("a matrix that does not fit into a program")
        mask = ", mask[:, None] & mask[None, :], other=0" if self.partial else ""
        self.line(f"{name} = tl.load(p{k} + {self.n} * i[:, None] + i[None, :]{mask})")

    def _mv(self, node: Node) -> str:
        a, x = map(self.names.__getitem__, node.args)
        return f"tl.sum({a} * {x}[None, :], 1)"

    def _dot(self, node: Node) -> str:
        a, x = map(self.names.__getitem__, node.args)
        return f"tl.sum({a} * {x}, 0)"

    # ---- items

    def _item(self, node: Node) -> str:
        x, _, k = (*node.args, 0)[:3]
        dtype = dtype_of(x)
        if self.form == "blocks" or type(k) is not int or x.type.shape != (size_of(x),):
            raise Unsupported("an item of this tensor in a kernel's loop")
        if not self.is_vector(x):
            return self.names[x]
        if ITEM_SIZES[dtype] < 4:
            raise Unsupported(f"an item of a vector of {dtype} in a kernel's loop")
        bits = f"tl.int{8 * ITEM_SIZES[dtype]}"
        whole = self.names[x]
        if dtype in FLOATS:
            whole = f"{whole}.to({bits}, bitcast=True)"
        text = f"tl.sum(tl.where(i == {k % self.n}, {whole}, 0), 0)"
        return f"{text}.to({TYPES[dtype]}, bitcast=True)" if dtype in FLOATS else f"{text}.to({bits})"  # fmt: skip

    def _stack(self, node: Node) -> str:
        items, out = node.args[0], node.outputs[0]
        dtype, same = dtype_of(out), all(dtype_of(v) == dtype_of(out) for v in items)
        if self.form == "blocks" or out.type.shape != (len(items),) or not same:
            raise Unsupported("a stack of tensors in a kernel's loop")
        if len(items) == 1:
            return self.names[items[0]]
        name = self.fresh()
        self.line(f"{name} = tl.full([XBLOCK], {self.names[items[-1]]}, {TYPES[dtype]})")
        for k, v in reversed(list(enumerate(items[:-1]))):
            self.line(f"{name} = tl.where(i == {k}, {self.names[v]}, {name})")
        return name

    VECTORS: dict[str, Any] = {
        "aten.mv.default": _mv,
        "aten.dot.default": _dot,
        "aten.select.int": _item,
        "aten.stack.default": _stack,
    }
