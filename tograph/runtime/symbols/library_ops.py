"""Ops that libraries register, with gradients of their own.

Such an op runs its kernel with gradients off, and has its gradient put around it: whether one is wanted is asked where the op is called, or,
where code that is not converted calls it, of the function of torch that puts the gradient around it, which runs then only.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch
from torch._library import autograd
from torch._library.custom_ops import CustomOpDef
from torch._ops import OpOverload, OpOverloadPacket

CALLABLE = (OpOverload, OpOverloadPacket, CustomOpDef)


class _Called(threading.local):
    prefix: str | None = None


_called = _Called()


@contextmanager
def called(op: Any) -> Iterator[None]:
    """While one of ``CALLABLE`` is called."""
    outer = _called.prefix
    _called.prefix = _prefix(op) if torch.is_grad_enabled() else None
    try:
        yield
    finally:
        _called.prefix = outer


def wants_gradient(op: str) -> bool:
    """Whether an op that is recorded with gradients off is the one that is called, with gradients on."""
    if _called.prefix is not None and op.startswith(_called.prefix):
        return True
    if not op.startswith("op."):
        return False
    frame = sys._getframe(1)
    while frame is not None and frame.f_code not in _AROUND:
        frame = frame.f_back
    return frame is not None and op.startswith(_prefix(frame.f_locals["op"]))


def _forwards(code: CodeType) -> frozenset[CodeType]:
    """What runs an op with a gradient around it, in the code of torch that makes it; nothing where torch has another form."""
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return frozenset(c for c in inner if c.co_name == "forward" and "op" in c.co_freevars)


_AROUND = _forwards(autograd.make_autograd_impl.__code__)


def _prefix(op: Any) -> str:
    return f"op.{_name(op).replace('::', '.')}."


def _name(op: Any) -> str:
    if isinstance(op, CustomOpDef):
        return op._qualname
    return op._qualified_op_name if isinstance(op, OpOverloadPacket) else op._schema.name
