"""Torch's own kernels on meta tensors: what an op gives, without its numbers.

Some of these kernels are written in Python and hidden from ``torch._dynamo`` by a wrapper that imports it at its first call
(seconds). While one of them runs, and dynamo was not loaded by anybody, the wrappers on it are told that they have what they
would get from there. ``_disable_dynamo`` is private to torch: without the name that it looks up the import takes place.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .shapes import Meta, like


class _Rules(threading.local):
    """``depth``: whether torch's shape rules run. Some are Python, which asks for relations of sizes as torch's C++ does."""

    depth = 0


rules = _Rules()

_WRAPPER = torch._disable_dynamo(lambda: None).__code__
_WRAPPED = _WRAPPER.co_freevars.index("fn")
_FOUND = "__dynamo_disable"  # where the wrapper keeps what dynamo gave it


def on_meta(
    func: Any, args: tuple, kwargs: dict, rule: Callable[..., Any] | None = None
) -> tuple[Any, torch.device]:
    """What the op, or a ``rule`` for it, gives for meta tensors in the place of ``Meta``, and the device that the result is on."""
    devices: list[torch.device] = []

    def to_meta(x):
        if isinstance(x, Meta):
            devices.append(x.device)
            stride = x.stride if x.laid_out else like(x).stride
            made = torch.empty_strided(x.size, stride, dtype=x.dtype, device="meta")
            return _placed(made, x.offset) if x.placed and x.offset else made
        if type(x) is tuple or type(x) is list:
            return [to_meta(a) for a in x]
        return x

    with _disable_current_modes(), torch.no_grad():
        margs = [to_meta(a) for a in args]
        mkwargs = {k: to_meta(a) for k, a in kwargs.items()}
        device = kwargs.get("device")
        if device is not None:
            devices.insert(0, torch.device(device))
            mkwargs["device"] = "meta"
        elif not devices and any(a.name == "device" for a in func._schema.arguments):
            mkwargs["device"] = "meta"
        with _without_dynamo(), _asking():
            out = (rule or func)(*margs, **mkwargs)
    return out, devices[0] if devices else torch.device("cpu")


def _placed(x: torch.Tensor, offset: int) -> torch.Tensor:
    """A meta tensor that begins so many elements into its storage, as a view of it then tells."""
    extent = 1 + sum((n - 1) * step for n, step in zip(x.shape, x.stride())) if x.numel() else 0
    memory = torch.empty(offset + extent, dtype=x.dtype, device="meta")
    return memory.as_strided(x.shape, x.stride(), offset)


@contextmanager
def _asking() -> Iterator[None]:
    rules.depth += 1
    try:
        yield
    finally:
        rules.depth -= 1


@contextmanager
def _without_dynamo() -> Iterator[None]:
    hidden = () if "torch._dynamo" in sys.modules else _hidden()
    for f in hidden:
        setattr(f, _FOUND, f)
    try:
        yield
    finally:
        for f in hidden:
            vars(f).pop(_FOUND, None)


@functools.cache
def _hidden() -> tuple[Any, ...]:
    """The functions behind dynamo's wrappers in torch's kernels that are written in Python.

    There are thousands of functions to look into, at the first trace that needs such a kernel: the loop is written for speed.
    """
    modules = [m for n, m in sys.modules.items() if n.startswith(("torch._refs", "torch._decomp"))]
    left = [f for m in modules for f in vars(m).values() if type(f) is FunctionType]
    seen, found = set(left), []
    while left:
        step = left.pop()
        for cell in step.__closure__ or ():
            try:
                inner = cell.cell_contents
            except ValueError:  # empty
                continue
            if type(inner) is FunctionType and inner not in seen:
                seen.add(inner)
                left.append(inner)
        if step.__code__ is _WRAPPER:
            found.append(step.__closure__[_WRAPPED].cell_contents)
    return tuple(found)
