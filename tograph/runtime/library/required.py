"""What a run makes of a tensor's ``requires_grad``, where the path that it takes decides whether the tensor has a history.

A graph is recorded with gradients on, and a tensor behind a staged construct has a history there if it has one on any path.
"""

from __future__ import annotations

from typing import Any

from ..control_flow.picking import Picked
from ..gradients import grad_fields
from ..gradients.optional_grads import Way
from ..graph.ir import Value
from ..graph.types import BOOL, INT
from ..guarding import reads
from ..symbols.funcgraph import current_graph
from ..symbols.journal import MISSING
from ..symbols.scalars import scalar
from ..symbols.symbolic import SymTensor
from ..values.structure import TaggedUnion
from ..writes import iterations, mutation
from . import grads, leaf_writes

# What these are of a tensor that was computed while gradients were off.
COMPUTED = {"requires_grad": False, "is_leaf": True, "grad_fn": None}


def required(x: SymTensor) -> Way:
    """In which runs ``x``, which has a history on some path, requires a gradient."""
    if x.is_leaf and not isinstance(x.storage_, Picked):
        return True
    return grads.WAYS([x], grads.leaves([x]))[0]


def told(x: Any, name: str, value: Any) -> Any:
    """The attribute ``name`` of what may be a tensor with a history, of which torch says that it is ``value``; MISSING where that is all."""
    if type(x) is not SymTensor:
        return MISSING
    if x.grad_fn is not None:
        return of_computed(x, name, value)
    return MISSING if x.requires_grad else _of_plain(x, name)


def _of_plain(x: SymTensor, name: str) -> Any:
    """The same of a tensor that has no history here, but may have been computed of leaves that regions made; a staged bool where a run decides it."""
    way = grads.OWN(x) if name != "grad_fn" else False
    if way is False or not reads.grad_mode():
        return MISSING
    if name == "is_leaf":
        way = _either(_not(way), grads.OWN_LEAF(x))
    return way if isinstance(way, bool) else scalar(way, current_graph())


def _not(way: Way) -> Way:
    return not way if isinstance(way, bool) else current_graph().emit("py.not", way, type=BOOL)


def _either(a: Way, b: Way) -> Way:
    if isinstance(a, bool) or isinstance(b, bool):
        return True if a is True or b is True else (b if a is False else a)
    return current_graph().emit("py.or_", a, b, type=BOOL)


def is_leaf(x: SymTensor) -> Any:
    """Whether ``x``, which has a history here, is a leaf from before the construct that gives it, one that this made, or has none in a run; a staged bool where that decides it."""
    way = _leaf_way(x)
    return way if isinstance(way, bool) else scalar(way, current_graph())


def _leaf_way(x: Any) -> Way:
    graph = current_graph()
    if getattr(x, "mixed_", ""):
        return True
    stands = grad_fields.STANDS_FOR(x) if isinstance(x, SymTensor) else ()
    found: list[Way] = [_both(graph.resolve(flag), _leaf_way(y)) for y, flag in stands]
    made = grad_fields.IS_MADE(x) if isinstance(x, SymTensor) else False
    if made is not False:
        found.append(made if made is True else graph.resolve(made))
    way = required(x) if x.grad_fn is not None else True
    if way is False:
        return True
    if way is not True:
        found.append(graph.emit("py.not", way, type=BOOL))
    flags = [f for f in found if isinstance(f, Value)]
    if not flags or True in found:
        return True in found or iterations.is_leaf(x)
    leaf, *rest = flags
    for flag in rest:
        leaf = graph.emit("py.or_", leaf, flag, type=BOOL)
    return leaf


def _both(flag: Value, way: Way) -> Way:
    if isinstance(way, bool):
        return flag if way else False
    return current_graph().emit("py.and_", flag, way, type=BOOL)


def _unless(leaf: Any, value: Any) -> Any:
    """The history of a tensor: None where it is a leaf."""
    if isinstance(leaf, bool):
        return None if leaf else value
    graph = current_graph()
    tag = graph.emit("py.int", leaf.node.value(graph), type=INT)
    return TaggedUnion(scalar(tag, graph), [value, None])


def of_computed(x: SymTensor, name: str, value: Any) -> Any:
    """The attribute ``name`` of a tensor with a history, which torch says is ``value``; a staged bool where a run decides it."""
    if "real_" in x.__dict__:  # an argument that requires a gradient already
        return value
    if name == "requires_grad" and isinstance(x.storage_, Picked):
        reads.follow_grad_mode()  # it may be a leaf, which requires a gradient also where gradients are off
    elif not reads.grad_mode():
        return COMPUTED[name]
    if name == "is_leaf":
        return is_leaf(x)
    if name == "grad_fn":
        return _unless(is_leaf(x), value)
    if name != "requires_grad":
        return value
    way = required(x)
    return way if isinstance(way, bool) else scalar(way, current_graph())


mutation.REFUSE = leaf_writes.refuse
