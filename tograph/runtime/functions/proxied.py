"""Calls under the modes of ``torch.export`` and ``make_fx``, which record ops and know no content of tensors.

Model. The function is traced with the modes put aside, by a ``Function`` of its own: what it captures may be tensors of those modes, which
no later call may meet. Its graph then runs as a ``torch.fx`` module (``interchange.fx``) on the tensors of the call, so that the modes see
``torch.cond`` and ``torch.while_loop`` where Python would ask for a condition. Under ``FakeTensorMode`` alone nobody looks at these, and the function
is plain Python.

Sizes that a mode keeps open (``SymInt``) are known to the run only; numbers among the results are asked for by ``item()``, as in plain code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from ...errors import InterchangeError
from ..gradients.wrapped import has_tangent
from ..graph.ir import Graph, all_nodes
from ..graph.types import ScalarType, TensorType
from ..interchange.fx import SYSTEM
from ..recording.outer_tracers import proxied, put_aside
from ..values.arguments import Flat
from ..values.specs import TensorSpec
from .rebinding import without_traces

if TYPE_CHECKING:
    from .function import Function


def call(function: Function, args: tuple, kwargs: dict) -> Any:
    """The result of a call, of which the modes see the ops. InterchangeError, at the user's line, for what torch.fx does not have."""
    if not proxied():
        return function.python_function(*args, **kwargs)
    with put_aside():
        apart = without_traces(function, function.python_function)
        given = Flat()
        apart._key(apart._bound(args, kwargs), given)
        args, kwargs = pytree.tree_map_only(torch.Tensor, _spec, (args, kwargs))
        trace, _, bound = apart._find(args, kwargs)
        concrete = trace.concrete
        _check(concrete.graph.outputs)
        _check_tangents(concrete.graph, (*given.tensors, *concrete.captured_inputs))
        module = concrete.to_fx()
        places, objects = trace.places(bound), trace.objects(bound)
    outputs = module(*trace.inputs(given))
    numbers = [isinstance(v.type, ScalarType) for v in concrete.graph.outputs]
    outputs = [x.item() if number else x for x, number in zip(outputs, numbers)]
    return concrete.finished(outputs, places, objects)


def _spec(x: torch.Tensor) -> Any:
    """The tensor, or what is known of one with open sizes."""
    if all(type(n) is int for n in x.shape):
        return x
    return TensorSpec([n if type(n) is int else None for n in x.shape], x.dtype, device=x.device)


def _check_tangents(graph: Graph, tensors: Iterable[Any]) -> None:
    """Branches and loops of torch have no rule for tangents: results would have none."""
    inner = next((n for n in all_nodes(graph) if n.regions), None)
    if inner is not None and any(isinstance(x, torch.Tensor) and has_tangent(x) for x in tensors):
        raise InterchangeError(SYSTEM, "the tangents of a staged branch or loop", inner.location)


def _check(outputs: Any) -> None:
    for v in outputs:
        if not isinstance(v.type, (TensorType, ScalarType)):
            at = v.node.location if v.node is not None else None
            advice = "Give one tensor of it, as by torch.stack."
            raise InterchangeError(SYSTEM, f"a result of a call that is {v.type}", at, advice)
