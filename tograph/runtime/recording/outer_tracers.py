"""Programs of torch around a call that record or compile Python.

* ``torch.jit.trace`` records the ops that run. A function is plain Python there, as all other code is: sizes are tensors for it, and what kernels
  of ours give would be constants of what it records.
* ``torch.compile`` looks at every Python frame. A function is opaque to it: the graph breaks at the call, which runs as always.

Private interfaces of torch: the mark that its compiler leaves a function alone, and what it does about a code object. Where they are missing
its compiler looks into calls, and says so itself where it cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

try:
    from torch._C._dynamo.eval_frame import (
        _FrameAction,
        _FrameExecStrategy,
        set_code_exec_strategy,
    )
except ImportError:
    set_code_exec_strategy = None

F = TypeVar("F", bound=Callable[..., Any])

recorded = torch._C._get_tracing_state  # what ``torch.jit.trace`` records into, or None


def opaque(function: F) -> F:
    """``torch.compile`` looks neither into this function nor into what it calls."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    if set_code_exec_strategy is not None:
        skipped = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
        set_code_exec_strategy(function.__code__, skipped)
    return function
