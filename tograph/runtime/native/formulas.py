"""Writing the nodes that stand for one op, with its line and the type of its first operand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ordering import prune
from ..graph.rewrite import copied, replaced
from ..graph.types import TensorType, is_static


class Formula:
    """Writes nodes behind ``nodes`` in the place of ``node``, whose tensors have the type of ``x``."""

    def __init__(self, node: Node, x: Value, nodes: list[Node]):
        assert isinstance(x.type, TensorType)
        self.node, self.nodes, self.kind = node, nodes, x.type

    def do(self, op: str, *args: Any, shape: Sequence[int | None] | None = None, **kwargs: Any) -> Value:  # fmt: skip
        """The result of an op; of the largest shape among its operands where none is given."""
        if shape is None:
            kinds = [a.type for a in args if isinstance(a, Value)]
            shapes = [k.shape for k in kinds if isinstance(k, TensorType)]
            shape = max(shapes, key=lambda s: math.prod(n for n in s if n is not None))
        kind = TensorType(self.kind.dtype, tuple(shape), self.kind.device)
        return self._made(f"aten.{op}", args, kwargs, kind)

    def arranged(self, x: Value, like: Value) -> Value:
        """A tensor in the memory format of another one, as torch's kernels have it."""
        assert isinstance(x.type, TensorType)
        return self._made("tg.arranged", (x, like), {}, x.type)

    def view(self, x: Value, *shape: int) -> Value:
        return self.do("view.default", x, list(shape), shape=shape)

    def packed(self, x: Value) -> Value:
        """``x`` row by row: itself where it lies so."""
        assert isinstance(x.type, TensorType)
        return self._made(
            "aten.clone.default", (x,), {"memory_format": torch.contiguous_format}, x.type
        )

    def truth(self, op: str, *args: Any) -> Value:
        """What a comparison gives, for each element of its first operand."""
        kind = args[0].type
        return self._made(f"aten.{op}", args, {}, TensorType(torch.bool, kind.shape, kind.device))

    def fold(self, op: str, x: Value, dtype: torch.dtype, shape: Sequence[int | None], *args: Any) -> Value:  # fmt: skip
        """A fold of ``x`` whose results are of another dtype."""
        return self._made(f"aten.{op}", (x, *args), {}, TensorType(dtype, tuple(shape), self.kind.device))  # fmt: skip

    def chosen(self, test: Value, a: Any, b: Value) -> Value:
        """``a`` where a test holds, else ``b``; ``a`` may be a number."""
        assert isinstance(b.type, TensorType)
        if isinstance(a, Value):
            return self._made("aten.where.self", (test, a, b), {}, b.type)
        return self._made("aten.masked_fill.Scalar", (b, test, a), {}, b.type)

    def check(self, holds: Value, error: str, *args: Any) -> None:
        """Raise an error unless a test holds for all elements."""
        assert isinstance(holds.type, TensorType)
        all_hold = self._made("aten.all.default", (holds,), {}, TensorType(torch.bool, (), holds.type.device))  # fmt: skip
        self.nodes.append(Node("tg.assert", (all_hold, error, args), {}, [], location=self.node.location))  # fmt: skip

    def inverse_root(self, variance: Value, eps: float) -> Value:
        """``1 / sqrt(variance + eps)``"""
        root = self.do("sqrt.default", self.do("add.Tensor", variance, eps))
        return self.do("reciprocal.default", root)

    def _made(self, op: str, args: Any, kwargs: Any, kind: TensorType) -> Value:
        made = Node(op, args, kwargs, [kind], location=self.node.location, grad=self.node.grad)
        self.nodes.append(made)
        return made.outputs[0]


Write = Callable[[Node, list[Node]], Sequence[Any] | None]


def written(graph: Graph, formulas: Mapping[str, Write], fits: Callable[[Node], bool]) -> Graph:
    """``graph``, or a copy of it in which the ops of ``formulas`` that fit are made of others; a formula that gives None does not hold."""
    if not any(n.op in formulas for n in all_nodes(graph)):
        return graph

    def made(node: Node, nodes: list[Node]) -> Sequence[Any] | None:
        write = formulas.get(node.op)
        return write(node, nodes) if write is not None and fits(node) else None

    found = replaced(copied(graph), made)
    prune(found)  # of what an op gives besides
    return found


def of_one_type(node: Node) -> bool:
    """Whether all operands are tensors of one type, of 32 or 64 bits, with sizes that are known and elements."""
    kinds = [v.type for v in node.inputs]
    if not all(is_static(k) for k in kinds):
        return False
    dtypes = {k.dtype for k in kinds}
    return len(dtypes) == 1 and kinds[0].dtype.is_floating_point and kinds[0].dtype.itemsize >= 4 and 0 not in kinds[0].shape  # fmt: skip
