"""Comparisons of whole tensors that C++ code of torch asks for: it goes on with the answer, so that has to be known now.

torch's gradient of the singular vectors of a complex matrix asks whether the loss depends on their phase, and raises if so: it goes on as if
it did not, and the graph checks that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..symbols.required import expecting
from ..symbols.symbolic import scalar_of

aten = torch.ops.aten
_PHASES = "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. The specified loss function depends on this phase term, making it ill-defined."


def equal(record: Callable[..., Any]) -> Callable[..., bool]:
    """``torch.equal`` by what ``record`` records."""

    def form(a: Any, b: Any) -> bool:
        if tuple(a.shape) != tuple(b.shape):
            return False
        same = record(aten.eq.Tensor, (a, b), {})
        return bool(scalar_of(record(aten.all.default, (same,), {})))

    return form


def allclose(record: Callable[..., Any]) -> Callable[..., bool]:
    """``torch.allclose`` by what ``record`` records."""

    def form(a: Any, b: Any, *given: Any, **named: Any) -> bool:
        near = record(aten.isclose.default, (a, b, *given), named)
        answer = scalar_of(record(aten.all.default, (near,), {}))
        if not _of_singular_vectors():
            return bool(answer)
        with expecting(True, RuntimeError(_PHASES)):
            return bool(answer)

    return form


def _of_singular_vectors() -> bool:
    formula = torch._C._current_autograd_node()
    return formula is not None and formula.name().startswith("LinalgSvdBackward")
