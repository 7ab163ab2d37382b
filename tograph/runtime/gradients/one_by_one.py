"""What ``torch.func.vmap`` cannot run for all examples at once: a graph that runs for one example after the other.

A body of a ``try`` fails for some examples only; lists grow to lengths of their own; sizes follow from the data of an example. ``OneByOne`` is
a function of torch's autograd whose rule for ``vmap`` is a loop over the examples, and whose derivatives are such functions of the same
kind: so transforms around it see a function like any other, in any order and to any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...errors import UnsupportedOpError

Tensors = tuple[torch.Tensor, ...]
_NUMBERS = (bool, int, float)


def one_by_one(function: Callable[[list[Any]], Sequence[Any]], args: Sequence[Any]) -> list[Any]:
    """``function(args)``, by one example after the other where ``vmap`` is open. Numbers that it gives are tensors."""
    leaves, spec = pytree.tree_flatten(list(args))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    shapes: list[tuple[Any, list[Any]]] = []

    def of_tensors(*tensors: torch.Tensor) -> Tensors:
        given = list(leaves)
        for i, x in zip(places, tensors):
            given[i] = x
        found, shape = pytree.tree_flatten(list(function(pytree.tree_unflatten(given, spec))))
        rest = [None if isinstance(x, (torch.Tensor, *_NUMBERS)) else x for x in found]
        shapes.append((shape, rest))
        if shapes[0] != shapes[-1]:
            raise UnsupportedOpError("under vmap the kind of a result differs between examples")
        made = (x if isinstance(x, torch.Tensor) else _tensor(x) for x in found)
        return tuple(x for x, other in zip(made, rest) if other is None)

    outs = iter(_OneByOne.apply(of_tensors, *(leaves[i] for i in places)))
    shape, rest = shapes[0]
    return pytree.tree_unflatten([next(outs) if x is None else x for x in rest], shape)


def _tensor(x: Any) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64 if type(x) is float else None)


def _floating(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


class _OneByOne(torch.autograd.Function):
    """``function(*tensors)``, which gives tensors."""

    @staticmethod
    def forward(function: Callable[..., Tensors], *tensors: torch.Tensor) -> Tensors:
        return tuple(x.view_as(x) for x in function(*tensors))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensors) -> None:
        ctx.function, *tensors = inputs
        ctx.places = [i for i, x in enumerate(tensors) if _floating(x)]
        ctx.outs = [k for k, y in enumerate(output) if _floating(y)]
        ctx.count = len(output)
        ctx.mark_non_differentiable(*(y for y in output if not _floating(y)))
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        function = _pullback(ctx.function, ctx.places, ctx.outs)
        given = [grads[k] for k in ctx.outs]
        found = iter(_OneByOne.apply(function, *ctx.saved_tensors, *given))
        return None, *(next(found) if i in ctx.places else None for i in range(len(ctx.saved_tensors)))  # fmt: skip

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        tensors, function = ctx.saved_tensors, _push(ctx.function, ctx.places, ctx.outs)
        given = (torch.zeros_like(tensors[i]) if tangents[i] is None else tangents[i] for i in ctx.places)  # fmt: skip
        found = dict(zip(ctx.outs, _OneByOne.apply(function, *tensors, *given)))
        return tuple(map(found.get, range(ctx.count)))

    @staticmethod
    def vmap(info: Any, in_dims: tuple, function: Callable[..., Tensors], *tensors: Any) -> Any:
        dims = in_dims[1:]
        rows = [
            _OneByOne.apply(function, *(x if d is None else x.select(d, k) for x, d in zip(tensors, dims)))
            for k in range(info.batch_size)
        ]  # fmt: skip
        return tuple(map(_stacked, zip(*rows))), (0,) * len(rows[0])


def _stacked(column: Tensors) -> torch.Tensor:
    if any(x.shape != column[0].shape for x in column):
        raise UnsupportedOpError("under vmap the size of a result differs between examples")
    return torch.stack(column)


def _of_floats(function: Callable[..., Tensors], places: list[int], outs: list[int], tensors: Sequence[Any]) -> Any:  # fmt: skip
    """The function of those at ``places`` alone, and its results ``outs`` alone."""

    def of_floats(*floats: torch.Tensor) -> Tensors:
        given = list(tensors)
        for i, x in zip(places, floats):
            given[i] = x
        results = function(*given)
        return tuple(results[k] for k in outs)

    return of_floats


def _pullback(function: Callable[..., Tensors], places: list[int], outs: list[int]) -> Any:
    """(arguments, cotangents) -> the gradients of the arguments ``places``."""

    def pullback(*args: torch.Tensor) -> Tensors:
        count = len(args) - len(outs)
        inner = _of_floats(function, places, outs, args[:count])
        return torch.func.vjp(inner, *(args[i] for i in places))[1](args[count:])

    return pullback


def _push(function: Callable[..., Tensors], places: list[int], outs: list[int]) -> Any:
    """(arguments, tangents of those at ``places``) -> the tangents of the results."""

    def push(*args: torch.Tensor) -> Tensors:
        count = len(args) - len(places)
        inner = _of_floats(function, places, outs, args[:count])
        return torch.func.jvp(inner, tuple(args[i] for i in places), args[count:])[1]

    return push
