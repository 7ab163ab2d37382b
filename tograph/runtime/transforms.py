"""Whether torch's own transforms are around a call: ``torch.func`` or forward-mode AD.

These wrap the tensors of a call, and see the ops of the host program one by one.
"""

from __future__ import annotations

import torch
from torch.autograd import forward_ad


def active() -> bool:
    """Whether a transform of ``torch.func``, or a forward-mode level, is open."""
    return (
        torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
    )
