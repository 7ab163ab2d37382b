"""Keys of the trace cache: what of a call decides which trace it runs, and how two keys differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from .exact import exact
from .pytrees import attributes
from .specs import TensorSpec


def context() -> tuple:
    """The settings of torch that a trace depends on."""
    if not _function_modes():
        return torch.get_default_dtype(), None, *autocast_dtypes()
    return torch.get_default_dtype(), str(torch.get_default_device()), *autocast_dtypes(), *user_modes()  # fmt: skip


def user_modes() -> list[TorchFunctionMode]:
    """The open modes that see functions of torch, but for default devices. What they make of the code is in the trace."""
    if not _function_modes():
        return []
    return [m for m in _get_current_function_mode_stack() if type(m) is not DeviceContext]


_DEVICES = ("cpu", "cuda")
_NONE = (None, None)


def autocast_dtypes() -> tuple[torch.dtype | None, ...]:
    """For CPU and GPU: the dtype that ops are cast to, or None."""
    if not torch._C._is_any_autocast_enabled():
        return _NONE
    return tuple(torch.get_autocast_dtype(d) if torch.is_autocast_enabled(d) else None for d in _DEVICES)  # fmt: skip


@contextmanager
def uncached_casts() -> Iterator[None]:
    """What ``torch.autocast`` casts is not kept: it belongs to the trace, branch or body in which it was cast."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


@contextmanager
def autocast_to(dtypes: tuple[torch.dtype | None, ...]) -> Iterator[None]:
    """Cast ops as ``autocast_dtypes`` said."""
    with ExitStack() as stack:
        for device, dtype in zip(_DEVICES, dtypes):
            if dtype is not None:
                stack.enter_context(torch.autocast(device, dtype))
        yield


def is_usual() -> bool:
    """Whether no op is cast to another dtype now, and no mode sees functions of torch."""
    return not any(autocast_dtypes()) and not _function_modes()


# A default device is a function mode; where torch does not tell how many are open, it is always asked.
_function_modes = torch._C._len_torch_function_stack


_CONSTANTS = frozenset((bool, str, type(None)))
_CONTAINERS = frozenset((list, tuple, dict))
_OTHER = object()


class QuickKey:
    """A key of arguments that are plain tensors, constants, containers of these and records of the classes ``opened``.

    ``key`` is None for anything else, and where a tensor or a container is passed twice. ``tensors`` and ``numbers`` come in the order of ``Flat``.
    """

    __slots__ = ("_opened", "_parts", "_places", "_seen", "inputs", "key", "numbers", "tensors")

    def __init__(self, args: tuple, opened: frozenset[type] = frozenset()):
        self.tensors: list[torch.Tensor] = []
        self.numbers: list[Any] = []
        self._places: list[int] = []  # of the numbers among the parts
        self._parts: list[Any] = []
        self._seen: set[int] = set()
        self._opened = opened
        self.inputs: dict[tuple[int, ...], list[Any]] = {}  # as ``Flat`` has them
        try:
            found = self._take(args)
        except RuntimeError:  # a nested tensor has no sizes
            found = False
        self.key = (*self._parts, *context()) if found else None

    def without_numbers(self) -> Any:
        """The key without the values of ints and floats."""
        if self.key is None:
            return None
        parts = list(self.key)
        for at in self._places:
            parts[at] = _OTHER
        return tuple(parts)

    def _take(self, items: Any) -> bool:
        parts, seen = self._parts, self._seen
        for x in items:
            kind = type(x)
            if kind is torch.Tensor or kind is torch.nn.Parameter:
                if id(x) in seen or x.layout is not torch.strided:
                    return False
                seen.add(id(x))
                self.tensors.append(x)
                parts += (x.dtype, x.shape, x.device)
            elif kind is int or kind is float:
                self.numbers.append(x)
                self._places.append(len(parts) + 1)
                parts += (kind, x if kind is int else repr(x))
            elif kind in _CONSTANTS:
                parts += (kind, x)
            elif kind in _CONTAINERS or kind in self._opened or (isinstance(x, tuple) and hasattr(kind, "_fields")):  # fmt: skip
                if id(x) in seen or not self._take(self._inside(x, kind)):
                    return False
            else:
                return False
        return True

    def _inside(self, x: Any, kind: type) -> Any:
        """What a container holds; what it is goes to the parts. Keys other than strings are left to the slower way."""
        if kind in self._opened:
            names, held = attributes(x)
            self._seen.add(id(x))
            self._parts += (kind, names)
            return held
        if kind is not dict:
            self._parts += (kind, len(x))
            if kind is list:
                self._seen.add(id(x))
            return x
        self._seen.add(id(x))
        if not all(type(k) is str for k in x):
            return (_OTHER,)
        ordered = sorted(x, key=repr)
        self._parts += (kind, tuple(x))
        return [x[n] for n in ordered]


