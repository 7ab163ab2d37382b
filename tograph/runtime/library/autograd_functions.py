"""``torch.autograd.Function`` inside a function: its ``forward`` is traced as it is, its ``backward`` as a gradient of the user's own.

A function whose ``backward`` uses the function itself has gradients to the order ``ORDERS``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..gradients import optional_grads
from ..graph.ir import Value
from ..guarding import reads
from ..symbols.funcgraph import FuncGraph, Storage, current_graph, user_location
from ..symbols.symbolic import SymTensor, value_of
from ..values.growing import StagedList
from . import custom
from .custom import is_differentiable, with_gradient


class _Gradients(threading.local):
    def __init__(self) -> None:
        self.of: list[Any] = []


# The functions whose gradients are being traced, each inside of the one before.
_gradients = _Gradients()


# Methods of ``ctx``, and the attributes in which they keep what they get.
KEEPS = {"save_for_backward": "saved_tensors", "mark_non_differentiable": "fixed"}

ORDERS = 2  # how deep, where a function's gradient uses the function itself


_TOO_HIGH = "'{}.backward' uses the function itself; of such a function a graph has gradients of the first and second order only"


class Context:
    """What ``forward`` and ``backward`` of a ``torch.autograd.Function`` get as ``ctx`` while tracing."""

    def __init__(self, args: Sequence[Any]):
        self.args_ = args
        self.saved_tensors: tuple[Any, ...] = ()
        self.fixed: tuple[Any, ...] = ()
        self.dirty: tuple[Any, ...] = ()
        self.materialize = True

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """For each argument; what is asked of the function's own arguments is part of the trace's key."""
        reads.history()
        return tuple(isinstance(a, torch.Tensor) and _needs_gradient(a) for a in self.args_)

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Nothing: forward mode runs the function itself."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.fixed = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """The arguments that ``forward`` writes in place; it has to return them."""
        if any(not isinstance(x, SymTensor) or x.chain for x in tensors):
            raise GradientError(
                "an autograd.Function that writes a view, or a tensor from outside of the function, in place cannot be part of a graph",
                user_location(),
            )
        self.dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether zeros stand for the cotangents that are not there; otherwise they are None."""
        self.materialize = value


def apply_function(
    cls: Any, args: Sequence[Any], call: Callable[..., Any], each: Callable[..., Any]
) -> Any:
    """``cls.apply(*args)`` while tracing; ``call`` runs user code, and ``each`` a function for every kind of value that one of its arguments may be."""
    ctx = Context(args)
    new_style = cls.setup_context is not torch.autograd.Function.setup_context
    before = [_as_it_is(a) for a in args] if _writes(cls) else args
    with torch.no_grad():
        value = call(cls.forward, *args) if new_style else call(cls.forward, ctx, *args)
        if new_style:
            call(cls.setup_context, ctx, tuple(args), value)
    several = isinstance(value, (tuple, list))
    values = list(value) if several else [value]
    made = each(lambda *found: _connected(cls, ctx, args, before, list(found), call), *values)
    return tuple(made) if several else made[0]


def _connected(
    cls: Any, ctx: Context, args: Sequence[Any], before: Sequence[Any], values: list[Any], call: Callable[..., Any]
) -> list[Any]:  # fmt: skip
    """What ``forward`` gave, as functions of the arguments."""
    fixed = [any(v is f for f in ctx.fixed) for v in values]
    chosen = [i for i, v in enumerate(values) if is_differentiable(v) and not fixed[i]]

    def gradient(*cotangents: Any) -> Any:
        rows = dict(zip(chosen, cotangents))
        absent = _zeros if ctx.materialize else lambda v: None
        every = [rows[i] if i in rows else absent(v) for i, v in enumerate(values)]
        return _backward(cls, ctx, every, call, args)

    _check_dirty(ctx.dirty, values)
    if not chosen:
        return values  # nobody asks for a gradient
    outs = [values[i] for i in chosen]
    held = dict(vars(ctx))

    def results(*stands: Any) -> None:
        vars(ctx).update({k: _replaced(x, outs, stands) for k, x in held.items() if k != "args_"})

    tangents = cls.jvp is not torch.autograd.Function.jvp
    made_of = with_gradient(outs, before, gradient, not ctx.materialize, held["saved_tensors"], results, tangents, _asked)  # fmt: skip
    vars(ctx).update(held)
    for i, made in zip(chosen, made_of):
        if any(values[i] is x for x in ctx.dirty):
            values[i].copy_(made)
        else:
            values[i] = made
    return values


def _replaced(x: Any, old: Sequence[Any], new: Sequence[Any]) -> Any:
    """An object, or a list or tuple of them, with others in the place of some."""
    if isinstance(x, StagedList) and not x.plain:
        return x  # a list of the graph: its items are values, of which none is an object
    if type(x) in (list, tuple, StagedList):
        return type(x)(_replaced(v, old, new) for v in x)
    return next((n for o, n in zip(old, new) if o is x), x)


