"""Gradients inside a function through a staged ``if`` or loop: refused, at the line of the construct.

Outside of a function torch's autograd differentiates the host program, control flow included. A gradient that is taken
while tracing would need the gradient of an ``If`` or ``While`` as a graph. Until there is one, results of such an op that
depend on a tensor with ``requires_grad`` carry a node whose backward raises, so no gradient is ever silently zero.
"""

from __future__ import annotations

from typing import Any

import torch

from ..errors import GradientError, Location


class _Blocked(torch.autograd.Function):
    """The identity, with a backward that says why there is none."""

    @staticmethod
    def forward(
        ctx: Any, what: str, location: Location | None, out: torch.Tensor, *inputs: torch.Tensor
    ):
        ctx.what, ctx.location = what, location
        with (
            torch.enable_grad()
        ):  # the op is recorded as one that torch differentiates when the graph runs
            return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, *grads: Any):
        raise GradientError(
            f"the gradient through a staged `{ctx.what}` cannot be taken inside a function. Return the value and call "
            "torch.autograd.grad or backward() outside of the function, where it is differentiated as usual.",
            ctx.location,
        )


def block(x: Any, what: str, location: Location | None, inputs: list[torch.Tensor]) -> Any:
    """``x``, a result of ``what`` that depends on ``inputs``, such that its gradient is an error."""
    if not inputs or not torch.is_grad_enabled() or not (x.is_floating_point() or x.is_complex()):
        return x
    return _Blocked.apply(what, location, x, *inputs)
