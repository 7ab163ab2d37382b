"""Writes in place that torch refuses: to a leaf that requires a gradient, where a staged construct decides whether a name is one that the code made.

Torch's own check sees what a tensor is while tracing. What a construct gives, and the state of a loop, has a history there in any case.
Leaves from outside are asked by ``picking``, since which tensors of a call are leaves is a guard.
"""

from __future__ import annotations

from typing import Any

from ..gradients import grad_fields
from ..gradients.optional_grads import Way
from ..graph.ir import Value
from ..graph.types import BOOL
from ..symbols.funcgraph import FuncGraph, current_graph
from ..symbols.symbolic import SymTensor
from ..writes import iterations, mutation
from . import grads


def refuse(target: Any) -> None:
    """Let the run raise where a write to ``target`` that autograd sees is one to a leaf of the code's, or to a view of one."""
    x = target if target._base is None else target._base
    if not isinstance(x, SymTensor) or (x.requires_grad and x.is_leaf):
        return
    graph = current_graph()
    if x.requires_grad:
        way = _leaf(x, graph)
    else:  # nothing else that it may be requires a gradient
        way = grads.OWN_LEAF(x) if graph.root.leaves or graph.root.left_leaves else False
    said = mutation.LEAF_WRITTEN if x is target else f"a view of {mutation.LEAF_WRITTEN}"
    if way is True and not iterations.is_state(x.grad_fn):
        raise RuntimeError(said)
    if way is not False:
        # What the state of a loop is a later trace of its body may know better.
        other = graph.emit("py.not", way, type=BOOL)
        graph.add("tg.assert", (other, "RuntimeError", (said,)))


def _leaf(x: Any, graph: FuncGraph) -> Way:
    """In which runs ``x`` is a leaf that the code made and that requires a gradient."""
    if not isinstance(x, SymTensor) or x.given_:
        return False
    if x.is_leaf or x.mixed_:
        return x.requires_grad
    state = iterations.is_state(x.grad_fn)
    if state and not x.grad_fn.earlier.body.differentiated:
        return False  # where that matters the body is traced again, see ``loop_histories``
    if state and x.grad_fn.told.leaf:
        way = x.grad_fn.earlier.requires(x.grad_fn)
        return way if isinstance(way, bool) else graph.resolve(way)
    stands = grad_fields.HELD(x) if state else grad_fields.STANDS_FOR(x)
    found = [_both(graph.resolve(flag), _leaf(y, graph), graph) for y, flag in stands]
    made = False if state else grad_fields.IS_MADE(x)
    found.append(made if isinstance(made, bool) else graph.resolve(made))
    if True in found:
        return True
    flags = [f for f in found if isinstance(f, Value)]
    for flag in flags[1:]:
        flags[0] = graph.emit("py.or_", flags[0], flag, type=BOOL)
    return flags[0] if flags else False


def _both(flag: Value, way: Way, graph: FuncGraph) -> Way:
    if isinstance(way, bool):
        return flag if way else False
    return graph.emit("py.and_", flag, way, type=BOOL)