def _backward(cls: Any, ctx: Context, cotangents: list[Any], call: Callable[..., Any], args: Sequence[Any]) -> Any:  # fmt: skip
    """The cotangents of the arguments, by the user's ``backward``, which may use the function itself up to some order."""
    if _gradients.of.count(cls) == ORDERS:
        optional_grads.check(False, "tg.GradientError", _TOO_HIGH.format(cls.__name__))
        return list(map(_zeros, args))
    _gradients.of.append(cls)
    try:
        found = call(cls.backward, ctx, *cotangents)
        return custom.RESOLVED(lambda rows: _one_for_each(rows, cls, args), found)
    finally:
        _gradients.of.pop()


_WRONG_NUMBER = (
    "function {}Backward returned an incorrect number of gradients (expected {}, got {})"
)


def _one_for_each(found: Any, cls: Any, args: Sequence[Any]) -> list[Any]:
    """What ``backward`` returned as a gradient for each argument, or torch's error in a run that asks for one.

    A ``backward`` that nobody runs is free to return nothing: many do where ``ctx.needs_input_grad`` is all False.
    """
    rows, count = list(found) if isinstance(found, (tuple, list)) else [found], len(args)
    while len(rows) > count and rows[-1] is None:
        rows.pop()
    if len(rows) == count:
        return rows
    text = _WRONG_NUMBER.format(cls.__name__, count, len(rows))
    optional_grads.check(False, "RuntimeError", text)
    return list(map(_zeros, args))


def _writes(cls: Any) -> bool:
    """Whether a ``torch.autograd.Function`` may write its arguments in place."""
    codes = [getattr(f, "__code__", None) for f in (cls.forward, cls.setup_context)]
    return any("mark_dirty" in c.co_names for c in codes if c is not None)


def _as_it_is(x: Any) -> Any:
    """An argument as it is now, whatever is written to it."""
    return x.clone() if isinstance(x, SymTensor) else x


def _check_dirty(dirty: Sequence[Any], values: Sequence[Any]) -> None:
    """The errors of torch for arguments that are marked as written."""
    for x in dirty:
        if not any(x is v for v in values):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
                "modified inplace must all be outputs of the Function."
            )
        if x.is_leaf and x.requires_grad:
            raise RuntimeError(
                "a leaf Variable that requires grad has been used in an in-place operation."
            )


def _asked(args: Sequence[Any]) -> bool:
    """Whether a gradient may be asked of one of the arguments."""
    reads.history()
    return any(isinstance(a, torch.Tensor) and _needs_gradient(a) for a in args)


def _needs_gradient(x: torch.Tensor) -> bool:
    """Whether a gradient may be asked of it: not of what is made of constants and of tensors that require none."""
    if not is_differentiable(x):
        return False
    if x.requires_grad or not isinstance(x, SymTensor):
        return x.requires_grad or not _stays_constant(x)
    graph = current_graph()
    todo, seen = [(value_of(x, graph), graph)], set()
    while todo:
        value, graph = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        if len(seen) > _FAR:
            return True
        if value.node is not None:
            without = value.node.op == "aten.detach.default" or not value.node.grad
            inputs = () if without else value.node.inputs
            todo += [(v, graph) for v in inputs]
            continue
        owner = _owner(value, graph)
        if owner is not None and not isinstance(owner, Storage) and graph.outer is not None:
            todo.append((graph.arguments[owner], graph.outer))
        elif not (_plain_argument(owner) or _captured_constant(owner)):
            return True
    return False


_FAR = 100  # so many values are looked at


def _owner(value: Value, graph: FuncGraph) -> Any:
    """What an input of a graph stands for."""
    return next((k for k, v in graph.captures.items() if v is value), None)


def _plain_argument(owner: Any) -> bool:
    """Whether it is a tensor argument of the function, and requires no gradient in this call."""
    watch = reads.current()
    if not isinstance(owner, Storage) or owner.argument is None or watch is None:
        return False
    given = watch.given[owner.argument]
    return isinstance(given, torch.Tensor) and not given.requires_grad


def _captured_constant(owner: Any) -> bool:
    if not isinstance(owner, Storage) or owner.external is None or owner.late is not None:
        return False
    return _stays_constant(owner.external)


def _stays_constant(x: torch.Tensor) -> bool:
    """Whether a captured tensor requires no gradient; a guard sees to it that this stays so."""
    watch = reads.current()
    return watch is not None and not x.requires_grad and watch.constant(x)


def _zeros(v: Any) -> Any:
    return torch.zeros_like(v) if isinstance(v, torch.Tensor) else None
