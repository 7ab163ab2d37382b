"""What writes the nodes that stand for one of complex tensors.

A part, the real or the imaginary one, is a value of the graph, or a number that stands for a tensor of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import ScalarType, TensorType
from .values import Decline

Part = Any  # Value | float
Pair = tuple[Part, Part]
REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def is_complex(x: Any) -> bool:
    """Whether a value is a complex tensor."""
    return isinstance(x, Value) and isinstance(x.type, TensorType) and x.type.dtype in REAL


class Emit:
    """Writes nodes for one node of a graph, whose result has the shape and the device of ``kind``."""

    def __init__(self, nodes: list[Node], node: Node, pairs: Callable[[Any], Pair]):
        self.nodes, self.node, self.pairs = nodes, node, pairs
        self.kind = node.outputs[0].type
        self.dtype = REAL.get(getattr(self.kind, "dtype", None), getattr(self.kind, "dtype", None))

    def add(self, op: str, *args: Any, shape: Sequence[Any] | None = None, dtype: torch.dtype | None = None, options: Any = None) -> Value:  # fmt: skip
        """The result of an op; ``options``: its keywords."""
        kind = replace(self.kind, dtype=dtype or self.dtype, shape=tuple(self.kind.shape if shape is None else shape))  # fmt: skip
        made = Node(op, args, options, [kind], location=self.node.location, grad=self.node.grad)
        self.nodes.append(made)
        return made.outputs[0]

    def number(self, x: Any, dtype: torch.dtype | None = None, shape: Sequence[Any] = ()) -> Value:
        """A number as a tensor."""
        if None in shape:
            raise Decline("a constant complex tensor of a size that only the run knows")
        options = {"dtype": dtype or self.dtype, "device": torch.device(self.kind.device)}
        return self.add(
            "aten.full.default", list(shape), x, shape=shape, dtype=dtype, options=options
        )

    def tensor(self, x: Part) -> Value:
        """A part as a tensor, a number as one without dims."""
        return self.number(x) if is_number(x) else x

    def whole(self, x: Part, kind: TensorType) -> Value:
        """A part as a tensor of the shape of a complex one."""
        return self.number(x, REAL[kind.dtype], kind.shape) if is_number(x) else x

    def binary(self, op: str, a: Part, b: Part) -> Part:
        """``+``, ``-``, ``*`` or ``/`` of two parts."""
        if not isinstance(a, Value) and not isinstance(b, Value) and op in _NUMBERS:
            return _NUMBERS[op](a, b)
        if is_number(a) and op in ("add", "mul"):
            a, b = b, a
        a = self.tensor(a)
        return self.add(f"aten.{op}.Tensor", a, b, shape=broadcast(a, b))

    def of(self, op: str, x: Part) -> Value:
        """A function of one part."""
        x = self.tensor(x)
        return self.add(f"aten.{op}.default", x, shape=x.type.shape)

    def where(self, test: Value, a: Value, b: Value) -> Value:
        """``a`` where a test holds, else ``b``."""
        return self.add("aten.where.self", test, a, b, shape=broadcast(test, a, b))

    def test(self, op: str, a: Value, b: Any) -> Value:
        """A comparison."""
        return self.add(f"aten.{op}", a, b, shape=broadcast(a, b), dtype=torch.bool)

    def cast(self, x: Part) -> Part:
        """A part in the dtype of the result."""
        if is_number(x) or x.type.dtype == self.dtype:
            return x
        return self.add(
            "aten._to_copy.default", x, shape=x.type.shape, options={"dtype": self.dtype}
        )

    def spread(self, x: Part) -> Part:
        """A part in the shape of the result."""
        if is_number(x) or tuple(x.type.shape) == tuple(self.kind.shape):
            return x
        if None in self.kind.shape:
            raise Decline("a part of a complex tensor of another size, which only the run knows")
        return self.add("aten.expand.default", x, list(self.kind.shape))

    def given(self, i: int) -> Pair:
        re, im = self.pairs(self.node.args[i])
        return self.cast(re), self.cast(im)


_NUMBERS: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}


def is_number(x: Any) -> bool:
    return not isinstance(x, Value) or isinstance(x.type, ScalarType)


def broadcast(*xs: Any) -> tuple:
    shapes = [x.type.shape for x in xs if isinstance(x, Value) and isinstance(x.type, TensorType)]
    if any(None in shape for shape in shapes):
        return tuple(map(_common, *(_filled_up(shape, max(map(len, shapes))) for shape in shapes)))
    return tuple(torch.broadcast_shapes(*shapes))


def _filled_up(shape: Sequence[Any], dims: int) -> tuple:
    return (1,) * (dims - len(shape)) + tuple(shape)


def _common(*sizes: int | None) -> int | None:
    """The size that some are broadcast to; None for one that only the run knows."""
    known = [n for n in sizes if n is not None and n != 1]
    return known[0] if known else None if None in sizes else 1
