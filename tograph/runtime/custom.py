"""Gradients that users write: ``tg.custom_gradient`` and ``torch.autograd.Function`` inside a function.

In the graph such a value is a ``Call`` with two regions: ``function`` gives the value, which was computed before, as it is;
``gradient`` takes the arguments and the cotangents of the values and gives the cotangents of the arguments at the
positions ``wrt``. It is a graph like any other, so it runs without the user's source and is differentiated again.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import GradientError
from . import control_flow, flattening, optional_grads, reads
from .carrier import differentiable
from .funcgraph import FuncGraph, Storage, current_graph, is_tracing, user_location
from .infer import meta_of, tensor_type
from .ir import Graph, Node, Value
from .misuse import check_callable
from .symbolic import SymTensor, as_symbolic, value_of


def with_gradient(
    values: Sequence[torch.Tensor], args: Sequence[Any], gradient: Callable[..., Any]
) -> list[torch.Tensor]:
    """``values`` as functions of the tensors among ``args``, whose gradients ``gradient(*cotangents)`` gives, one for each argument."""
    graph = current_graph()
    plain = [value_of(v.detach(), graph) for v in values]
    if not torch.is_grad_enabled():
        return [flattening.symbolic(v, graph) for v in plain]
    wrt = [i for i, a in enumerate(args) if _differentiable(a)]
    inputs = [value_of(args[i], graph) for i in wrt]
    region = gradient_region(plain, gradient, args, wrt)
    node = call_of(plain, inputs, region.graph, "custom_gradient")
    return [flattening.symbolic(v, graph) for v in node.outputs]


def call_of(
    values: list[Value], inputs: list[Value], gradient: FuncGraph, name: str, **kwargs: Any
) -> Node:
    """Record a ``Call`` that gives ``values``, as functions of ``inputs`` whose gradients a traced graph tells."""
    captured = list(gradient.arguments.values())
    function = Graph("function")
    function.inputs = [Value(v.type) for v in (*values, *inputs, *captured)]
    function.input_names = [""] * len(function.inputs)
    function.outputs = function.inputs[: len(values)]
    backward = gradient.graph
    own = backward.inputs[: len(values)]
    given = [Value(v.type) for v in (*values, *inputs)]
    backward.inputs = [*given, *backward.inputs[len(values) :], *own]
    backward.input_names = [""] * len(backward.inputs)
    wrt = tuple(range(len(values), len(given)))
    return current_graph().add(
        "Call",
        (*values, *inputs, *captured),
        {"name": name, "wrt": wrt, **kwargs},
        [v.type for v in values],
        regions={"function": function, "gradient": backward},
    )


def _type(x: torch.Tensor) -> Any:
    return tensor_type(x.meta if isinstance(x, SymTensor) else meta_of(x))


def gradient_region(
    values: list[Value], gradient: Callable[..., Any], args: Sequence[Any], wrt: list[int]
) -> Any:
    """The traced gradient: cotangents, then captures -> a cotangent for each argument of ``wrt``."""
    cotangents: list[Any] = []

    def before(graph: FuncGraph) -> None:
        cotangents.extend(flattening.symbolic(graph.input(v.type), graph) for v in values)

    def run() -> list[Any]:
        found = gradient(*cotangents)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        found = _for_arguments(found, len(args), wrt)
        return [_checked(found[i], args[i]) for i in wrt]

    region = control_flow.trace_region("gradient", run, before, stage_errors=False)
    if region.changed:
        names = ", ".join(f"'{p.name}'" for p, _ in region.changed.values())
        raise GradientError(
            f"a gradient function or hook changes {names}, which is known outside of it: in a graph it only computes. Return what "
            "is needed, or use tg.py_function for the effect.",
            user_location(),
        )
    outputs = [value_of(x, region.graph) for x in region.result]
    control_flow.close(region.graph, list(region.graph.arguments), outputs, len(values))
    return region


def _for_arguments(found: list[Any], count: int, wrt: Sequence[int]) -> list[Any]:
    """A gradient for each of ``count`` arguments, from one for each of them or for each at ``wrt``."""
    if len(found) == count:
        return found
    if len(found) != len(wrt):
        raise GradientError(
            f"the gradient function returned {len(found)} gradients for {count} arguments",
            user_location(),
        )
    rows = dict(zip(wrt, found))
    return [rows.get(i) for i in range(count)]


def _differentiable(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and differentiable(_type(x))


def _checked(g: Any, x: torch.Tensor) -> torch.Tensor:
    """A cotangent of the shape and dtype of its argument, summed where it was expanded, as torch does; None is zeros."""
    if g is None:
        return torch.zeros_like(x.detach())
    if not isinstance(g, torch.Tensor):
        g = torch.as_tensor(g, dtype=x.dtype)
    if tuple(g.shape) != tuple(x.shape) and _expands(x.shape, g.shape):
        g = g.sum_to_size(x.shape)
    if tuple(g.shape) != tuple(x.shape):
        raise GradientError(
            f"the gradient function returned a gradient of shape {tuple(g.shape)} for an argument of shape {tuple(x.shape)}",
            user_location(),
        )
    return as_symbolic(g.to(x.dtype))


def _expands(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a tensor of known shape can be expanded to another known one."""
    if any(type(n) is not int for n in (*shape, *to)) or len(shape) > len(to):
        return False
    return all(n in (1, m) for n, m in zip(reversed(shape), reversed(to)))


