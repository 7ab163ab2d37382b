"""Tensors of the caller that a graph writes while gradients are on: after a call they have the history of what was written last.

In eager PyTorch an in-place op gives its tensor a history. The graph writes the content alone; ``Rewrites`` has the graph
with the last value of every such tensor as one more output, and a call gives the tensor the history of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..graph.ir import Graph, Value
from ..graph.ops import REGION_OPS
from ..graph.ordering import set_control_inputs
from ..graph.rewrite import copied
from ..passes.lift_writes import lifted
from ..writes.mutation import LEAF_WRITTEN
from .dependence import Dependence, dependences


class Rewrites:
    """``places``: the inputs that are written; ``depends``: the inputs that each of the new contents depends on."""

    def __init__(self, graph: Graph):
        self.graph = made = copied(lifted(graph))
        seen = {n.args[0] for n in made.nodes if n.op == "tg.assign" and n.grad}
        last: dict[Value, Value] = {
            n.args[0]: n.args[1] for n in made.nodes if n.op == "tg.assign" and n.args[0] in seen
        }
        index = {v: i for i, v in enumerate(made.inputs)}
        self.places = [index[v] for v in last if v in index]
        values = [last[made.inputs[i]] for i in self.places]
        # ``x.data``, and perhaps what a region writes, is a write that autograd does not see.
        self.sure = [v.node is None or v.node.op not in (*REGION_OPS, "tg.written") for v in values]
        self.count = len(made.outputs)
        made.outputs = [*made.outputs, *values]
        set_control_inputs(made)
        self.depends: list[Dependence] = dependences(made)[self.count :]

    def changed(self, inputs: Sequence[Any]) -> list[int]:
        """Which of ``places`` a call gives another history; RuntimeError for a leaf, as in eager PyTorch."""
        found = []
        for k, (i, depends) in enumerate(zip(self.places, self.depends)):
            x = inputs[i]
            if x.requires_grad and x.is_leaf:
                if self.sure[k]:
                    raise RuntimeError(LEAF_WRITTEN)
            elif x.requires_grad or any(inputs[j].requires_grad for j in depends):
                found.append(k)
        return found

    def settle(
        self, outputs: list[Any], inputs: Sequence[Any], changed: Sequence[int]
    ) -> list[Any]:
        """The outputs of the graph as it was, when the tensors have the history of their content."""
        for k in changed:
            give_history(inputs[self.places[k]], outputs[self.count + k])
        return outputs[: self.count]


def give_history(x: torch.Tensor, source: torch.Tensor) -> None:
    """Make ``x``, whose content is that of ``source`` already, a function of it."""
    _Written.apply(x, source)


class _Written(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, grads[0]
