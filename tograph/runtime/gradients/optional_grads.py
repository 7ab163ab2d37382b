"""Gradients that a run may not have: eager PyTorch has None where no path that was taken leads to a tensor.

A **way** is True, or a bool of the graph that says whether a gradient is there. Such a gradient is a union of None and the tensor, which is
zeros where it is not there. A trace that cannot do with a union begins again (``Root.gathered``) and takes the paths to be taken:
the graph checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import BOOL, INT
from ..symbols.funcgraph import FuncGraph, current_graph, user_location
from ..symbols.scalars import scalar
from ..symbols.symbolic import as_symbolic
from ..values import facts, flattening
from ..values.structure import TaggedUnion

Way = bool | Value
Either = Callable[[Any, Callable[[], Any], Callable[[], Any]], Any]  # as of ``outer_gradients``
_TAKEN = (
    "there is no gradient for a tensor in this call, because the paths that it took do not lead to it: it is None. What follows uses "
    "it in a way that was traced for tensors. Test the gradient with an `if` of its own, `if p.grad is not None`."
)
UNUSED = "The differentiated Tensor at index {} appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."
UNREACHED = "element 0 of tensors does not require grad and does not have a grad_fn"


def optional(g: Any, way: Way) -> Any:
    """A gradient as what it is in a run: a tensor or None."""
    if isinstance(way, bool):
        return g if way else None
    graph = current_graph()
    graph.root.gathered = True
    if graph.root.iterated:
        check(way, "tg.NoGradientError", _TAKEN)
        return g
    return TaggedUnion(scalar(_tag(way, graph), graph), [None, g])


def _tag(way: Value, graph: FuncGraph) -> Value:
    """One tag for all gradients that are there together: a branch that knows of one knows of the others."""
    if ("way", way) not in graph.numbers:
        graph.numbers["way", way] = graph.emit("py.int", way, type=INT)
    return graph.numbers["way", way]


def check(way: Way, kind: str, text: str) -> Node | None:
    """An error of a run in which a gradient is not there: the node that raises it, if there may be such a run."""
    if way is False:
        way = current_graph().emit("py.constant", False, type=BOOL)
    if way is True:
        return None
    node = current_graph().add("tg.assert", (way, kind, (text,)))
    node.location = node.location or user_location()
    return node


def added(old: TaggedUnion, g: Any, way: Way, create: bool, either: Either) -> Any:
    """The sum of a gradient that may be None and another one: the old tensor, changed in place, where there is one, if it is not to be differentiated itself. ``either``: a staged ``if``."""
    graph = current_graph()
    if create:
        total = _chosen(old, [g if o is None else o + g for o in old.options_])
    else:
        with torch.no_grad():
            total = _changed(old, g, either)
    if way is True:
        return total
    some = facts.is_one_of(old, [i for i, o in enumerate(old.options_) if o is not None])
    return optional(total, graph.emit("py.or_", some.node.value(graph), way, type=BOOL))


def _chosen(old: TaggedUnion, totals: Sequence[Any]) -> Any:
    return flattening.choose(old.tag_, totals, current_graph())


def _changed(old: TaggedUnion, g: Any, either: Either) -> Any:
    """What gradient a tensor has behind a change in place of that which it had."""
    tensors = [o for o in old.options_ if o is not None]
    if len(tensors) == 1 and _is_own(tensors[0]):
        # Where it is not there nothing else shows it: it is the new one then.
        (one,) = tensors
        return one.copy_(_chosen(old, [g if o is None else o + g for o in old.options_]))
    return _of_options(old, list(range(len(old.options_))), g, either)


def _of_options(old: TaggedUnion, left: Sequence[int], g: Any, either: Either) -> Any:
    i, *rest = left

    def one() -> Any:
        return g if old.options_[i] is None else old.options_[i].add_(g)

    if not rest:
        return one()
    return either(facts.is_one_of(old, [i]), one, lambda: _of_options(old, rest, g, either))


def _is_own(x: Any) -> bool:
    """Whether a tensor is all of a memory that the trace has made."""
    storage = as_symbolic(x).storage_
    outside = storage.external is not None or storage.argument is not None
    return not (outside or storage.derived or as_symbolic(x).chain)
