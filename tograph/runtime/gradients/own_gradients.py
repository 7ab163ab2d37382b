"""A ``Call`` with a gradient of its own, while one of torch's transforms is open: ``autograd.Function``, ``tg.custom_gradient``, hooks.

Its tangents are what its gradient says: that is linear in the cotangents, so its derivative by these gives them (as ``jvp`` has it inside of a
function). Torch's error comes where the user's function has none. A hook has no part in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..graph.ir import Graph, Node

Run = Callable[[Graph, Sequence[Any]], list[Any]]
HOOK = "gradient_hook"  # the name of the calls that hooks are


def with_own_gradient(run: Run, node: Node, args: Sequence[Any]) -> Sequence[Any]:
    """The outputs of a call. ``run``: of its graphs."""
    forward = "jvp" in node.kwargs or node.kwargs.get("name") == HOOK
    return (_WithTangents if forward else _Custom).apply(run, node, *args)


class _Custom(torch.autograd.Function):
    """Forward mode has no tangents: torch says so."""

    generate_vmap_rule = True

    @staticmethod
    def forward(run: Run, node: Node, *args: Any) -> Any:
        outs = run(node.regions["function"], args)
        return tuple(x.view_as(x) if isinstance(x, torch.Tensor) else x for x in outs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        ctx.run, ctx.node, *args = inputs
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
        ctx.rest = [None if isinstance(a, torch.Tensor) else a for a in args]
        results = output if "results" in ctx.node.kwargs else ()
        ctx.save_for_backward(*(args[i] for i in ctx.places), *results)
        ctx.save_for_forward(*(args[i] for i in ctx.places), *results)
        ctx.set_materialize_grads("told" not in ctx.node.kwargs)
        ctx.likes = [(x.shape, x.dtype, x.device) for x in output]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if "refused" in ctx.node.kwargs:
            raise GradientError(ctx.node.kwargs["refused"], ctx.node.location)
        args = _arguments(ctx)
        found: list[Any] = [None] * len(args)
        none = ctx.node.kwargs.get("none", ())
        for k, (i, g) in enumerate(zip(ctx.node.kwargs["wrt"], _gradients(ctx, args, grads))):
            if any(x is not None and (j, k) not in none for j, x in enumerate(grads)):
                found[i] = g
        return None, None, *found


class _WithTangents(_Custom):
    """Of a user's function that has tangents, and of a hook. Torch drops tangents of views: results are copies."""

    @staticmethod
    def forward(run: Run, node: Node, *args: Any) -> Any:
        outs = run(node.regions["function"], args)
        return tuple(x.clone() if isinstance(x, torch.Tensor) else x for x in outs)

    @staticmethod
    def jvp(ctx: Any, _run: Any, _node: Any, *tangents: Any) -> Any:
        if ctx.node.kwargs["name"] == HOOK:
            return tuple(tangents[: len(ctx.likes)])
        args = _arguments(ctx)
        zeros = [_zeros(*like) for like in ctx.likes]
        given = ((tangents[i], args[i]) for i in ctx.node.kwargs["wrt"])
        vector = [torch.zeros_like(x) if t is None else t for t, x in given]
        pull = torch.func.vjp(lambda *grads: _gradients(ctx, args, grads), *zeros)[1]
        return tuple(pull(vector))


def _arguments(ctx: Any) -> list[Any]:
    """The arguments of the call, what its gradient knows of its results first."""
    args, saved, count = list(ctx.rest), ctx.saved_tensors, len(ctx.places)
    for i, x in zip(ctx.places, saved):
        args[i] = x
    args[: len(saved) - count] = saved[count:]
    return args


def _gradients(ctx: Any, args: list[Any], grads: Sequence[Any]) -> list[Any]:
    """What the gradient gives for the cotangents, one for each argument that has one."""
    there = [g is not None for g in grads] if "told" in ctx.node.kwargs else []
    given = [_zeros(*like) if g is None else g for g, like in zip(grads, ctx.likes)]
    return ctx.run(ctx.node.regions["gradient"], [*args, *given, *there])


def _zeros(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device=device)
