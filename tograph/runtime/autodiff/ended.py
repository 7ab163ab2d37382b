"""Results of which the function itself took the gradient: there is no other.

In eager PyTorch such a result requires a gradient, and a second one raises. It is made a function of the inputs that it was computed of; which ones that
are in a run, where a path that it did not take leads to them (a loop without iterations), the graph tells as it does for other results (``routes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

from ..graph.ir import Graph, Value, all_nodes
from ..symbols.carrier import differentiable
from ..writes.freed import MESSAGE, is_freed
from .dependence import of_freed
from .nesting import flattened, nested
from .routes import Routes


class Ended:
    """Those of the results of ``graph``, with what a run tells of them: ``told``, further outputs of the graph that runs."""

    def __init__(self, graph: Graph):
        self.graph, self.told = graph, list[Value]()
        self.places = [i for i, v in enumerate(graph.outputs) if is_freed(v) and differentiable(v.type)]  # fmt: skip
        self._routes: Routes | None = None

    @cached_property
    def _behind(self) -> dict[int, frozenset[int]]:
        return of_freed(self.graph)

    def tell(self, running: Graph, wrt: Sequence[int]) -> None:
        """Make ``running``, which gives what the graph does, tell by which of the inputs ``wrt`` its results come about.

        Not where a write gives a variable another history: what is read of it then has that.
        """
        if not self.places or any(n.op == "tg.assign" and n.grad for n in all_nodes(running)):
            return
        self._routes = Routes(running, self.places, wrt)
        self.told = self._routes.told

    def refusing(self, outputs: list[Any], inputs: dict[int, Any], told: Sequence[bool]) -> list[Any]:  # fmt: skip
        """The outputs of a call with these results as functions of those of ``inputs``, all that require a gradient, that they were computed of."""
        made: dict[Value, Any] = {}
        for k, i in enumerate(self.places):
            value = self.graph.outputs[i]
            if value not in made:
                behind = self._inputs(k, i, told)
                made[value] = _refusing(outputs[i], [x for j, x in inputs.items() if j in behind])
            outputs[i] = made[value]
        return outputs

    def _inputs(self, k: int, place: int, told: Sequence[bool]) -> frozenset[int]:
        if self._routes is None:
            return self._behind[place]
        return self._routes.history_of([k], tuple(told))


def _refusing(result: Any, inputs: Sequence[Any]) -> Any:
    found = flattened(inputs)[0]
    if not found:
        return result
    leaves, shape = flattened([result])
    return nested([_Ended.apply(x, *found) for x in leaves], shape)[0]


class _Ended(torch.autograd.Function):
    """A result of which the function has taken the gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        return x.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(MESSAGE)
