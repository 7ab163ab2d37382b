"""The strides that eager PyTorch's results have: a plan computes in memory in a row, whatever the strides of its inputs.

``x.permute(1, 0, 2) * 2`` lies as ``x`` does, and a convolution of an image with its channels last gives one. So the metas of a graph's values are
followed from those of a call's inputs, by the rules that a trace has. A loop's results are as an iteration leaves its state. Where branches give
different strides, of items of lists, and of sizes that only the run knows nothing is known: such results lie in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value, map_values
from ..graph.rewrite import carried, lead
from ..graph.types import ScalarType, TensorType
from ..inference.shapes import Meta, contiguous
from ..kernels.loop_ir import Unsupported
from ..kernels.lower import metas_of

Strides = tuple[int, ...]
ROUNDS = 3  # of a loop's body, until its state has the strides of the iteration before
SAME = frozenset(["tg.read", "tg.identity"])  # give what they are given


def strides_of(graph: Graph, inputs: Sequence[Any]) -> list[Strides | None]:
    """For each output of a graph its strides, of a call with such inputs; None where nothing is known, for elements that share memory, and what is no tensor."""
    walk = _Walk()
    for v, x in zip(graph.inputs, inputs, strict=True):
        if isinstance(x, torch.Tensor) and isinstance(v.type, TensorType):
            walk.metas[v] = Meta(x.dtype, tuple(x.shape), x.stride(), 0, x.device)
    return [None if m is None or _overlaps(m) else m.stride for m in walk.graph(graph)]


def alike(x: torch.Tensor, stride: Strides | None) -> bool:
    """Whether a tensor's elements lie as by these strides, those of dims of one element aside."""
    return stride is None or all(n == 1 or s == t for n, s, t in zip(x.shape, stride, x.stride()))


def _overlaps(m: Meta) -> bool:
    """Whether elements may share memory, as those of an expanded tensor do."""
    end = 1
    for s, n in sorted((s, n) for s, n in zip(m.stride, m.size) if n != 1):
        if s < end:
            return True
        end = s * (n - 1) + end
    return False


class _Walk:
    """``metas``: what is known of values."""

    def __init__(self) -> None:
        self.metas: dict[Value, Meta] = {}

    def graph(self, graph: Graph) -> list[Meta | None]:
        for node in graph.nodes:
            if any(isinstance(v.type, TensorType) for v in node.outputs):
                for v, found in zip(node.outputs, self._node(node)):
                    self._know(v, found)
        return [self.metas.get(v) for v in graph.outputs]

    def _know(self, v: Value, found: Meta | None) -> None:
        kind = v.type
        if not isinstance(kind, TensorType) or kind.shape is None or None in kind.shape:
            return
        if found is None or found.size != kind.shape:
            found = contiguous(kind.dtype, kind.shape, torch.device(kind.device))
        self.metas[v] = found

    def _node(self, node: Node) -> Sequence[Meta | None]:
        none = [None] * len(node.outputs)
        if node.op == "While":
            return self._while(node)
        if node.op in ALTERNATIVES:
            found = [self._inside(g, node.args[lead(node) :]) for g in node.regions.values()]
            return [a if all(a == b for b in rest) else None for a, *rest in zip(*found)]
        if node.op in SAME:
            return [self.metas.get(node.args[0])]
        if node.regions or not node.op.startswith(("aten.", "tg.constant")):
            return none
        try:
            made = metas_of(node, map_values(self._of, node.args), map_values(self._of, node.kwargs))  # fmt: skip
        # An op that nothing is known of, numbers that only the run knows.
        except (_Unknown, Unsupported, RuntimeError, TypeError, ValueError, IndexError):
            return none
        return made if len(made) == len(node.outputs) else none

    def _of(self, v: Value) -> Any:
        if isinstance(v.type, ScalarType):
            return v.type.kind(1)
        if v not in self.metas:
            raise _Unknown
        return self.metas[v]

    def _inside(self, graph: Graph, given: Sequence[Any]) -> list[Meta | None]:
        for v, a in zip(graph.inputs, given):
            self._know(v, self.metas.get(a) if isinstance(a, Value) else a)
        return self.graph(graph)

    def _while(self, node: Node) -> Sequence[Meta | None]:
        count, body = carried(node), node.regions["body"]
        rest = list(node.args[count:])
        state: list[Any] = [self.metas.get(a) for a in node.args[:count]]
        for _ in range(ROUNDS):
            before, state = state, self._inside(body, [*state, *rest])
            if state == before:
                break
        return state


class _Unknown(Exception):
    """A value of which nothing is known."""