def spec_from(x: Any) -> TensorSpec:
    return x if isinstance(x, TensorSpec) else TensorSpec.of(x)


def relaxed(a: TensorSpec, b: TensorSpec) -> TensorSpec:
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return a
    return TensorSpec(
        [x if x == y else None for x, y in zip(a.shape, b.shape)], a.dtype, a.name, a.device
    )


def without_sizes(key: Any) -> Any:
    """A key without the sizes of tensors and the values of ints and floats: that of its family."""
    if isinstance(key, tuple):
        if len(key) == 6 and key[0] == "tensor":
            return ("tensor", key[1], None if key[2] is None else len(key[2]), *key[3:])
        if len(key) == 2 and (key[0] is int or key[0] is float):
            return (key[0],)
        return tuple(map(without_sizes, key))
    return key


def without_numbers(key: Any) -> Any:
    """A key without the values of ints and floats."""
    if isinstance(key, tuple):
        if len(key) == 6 and key[0] == "tensor":
            return key
        if len(key) == 2 and (key[0] is int or key[0] is float):
            return (key[0],)
        return tuple(map(without_numbers, key))
    return key


def describe_key(key: Any) -> str:
    """A part of a key as people write it: ``float32[3, ?]``, ``2``, ``[float32[3], None]``."""
    if not isinstance(key, tuple) or not key:
        return str(key)
    if key[0] == "tensor":
        return _describe_tensor(key[1], key[2])
    if key[0] in ("staged", "handle"):
        return str(key[1].__name__ if isinstance(key[1], type) else key[1])
    if key[0] == "object":
        return f"an object of {key[1].__name__}"
    if key[0] is dict:
        held = {exact(k): (k, part) for k, part in key[2]}  # the names are in their exact form
        found = [held[n] for n in key[1]]
        return "{" + ", ".join(f"{k!r}: {describe_key(part)}" for k, part in found) + "}"
    if isinstance(key[0], type) and isinstance(key[-1], tuple) and key[0] is not tuple:
        return _describe_container(key[0], key[-1])
    if key[0] is tuple and len(key) == 2:
        parts = ", ".join(map(describe_key, key[1]))
        return f"({parts},)" if len(key[1]) == 1 else f"({parts})"
    if key[0] is float and len(key) == 2:
        return str(key[1])
    return repr(key[-1])


def show_spec(spec: TensorSpec) -> str:
    """A spec as people write it: ``float32[?, 4]``."""
    return _describe_tensor(spec.dtype, spec.shape)


def _describe_tensor(dtype: torch.dtype, shape: Any) -> str:
    size = "..." if shape is None else ", ".join("?" if n is None else str(n) for n in shape)
    return f"{str(dtype).removeprefix('torch.')}[{size}]"


def _describe_container(cls: type, parts: tuple) -> str:
    inner = ", ".join(map(describe_key, parts))
    return f"[{inner}]" if cls is list else f"{cls.__name__}({inner})"
