"""``apply`` of a ``torch.autograd.Function`` that code calls which is not converted: kernels of libraries, ``tg.do_not_convert``.

torch's own ``apply`` runs ``forward`` with gradients off, and keeps what ``backward`` needs in its own history: a gradient that is taken
inside of the function finds it there, but the graph has ops without gradients, so that one from outside would be lost.
While a trace runs ``apply`` records instead, as in converted code. Functions of torch and those of tograph itself are left alone:
torch puts some around ops of libraries, whose gradients are known otherwise (``symbols.library_ops``).

Traces of several threads share what is set while one of them runs; a call outside of a trace is torch's own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ..symbols.funcgraph import is_tracing

_OWN = torch.autograd.Function.__dict__.get("apply")
_lock, _open = threading.Lock(), [0]


def APPLY(cls: Any, *args: Any) -> Any:
    """Records a call. Set by the converters, which know how user code is called."""
    raise NotImplementedError


@contextmanager
def recorded() -> Iterator[None]:
    """Inside, ``apply`` records in the threads that trace."""
    if _OWN is None:  # torch has it in C, for its subclass too
        yield
        return
    with _lock:
        _open[0] += 1
        torch.autograd.Function.apply = classmethod(apply)
    try:
        yield
    finally:
        with _lock:
            _open[0] -= 1
            if not _open[0]:
                torch.autograd.Function.apply = _OWN


def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """What ``cls.apply`` is; a transform of torch's gives wrapped tensors, which only its own ``apply`` knows."""
    own = cls.__module__.partition(".")[0] in ("torch", "tograph")
    mapped = torch._C._functorch.peek_interpreter_stack() is not None
    if kwargs or own or mapped or not is_tracing():
        return _OWN.__func__(cls, *args, **kwargs)
    return APPLY(cls, *args)
