"""Programs of torch around a call that record or compile Python.

* ``torch.jit.trace`` records the ops that run. A function is plain Python there, as all other code is: sizes are tensors for it, and what kernels
  of ours give would be constants of what it records.
* ``torch.export`` and ``make_fx`` record ops by modes. To them a function is a module of ops of torch (``functions.proxied``). Where ``FakeTensorMode`` alone is
  active it is plain Python, as all other code.
* ``torch.compile`` looks at every Python frame. A function is opaque to it: the graph breaks at the call, which runs as always.

Private interfaces of torch: the mark that its compiler leaves a function alone, what it does about a code object, and the modes of its own. Where they are missing
its compiler looks into calls, and its modes see the ops of a call one by one; both say so themselves where they cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

try:
    from torch._C._dynamo.eval_frame import (
        _FrameAction,
        _FrameExecStrategy,
        set_code_exec_strategy,
    )
except ImportError:
    set_code_exec_strategy = None

try:
    from torch._C import (
        _get_dispatch_mode,
        _len_torch_function_stack,
        _pop_torch_function_stack,
        _push_on_torch_function_stack,
        _TorchDispatchModeKey,
    )
    from torch._ops import _get_dispatch_mode_pre_dispatch
except ImportError:
    _get_dispatch_mode = None

F = TypeVar("F", bound=Callable[..., Any])

recorded = torch._C._get_tracing_state  # what ``torch.jit.trace`` records into, or None


def opaque(function: F) -> F:
    """``torch.compile`` looks neither into this function nor into what it calls."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    if set_code_exec_strategy is not None:
        skipped = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
        set_code_exec_strategy(function.__code__, skipped)
    return function


def watching() -> bool:
    """Whether a mode of torch sees the ops of a call that records them, or runs them on tensors without content."""
    if _get_dispatch_mode is None:
        return False
    return _get_dispatch_mode(_TorchDispatchModeKey.FAKE) is not None or proxied()


def proxied() -> bool:
    """Whether it is one that records."""
    proxy = _TorchDispatchModeKey.PROXY
    return _get_dispatch_mode(proxy) is not None or _get_dispatch_mode_pre_dispatch(proxy) is not None  # fmt: skip


@contextmanager
def put_aside() -> Iterator[None]:
    """Inside, no mode sees ops or functions of torch."""
    held = []
    while _len_torch_function_stack():
        held.append(_pop_torch_function_stack())
    try:
        with _disable_current_modes():
            yield
    finally:
        while held:
            _push_on_torch_function_stack(held.pop())
