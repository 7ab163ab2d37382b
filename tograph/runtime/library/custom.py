"""Gradients that users write: ``tg.custom_gradient``, and what ``autograd_functions`` has in common with it.

In the graph such a value is a ``Call`` with two regions: ``function`` gives the value, which was computed before, as it is;
``gradient`` takes the arguments and the cotangents of the values and gives the cotangents of the arguments at the
positions ``wrt``. It is a graph like any other, so it runs without the user's source and is differentiated again. With ``told`` it takes for
each cotangent a bool beside it, whether there is one: where not, the user's function gets None. ``none``: pairs of a
value and a position in ``wrt`` that its cotangent gives nothing to: where that holds for all cotangents that are there, the user's function gives None, and ``gradient`` zeros. ``saved``: what eager PyTorch keeps until the
gradient frees it, and may not be written meanwhile, an argument ``i`` as ``i`` and a value as ``~i``. With ``results`` the first inputs of
``gradient``, the values, are what it uses of the results of the call: functions of the arguments, where it is differentiated again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from ...errors import GradientError, TographError
from .. import control_flow
from ..gradients.optional_grads import check, optional
from ..graph.ir import Graph, Node, Value
from ..graph.types import BOOL
from ..inference.infer import meta_of, tensor_type
from ..inference.shapes import SYMBOLS
from ..symbols.carrier import differentiable
from ..symbols.funcgraph import FuncGraph, current_graph, is_tracing, user_location
from ..symbols.misuse import check_callable
from ..symbols.retrace import Retrace
from ..symbols.scalars import scalar
from ..symbols.symbolic import SymTensor, as_symbolic, value_of
from ..values import flattening
from ..writes import saving


def with_gradient(
    values: Sequence[torch.Tensor],
    args: Sequence[Any],
    gradient: Callable[..., Any],
    told: bool = False,
    kept: Sequence[Any] = (),
    results: Results | None = None,
    tangents: bool = False,
    asked: Callable[[Sequence[Any]], bool] = lambda args: True,
) -> list[torch.Tensor]:
    """``values`` as functions of the tensors among ``args``, whose gradients ``gradient(*cotangents)`` gives, one for each argument.

    Where ``gradient`` raises, so does a run that asks for the gradient, and no other one. What it cannot do in a graph is an error
    at once if the gradient of ``args`` may be ``asked``.

    ``told``: a cotangent that is not there is None, not zeros. ``kept``: the tensors that are saved for ``gradient``.
    ``results`` gets what stands for the values in it. ``tangents``: forward mode takes the gradient too.
    """
    graph = current_graph()
    plain = [value_of(v.detach(), graph) for v in values]
    if not torch.is_grad_enabled():
        return [flattening.symbolic(v, graph) for v in plain]
    wrt = [i for i, a in enumerate(args) if is_differentiable(a)]
    inputs = [value_of(args[i], graph) for i in wrt]
    told = told and len(values) > 1
    none = set[tuple[int, int]]()
    try:
        region = gradient_region(plain, gradient, args, wrt, told, results, none)
    except TographError as error:
        if asked(args):
            raise
        region = gradient_region(plain, partial(_refused, error, len(args)), args, wrt, told, results)  # fmt: skip
    kwargs: dict[str, Any] = {"results": True} if results is not None else {}
    kwargs |= {"none": tuple(sorted(none))} if none else {}
    kwargs |= {"jvp": True} if tangents else {}
    node = call_of(plain, inputs, region.graph, "custom_gradient", told=told, **kwargs)
    outs = [flattening.symbolic(v, graph) for v in node.outputs]
    _keep(node, outs, [next((o for v, o in zip(values, outs) if v is x), x) for x in kept], graph)
    return outs


Results = Callable[..., None]
_TOLD = 4  # of more cotangents than that each is one thing or the other: there would be too many choices of them


def _keep(node: Node, outs: list[torch.Tensor], kept: Sequence[Any], graph: FuncGraph) -> None:
    """Note which tensors are saved."""
    places = {v: i for i, v in enumerate(node.args)} | {v: ~i for i, v in enumerate(node.outputs)}
    found = [(places.get(value_of(x, graph)), x) for x in kept if isinstance(x, torch.Tensor)]
    node.kwargs["saved"] = tuple(i for i, _ in found if i is not None)
    saving.keep(outs, [x for i, x in found if i is not None])


def call_of(
    values: list[Value],
    inputs: list[Value],
    gradient: FuncGraph,
    name: str,
    told: bool = False,
    **kwargs: Any,
) -> Node:
    """Record a ``Call`` that gives ``values``, as functions of ``inputs`` whose gradients a traced graph tells."""
    if told:
        kwargs["told"] = True
    lead = len(values) * (2 if told else 1)
    captured = list(gradient.arguments.values())
    function = Graph("function")
    function.inputs = [Value(v.type) for v in (*values, *inputs, *captured)]
    function.input_names = [""] * len(function.inputs)
    function.outputs = function.inputs[: len(values)]
    backward = gradient.graph
    own, rest = backward.inputs[:lead], backward.inputs[lead:]
    known = len(values) if kwargs.get("results") else 0
    given = [*rest[:known], *(Value(v.type) for v in (*values, *inputs)[known:])]
    backward.inputs = [*given, *rest[known:], *own]
    backward.input_names = [""] * len(backward.inputs)
    wrt = tuple(range(len(values), len(given)))
    return current_graph().add(
        "Call",
        (*values, *inputs, *captured),
        {"name": name, "wrt": wrt, **kwargs},
        [v.type for v in values],
        regions={"function": function, "gradient": backward},
    )


def _nothing(given: dict[tuple[bool, ...], set[int]], count: int) -> Iterator[tuple[int, int]]:
    """Which cotangents give nothing to which of ``count`` arguments, from those that have a gradient for each choice of cotangents."""
    for k in range(count):
        having = {there for there, some in given.items() if k in some}
        places = range(max(map(len, given), default=0))
        alone = {j for j in places if any(there[j] and sum(there) == 1 for there in having)}
        apart = all((there in having) is any(there[j] for j in alone) for there in given)
        if apart or not having:
            yield from ((j, k) for j in places if j not in alone)


def _rows(found: Any, count: int, wrt: Sequence[int]) -> list[Any]:
    """What a gradient function returned, as a gradient for each of ``count`` arguments."""
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    return _for_arguments(found, count, wrt)


def gradient_region(
    values: list[Value],
    gradient: Callable[..., Any],
    args: Sequence[Any],
    wrt: list[int],
    told: bool = False,
    results: Results | None = None,
    none: set[tuple[int, int]] | None = None,
) -> Any:
    """The traced gradient: cotangents, whether they are there if it is ``told``, ``values`` if it uses ``results``, then captures -> a cotangent for
    each argument of ``wrt``. ``none`` gets what gives None."""
    cotangents, there = list[Any](), list[Any]()

    def before(graph: FuncGraph) -> None:
        cotangents.extend(flattening.symbolic(graph.input(v.type), graph) for v in values)
        there.extend(scalar(graph.input(BOOL), graph) for v in values if told)
        if results is not None:
            results(*(_saved(flattening.symbolic(graph.input(v.type), graph)) for v in values))

    given: dict[tuple[bool, ...], set[int]] = {}

    def run(*rows: Any) -> list[Any]:
        some = given.setdefault(tuple(x is not None for x in rows), set())
        return RESOLVED(partial(checked, some), gradient(*rows))

    def checked(some: set[int], found: Any) -> list[Any]:
        found = _rows(found, len(args), wrt)
        some.update(k for k, i in enumerate(wrt) if found[i] is not None)
        return [RESOLVED(_checked, found[i], args[i]) for i in wrt]

    def whole() -> list[Any]:
        given.clear()
        found, raised = control_flow.attempted(told_apart)
        if raised:  # whatever it is given
            given[(True,) * len(cotangents)] = set(range(len(wrt)))
            return [_checked(None, args[i]) for i in wrt]
        return found

    def told_apart() -> list[Any]:
        if told and len(values) > _TOLD:
            graph = current_graph()
            return run(*(optional(g, flag.node.value(graph)) for g, flag in zip(cotangents, there)))
        return _as_told(run, there, cotangents) if told else run(*cotangents)

    region = _computing(whole, before)
    outputs = [value_of(x, region.graph) for x in region.result]
    if none is not None:
        none.update(_nothing(given, len(wrt)))
    own = len(cotangents) + len(there) + (0 if results is None else len(values))
    control_flow.close(region.graph, list(region.graph.arguments), outputs, own)
    return region


def _saved(x: Any) -> Any:
    """A result as the gradient function sees it, which runs only where results require a gradient."""
    return torch.Tensor.requires_grad_(x) if is_differentiable(x) else x


def _computing(function: Callable[[], Any], before: Callable[[FuncGraph], None]) -> Any:
    """The region of a gradient; GradientError where it does more than compute."""
    try:
        # It runs when the call is over: what the function has changed is committed, and it has put back what it changes itself.
        with current_graph().root.unwatched():
            region = control_flow.trace_region("gradient", function, before, stage_errors=False)
    except Retrace as found:
        if not (found.grown or found.stood or found.opened):
            raise
        # a staged branch in it, as by whether a cotangent is there, changes what is known outside of the function
        raise _changes("an object from outside of the function") from None
    # what it has put back (an attribute that is another one for a while) is as it was
    changed = [p for p, left in region.changed.values() if not control_flow.unmoved(p.get(), left)]
    if changed:
        raise _changes(", ".join(f"'{p.name}'" for p in changed))
    return region


def _refused(error: TographError, count: int, *cotangents: Any) -> list[Any]:
    """In the place of a gradient function that cannot be part of a graph."""
    check(False, "tg.GradientError", error.message if error.location is None else f"{error}")
    return [None] * count


def _changes(what: str) -> GradientError:
    return GradientError(
        f"a gradient function or hook changes {what}, which is known outside of it: in a graph it only computes. Return what "
        "is needed, or use tg.py_function for the effect.",
        user_location(),
    )


def _as_told(
    run: Callable[..., Any], there: Sequence[Any], cotangents: Sequence[Any], *rows: Any
) -> Any:
    """What ``run`` gives for the cotangents, after ``rows``, that a run has, and None for the others: one of all is there."""
    k = len(rows)
    if k == len(there):
        return run(*rows)
    having = partial(_as_told, run, there, cotangents, *rows, cotangents[k])
    if k == len(there) - 1 and all(x is None for x in rows):
        return having()
    none = partial(_as_told, run, there, cotangents, *rows, None)
    return control_flow.staged_if(there[k], having, none)


def _for_arguments(found: list[Any], count: int, wrt: Sequence[int]) -> list[Any]:
    """A gradient for each of ``count`` arguments, from one for each of them or for each at ``wrt``; more than that may be None."""
    while len(found) > count and found[-1] is None:
        found = found[:-1]
    if len(found) == count:
        return found
    if len(found) != len(wrt):
        raise GradientError(
            f"the gradient function returned {len(found)} gradients for {count} arguments",
            user_location(),
        )
    rows = dict(zip(wrt, found))
    return [rows.get(i) for i in range(count)]


def is_differentiable(x: Any) -> bool:
    """Whether it is a tensor that may have a gradient."""
    if not isinstance(x, torch.Tensor):
        return False
    return differentiable(tensor_type(x.meta if isinstance(x, SymTensor) else meta_of(x)))


def _checked(g: Any, x: torch.Tensor) -> torch.Tensor:
    """A cotangent of the shape and dtype of its argument, summed where it was expanded, as torch does; None is zeros."""
    if g is None:
        return torch.zeros_like(x.detach())
    if not isinstance(g, torch.Tensor):
        # A number for a scalar: where no cotangent is there, which no run asks, it is a sum that began with a number.
        if tuple(x.shape) or not isinstance(g, (int, float, complex, *SYMBOLS)):
            check(False, "RuntimeError", f"expected Variable or None (got {type(g).__name__})")
            return torch.zeros_like(x.detach())
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
        ctx.wrt = [i for i, a in enumerate(args) if is_differentiable(a)]
        return tuple(v.detach() for v in values)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return None, None, *_rows(ctx.gradient(*cotangents), ctx.count, ctx.wrt)


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


def RESOLVED(function: Callable[..., Any], *values: Any) -> Any:
    """``function(*values)``, where one of these may be one thing or another. Set by the layer above, which stages the choice."""
    return function(*values)


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
