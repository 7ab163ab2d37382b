"""Types of the values in a graph, and their text.

``TensorType``   a tensor: dtype, shape (None is a size known only at run time) and device. Text: ``f32[8,4]``,
                 ``i64[?]``, ``f16[2]@cuda:0``.
``ScalarType``   a Python number that is only known at run time: ``int``, ``float`` or ``bool``. It is a Python
                 number when the graph runs, so it promotes, overflows and divides as Python's numbers do. ``str`` is a text of
                 native code, where texts are numbers.
``ListType``     a list of tensors with value semantics. Text: ``list<f32[3]>``; ``list<?>`` when the element
                 type is open.
``OptionalType`` a value or nothing. Text: ``optional<f32[]>``.
``ObjectType``   an opaque Python object, such as the result of ``tg.py_function``. Text: ``object``.

All types are immutable and compare by content; ``join`` is the least type that covers two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

TEXT: Any = "text"  # stands where numbers have a dtype


class _Names(dict[torch.dtype, str]):
    """The names of dtypes; a text, which is no element of a tensor, is not among them, but has one."""

    def __missing__(self, key: Any) -> str:
        if key is TEXT:
            return "text"
        raise KeyError(key)


DTYPE_NAMES = _Names({
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.bool: "bool", torch.complex32: "c32", torch.complex64: "c64", torch.complex128: "c128",
    torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2",
})  # fmt: skip
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}
SCALARS = {int: torch.int64, float: torch.float64, bool: torch.bool, str: TEXT}

Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class TensorType:
    """A tensor of ``dtype`` and ``shape`` on ``device``; a shape of None is of unknown rank."""

    dtype: torch.dtype
    shape: Shape
    device: str = "cpu"

    def __str__(self) -> str:
        dims = ",".join("?" if d is None else str(d) for d in self.shape)
        where = "" if self.device == "cpu" else f"@{self.device}"
        return f"{DTYPE_NAMES[self.dtype]}[{dims}]{where}"


def is_static(kind: Any) -> bool:
    """Whether a type is one of tensors whose sizes are known before the run."""
    return isinstance(kind, TensorType) and kind.shape is not None and None not in kind.shape


def is_open(kind: Any) -> bool:
    """Whether a type is one of tensors of which only the run knows a size."""
    return isinstance(kind, TensorType) and not is_static(kind)


@dataclass(frozen=True)
class ScalarType:
    """A Python ``int``, ``float`` or ``bool`` known at run time."""

    kind: type

    def __str__(self) -> str:
        return self.kind.__name__

    @property
    def dtype(self) -> torch.dtype:
        return SCALARS[self.kind]


@dataclass(frozen=True)
class ListType:
    """A list of tensors; ``element`` is None until the first push."""

    element: TensorType | ScalarType | None

    def __str__(self) -> str:
        return f"list<{'?' if self.element is None else self.element}>"


@dataclass(frozen=True)
class OptionalType:
    """A value of type ``element`` or nothing."""

    element: Type

    def __str__(self) -> str:
        return f"optional<{self.element}>"


@dataclass(frozen=True)
class ObjectType:
    """An opaque Python object."""

    def __str__(self) -> str:
        return "object"


Type = TensorType | ScalarType | ListType | OptionalType | ObjectType
INT, FLOAT, BOOL, STR, OBJECT = ScalarType(int), ScalarType(float), ScalarType(bool), ScalarType(str), ObjectType()  # fmt: skip
_TENSOR = re.compile(r"(\w+)\[((?:(?:[0-9]+|\?)(?:,(?!\])|(?=\])))*)\](?:@([\w:]+))?$")


def parse_type(text: str) -> Type:
    """The type that ``str`` shows as ``text``; ValueError when there is none."""
    text = text.strip()
    plain = {"int": INT, "float": FLOAT, "bool": BOOL, "object": OBJECT, "list<?>": ListType(None)}
    if text in plain:
        return plain[text]
    for word, build in (("list", ListType), ("optional", OptionalType)):
        if text.startswith(word + "<") and text.endswith(">"):
            return build(parse_type(text[len(word) + 1 : -1]))
    found = _TENSOR.match(text)
    if found is None or found[1] not in DTYPES:
        raise ValueError(f"not a type: {text!r}")
    dims = tuple(None if d == "?" else int(d) for d in found[2].split(",") if d)
    return TensorType(DTYPES[found[1]], dims, found[3] or "cpu")


def device_of(kind: TensorType) -> torch.device:
    """The device of a tensor type."""
    return torch.device(kind.device)


def join_shapes(a: Shape, b: Shape) -> Shape | None:
    """The shape that covers both, or None when the ranks differ."""
    if len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=False))


def join(a: Type, b: Type) -> Type | None:
    """The least type that covers ``a`` and ``b``, or None when there is none."""
    if a == b:
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        shape = join_shapes(a.shape, b.shape)
        same = a.dtype == b.dtype and a.device == b.device
        return replace(a, shape=shape) if same and shape is not None else None
    if isinstance(a, ListType) and isinstance(b, ListType):
        if a.element is None or b.element is None:
            return a if b.element is None else b
        element = join(a.element, b.element)
        return None if element is None else ListType(element)
    if isinstance(a, OptionalType) and isinstance(b, OptionalType):
        element = join(a.element, b.element)
        return None if element is None else OptionalType(element)
    return None


_NUMBERS = {int: torch.int64, float: torch.float64, bool: torch.bool}


def exact_dtype(items: Sequence[Any]) -> torch.dtype | None:
    """The type of a tensor that holds Python numbers of one kind exactly, if there is one."""
    kinds = {type(i) for i in items}
    kind = kinds.pop() if len(kinds) == 1 else None
    exact = kind is not int or all(-(2**63) <= i < 2**63 for i in items)
    return _NUMBERS.get(kind) if exact else None
