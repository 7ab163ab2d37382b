"""Whether what torch's forward mode gives requires a gradient where the derivative does not depend on the point: ``jvp`` of ``y * 3``.

Its formula of a product is ``t * other + y * other_t``, where the second term is zero and has the history of ``y``. Here a derivative is one of autograd, which has
no such term; so what requires a gradient by that only gets the history, with a gradient of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...runtime.writes import iterations

# Their formulas use the primal also where the derivative by it is zero.
_USES = frozenset(
    f"{name}Backward{k}"
    for name in (
        "Mul", "Div", "Mv", "Mm", "Bmm", "Dot", "Addmm", "Addmv", "Addr", "Baddbmm", "Convolution", "Abs", "Relu", "LeakyRelu", "Pow", "LinalgCross", "Addcdiv",
    )
    for k in (0, 1)
)  # fmt: skip


def with_history(found: Any, out: torch.Tensor, leaves: Sequence[Any], given: Sequence[Any]) -> Any:
    """A derivative of ``out``, with the history of the tensors ``given``, for which ``leaves`` stand, where torch's has it."""
    ends = {x.grad_fn for x, g in zip(leaves, given) if g.requires_grad and x.grad_fn is not None}
    if not ends or found.requires_grad or not _uses(out, ends):
        return found
    none = torch.zeros((), dtype=torch.bool, device=found.device)
    with torch.enable_grad():
        for g in given:
            if g.requires_grad and g.is_complex() == found.is_complex() and g.device == found.device:  # fmt: skip
                found = found + torch.where(none, g.sum(), 0).to(found.dtype)
    return found


def _uses(out: torch.Tensor, ends: set[Any]) -> bool:
    """Whether an op whose formula uses its primal stands between ``out`` and ``ends``."""
    reached = set(ends)
    order = list(iterations.behind([out]))
    while True:
        more = {n for n in order if n not in reached and any(m in reached for m, _ in n.next_functions)}  # fmt: skip
        if not more:
            break
        reached |= more
    return any(n.name() in _USES for n in reached if n not in ends)