class _Custom(torch.autograd.Function):
    """The same outside of a function."""

    @staticmethod
    def forward(
        ctx: Any, gradient: Callable[..., Any], values: Sequence[torch.Tensor], *args: Any
    ) -> Any:
        ctx.gradient, ctx.count = gradient, len(args)
        ctx.wrt = [i for i, a in enumerate(args) if _differentiable(a)]
        return tuple(v.detach() for v in values)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        found = ctx.gradient(*cotangents)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        return None, None, *_for_arguments(found, ctx.count, ctx.wrt)


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with a gradient of its own: ``function(*args)`` returns ``(value, gradient)``.

    ``gradient`` takes a cotangent for each tensor of ``value`` and returns one for each argument (None for those that have
    none). Where it uses intermediates of ``function`` it can be differentiated again.

    Example::

        @tg.custom_gradient
        def log1pexp(x):
            e = torch.exp(x)
            return torch.log1p(e), lambda d: d * (1 - 1 / (1 + e))
    """

    check_callable(function, "custom_gradient", "function")

    @functools.wraps(function)
    def run(*args: Any) -> Any:
        return apply(function, args)

    return run


def CONVERT(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as traced code calls it. Set by the layer above, which rewrites functions."""
    return function


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, rewritten wherever its calls are traced."""

    def run(*args: Any) -> Any:
        return (CONVERT(function) if is_tracing() else function)(*args)

    return run


def apply(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """``function(*args)`` with the gradient that it returns."""
    with torch.enable_grad():
        made = called(function)(*args)
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[1])):
        raise GradientError(
            "a function with tg.custom_gradient returns (value, gradient function), not "
            f"a {type(made).__name__}: write `return value, grad`",
            user_location(),
        )
    value, gradient = made
    several = isinstance(value, (tuple, list))
    values = list(value) if several else [value]
    attach = with_gradient if is_tracing() else _eager
    outs = attach(values, args, gradient)
    return type(value)(outs) if several else outs[0]


def _eager(
    values: Sequence[torch.Tensor], args: Sequence[Any], gradient: Callable[..., Any]
) -> list[torch.Tensor]:
    return list(_Custom.apply(gradient, values, *args))


class _Gradients(threading.local):
    def __init__(self) -> None:
        self.of: list[Any] = []


_gradients = (
    _Gradients()
)  # the functions whose gradients are being traced, each inside of the one before
ORDERS = 2  # how deep, where a function's gradient uses the function itself
_TOO_HIGH = "'{}.backward' uses the function itself; of such a function a graph has gradients of the first and second order only"


class Context:
    """What ``forward`` and ``backward`` of a ``torch.autograd.Function`` get as ``ctx`` while tracing."""

    def __init__(self, args: Sequence[Any]):
        self.args_ = args
        self.saved_tensors: tuple[Any, ...] = ()
        self.fixed: tuple[Any, ...] = ()
        self.dirty: tuple[Any, ...] = ()

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
        """Nothing: cotangents are always there."""


def apply_function(cls: Any, args: Sequence[Any], call: Callable[..., Any]) -> Any:
    """``cls.apply(*args)`` while tracing; ``call`` runs user code."""
    ctx = Context(args)
    new_style = cls.setup_context is not torch.autograd.Function.setup_context
    before = [_as_it_is(a) for a in args] if _writes(cls) else args
    with torch.no_grad():
        value = call(cls.forward, *args) if new_style else call(cls.forward, ctx, *args)
        if new_style:
            call(cls.setup_context, ctx, tuple(args), value)
    several = isinstance(value, (tuple, list))
    values = list(value) if several else [value]
    chosen = [
        i
        for i, v in enumerate(values)
        if isinstance(v, torch.Tensor)
        and differentiable(_type(v))
        and not any(v is f for f in ctx.fixed)
    ]

    def gradient(*cotangents: Any) -> Any:
        rows = dict(zip(chosen, cotangents))
        every = [rows[i] if i in rows else _zeros(v) for i, v in enumerate(values)]
        return _backward(cls, ctx, every, call, len(args))

    _check_dirty(ctx.dirty, values)
    for i, made in zip(chosen, with_gradient([values[i] for i in chosen], before, gradient)):
        if any(values[i] is x for x in ctx.dirty):
            values[i].copy_(made)
        else:
            values[i] = made
    return tuple(values) if several else values[0]


def _backward(cls: Any, ctx: Context, cotangents: list[Any], call: Callable[..., Any], count: int) -> Any:  # fmt: skip
    """The cotangents of the arguments, by the user's ``backward``, which may use the function itself up to some order."""
    if _gradients.of.count(cls) == ORDERS:
        optional_grads.check(False, "tg.GradientError", _TOO_HIGH.format(cls.__name__))
        return [None] * count
    _gradients.of.append(cls)
    try:
        return call(cls.backward, ctx, *cotangents)
    finally:
        _gradients.of.pop()


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


def _needs_gradient(x: torch.Tensor) -> bool:
    """Whether a gradient may be asked of it: not of what is made of constants and of tensors that require none."""
    if not differentiable(_type(x)):
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
            inputs = () if value.node.op == "aten.detach.default" else value.node.inputs
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
