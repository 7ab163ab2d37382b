"""Derivatives that torch does not have: eager PyTorch raises where a gradient comes to such an op, not where the op is called.

Torch says so when a node of its autograd runs, not which one. Where recording a gradient fails for that reason the graph is replayed once more,
``searching``: then each op's node is asked for cotangents of zeros, what that records is taken out again, and the results of those that refuse
are put in the care of ``_Missing``, whose gradient is an error of the run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from ...errors import Location, TographError
from ..symbols.funcgraph import current_graph
from ..symbols.symbolic import same
from .objects import value_in, zeros_like

_TEXT = re.compile(r"derivative for .* is not implemented|no autograd formula was registered")


def is_missing(error: Exception) -> bool:
    """Whether torch raised since it has no formula for a derivative."""
    return not isinstance(error, TographError) and bool(_TEXT.search(str(error)))


def refuse(error: str, outputs: list[Any], lost: Sequence[int], wrt: Sequence[Any]) -> None:
    """Put tensors whose derivative is an error in the place of outputs."""
    for i in lost:
        outputs[i] = _put(NotImplementedError(error), None, outputs[i], wrt)


def found(outputs: Sequence[Any], args: Sequence[Any], location: Location | None) -> Sequence[Any]:
    """What an op gave for ``args``, as tensors whose derivative is an error if torch has none."""
    error = _error_of([x for x in outputs if _has_history(x)])
    if error is None:
        return outputs
    wrt = [x for x in _tensors(args) if x.requires_grad]
    return [_put(error, location, x, wrt) if _has_history(x) else x for x in outputs]


def _put(error: Exception, location: Location | None, x: Any, wrt: Sequence[Any]) -> Any:
    """``x`` with the error for a history. It is no ``detach`` of it, which would say that it requires no gradient."""
    with torch.no_grad():
        x = same(x)
    return _Missing.apply(error, location, x, *wrt)


def _error_of(outputs: Sequence[Any]) -> Exception | None:
    """The error of the node that these results of one op have in common."""
    if not outputs or not isinstance(outputs[0], torch.Tensor):
        return None
    node, nodes = outputs[0].grad_fn, current_graph().graph.nodes
    mark = len(nodes)
    places = {x.output_nr: x for x in outputs}
    run = node if callable(node) else node.apply  # of an op that Python code has registered
    try:
        with torch.no_grad():
            run(*(zeros_like(places[i]) if i in places else None for i in range(max(places) + 1)))
    except RuntimeError as error:  # NotImplementedError is one
        return error if is_missing(error) else None
    finally:
        del nodes[mark:]
    return None


def _has_history(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.grad_fn is not None


def _tensors(args: Any) -> list[torch.Tensor]:
    if isinstance(args, (list, tuple)):
        return [x for a in args for x in _tensors(a)]
    return [args] if isinstance(args, torch.Tensor) else []


class _Missing(torch.autograd.Function):
    """A tensor whose derivative torch does not have: the graph raises where it is needed."""

    @staticmethod
    def forward(ctx: Any, error: Exception, location: Location | None, x: Any, *inputs: Any) -> Any:
        ctx.error, ctx.location, ctx.inputs = error, location, inputs
        return same(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        graph = current_graph()
        mark = len(graph.graph.nodes)
        # false, and computed of the cotangent: where that is absent, so is the failure
        never = value_in(torch.zeros_like(grad, dtype=torch.bool).flatten().any(), graph)
        graph.add("tg.assert", (never, type(ctx.error).__name__, (str(ctx.error),)))
        for node in graph.graph.nodes[mark:] if ctx.location is not None else ():
            node.location = ctx.location
        return None, None, None, *(zeros_like(x) for x in ctx.inputs)
