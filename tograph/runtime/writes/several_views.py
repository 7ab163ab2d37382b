"""Views of which one op gives several, as the rows that a loop over a tensor goes over: torch refuses in-place writes to one where a gradient is recorded.

Its mark on a view is private to torch. Where there is none, such a write is computed.
"""

from __future__ import annotations

from typing import Any

import torch

_AUTOGRAD: Any = torch._C._autograd
_SET = getattr(_AUTOGRAD, "_set_creation_meta", None)
_SEVERAL = getattr(getattr(_AUTOGRAD, "CreationMeta", None), "MULTI_OUTPUT_NODE", None)


def marked(row: torch.Tensor) -> torch.Tensor:
    """A view that is one of several."""
    if _SET is not None and _SEVERAL is not None and torch.is_grad_enabled() and row._is_view():
        _SET(row, _SEVERAL)
    return row
