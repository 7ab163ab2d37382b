"""Gradients taken inside of a function that would go on into what its arguments were computed from outside.

In eager PyTorch ``backward()`` goes through an argument with a history to all that it was computed from, and a gradient with respect to
``x`` takes what comes by way of an argument ``y = f(x)`` too. A graph has no part in that history: where a gradient
would go there it is refused, and that it does not is a guard. (The history of a captured tensor is part of the trace.) Hooks that an
argument has are taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..guarding import reads
from ..guarding.sources import holder
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.symbolic import SymTensor
from . import custom

Given = tuple[
    Any, int, torch.Tensor
]  # who watches the call, the position of an argument, the tensor that it is


def check_backward(leaves: Sequence[torch.Tensor]) -> None:
    """GradientError for a ``backward()`` that reaches an argument which is no leaf."""
    for watch, i, x in _arguments(leaves):
        if x.requires_grad and not watch.leaf(x, i):
            raise GradientError(
                f"backward() would go on into what argument {_name(i)} was computed from outside of the function, in which its graph has "
                "no part: call backward() outside, on what the function returns, or detach the argument.",
                user_location(),
            )


def check_grad(
    leaves: Callable[[], Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor]
) -> None:
    """GradientError for a gradient that would come to ``inputs`` by what arguments were computed from.

    ``leaves``: what the differentiated history leads to, asked where an argument has a history.
    """
    targets = [_target(x) for x in inputs]
    outside = tuple(t for t in targets if t is not None)
    if not outside or not _any_history():
        return
    for watch, i, x in _arguments([*leaves(), *inputs]):
        if x.grad_fn is not None and not watch.unconnected(x, i, outside):
            raise GradientError(
                f"the gradient goes by way of argument {_name(i)}, which was computed outside of the function from what it is with respect "
                "to: compute it inside, take the gradient outside, or detach the argument.",
                user_location(),
            )


def take_hooks(inputs: Sequence[torch.Tensor]) -> None:
    """Let the gradients of arguments go through the hooks that these have outside, as in eager PyTorch; other hooks trace anew."""
    for x in inputs:
        given = _argument(x)
        if given is None:
            continue
        watch, i, real = given
        hooks = watch.gradient_hooks(real, i)[0]
        if "taken_" not in x.__dict__:
            x.__dict__["taken_"] = True
            for hook in hooks:
                torch.Tensor.register_hook(x, _converted(hook))


def later_hooks(leaf: torch.Tensor) -> tuple[Any, ...]:
    """The functions that run when a gradient was added to ``leaf.grad``."""
    given = _argument(leaf)
    if given is not None:
        watch, i, leaf = given
        return watch.gradient_hooks(leaf, i)[1]
    return tuple((leaf._post_accumulate_grad_hooks or {}).values())


def _converted(hook: Any) -> Callable[[Any], Any]:
    return lambda g: None if g is None else custom.CONVERT(hook)(g)


def _arguments(xs: Sequence[torch.Tensor]) -> Iterator[Given]:
    found = [given for x in xs if (given := _argument(x)) is not None]
    yield from {i: given for given in found for i in [given[1]]}.values()


def _argument(x: torch.Tensor) -> Given | None:
    """The argument that a tensor is: what is detached from one is another tensor in the same memory."""
    given = reads.argument(x)
    return given if given is not None and x.__dict__.get("real_") is given[2] else None


def _any_history() -> bool:
    """Whether an argument is the result of another op; for those that are none, that is a guard."""
    watch, found = reads.current(), False
    for i, x in enumerate(watch.given if watch is not None else ()):
        if isinstance(x, torch.Tensor) and not isinstance(x, SymTensor) and x.requires_grad:
            found |= not watch.leaf(x, i)
    return found


def _target(x: torch.Tensor) -> Any:
    """An input that is there before the call: the position of an argument, or what gives a captured tensor; None for any other."""
    given = _argument(x)
    if given is not None:
        return given[1]
    return None if isinstance(x, SymTensor) else holder(x)


def _name(i: int) -> str:
    graph = current_graph()
    while graph.outer is not None:
        graph = graph.outer
    names = graph.graph.input_names
    return repr(names[i]) if i < len(names) and names[i] else f"number {i + 1}"
