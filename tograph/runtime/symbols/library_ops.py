"""Ops that libraries register, with gradients of their own.

Such an op runs its kernel with gradients off, and has its gradient put around it: whether one is wanted is asked where the op is called.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
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
    _called.prefix = f"op.{_name(op).replace('::', '.')}." if torch.is_grad_enabled() else None
    try:
        yield
    finally:
        _called.prefix = outer


def wants_gradient(op: str) -> bool:
    """Whether an op that is recorded with gradients off is the one that is called, with gradients on."""
    return _called.prefix is not None and op.startswith(_called.prefix)


def _name(op: Any) -> str:
    if isinstance(op, CustomOpDef):
        return op._qualname
    return op._qualified_op_name if isinstance(op, OpOverloadPacket) else op._schema.name
