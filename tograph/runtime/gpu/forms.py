"""What stands for a list, an optional or a tensor of open size where all memory is there before: tensors of fixed size and numbers.

``Plain``   a tensor of known size, or a number: itself.
``Padded``  a tensor with dims that are known only at run time: one of the largest size, and a number for each such dim. What
            lies beyond is memory that nobody may depend on.
``Items``   a list of at most ``capacity`` items: for each part of an item one tensor, with the items along its first dim, and
            a number of items. Items may be lists again.
``Maybe``   an optional: the parts of its value, and whether it is there.
``Nothing`` what a plan does without.

A form is a type: it says which parts stand for a value (``types``), how parts are made of a run-time value (``pack``) and
back (``unpack``). Forms are compared by content.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch

from ..graph.types import BOOL, INT, ListType, OptionalType, ScalarType, TensorType, Type, is_static
from ..kernels.loop_ir import Unsupported

BUDGET = 1 << 33  # bytes of one part of a list


class Full(Exception):
    """A list has more items than there is room for."""


class Held(tuple):
    """The items of a list as views of the memory that they are in: given to another plan, it is taken as a whole.

    ``form``: the form of the list; ``parts``: its memory and number of items.
    """

    form: Items
    parts: list[Any]


@dataclass(frozen=True)
class Plain:
    """A tensor of known size or a number."""

    type: TensorType | ScalarType

    bounds = MappingProxyType({})  # least and most of the parts that are numbers

    @property
    def types(self) -> list[Type]:
        return [self.type]

    def pack(self, x: Any) -> list[Any]:
        return [x]

    def unpack(self, parts: Iterator[Any]) -> Any:
        return next(parts)


@dataclass(frozen=True)
class Padded:
    """``type`` has the largest size; ``dims`` are those that have a number."""

    type: TensorType
    dims: tuple[int, ...]

    @property
    def bounds(self) -> dict[int, tuple[int, int]]:
        return {k + 1: (0, self.type.shape[d] or 0) for k, d in enumerate(self.dims)}

    @property
    def types(self) -> list[Type]:
        return [self.type, *(INT for _ in self.dims)]

    def pack(self, x: torch.Tensor) -> list[Any]:
        if any(n > most for n, most in zip(x.shape, self.type.shape)):
            raise Full(f"{tuple(x.shape)} for {self.type}")
        whole = torch.zeros(self.type.shape, dtype=x.dtype, device=x.device)
        whole[tuple(slice(n) for n in x.shape)] = x
        return [whole, *(x.shape[d] for d in self.dims)]

    def unpack(self, parts: Iterator[Any]) -> torch.Tensor:
        x = next(parts)
        for d in self.dims:
            x = x.narrow(d, 0, int(next(parts)))
        return x.contiguous()


@dataclass(frozen=True)
class Items:
    """A list of items of one form."""

    item: Form
    capacity: int
    device: str

    @property
    def bounds(self) -> dict[int, tuple[int, int]]:
        return {len(self.item.types): (0, self.capacity)}

    @property
    def types(self) -> list[Type]:
        return [*(self._stacked(t) for t in self.item.types), INT]

    def _stacked(self, kind: Type) -> TensorType:
        shape = () if isinstance(kind, ScalarType) else kind.shape
        made = TensorType(kind.dtype, (self.capacity, *shape), self.device)
        if math.prod(made.shape) * made.dtype.itemsize > BUDGET:
            raise Unsupported(f"a list of {self.capacity} items takes too much memory")
        return made

    def pack(self, xs: Sequence[Any]) -> list[Any]:
        if len(xs) > self.capacity:
            raise Full(f"{len(xs)} items")
        if isinstance(xs, Held) and xs.form == self:
            return xs.parts
        wholes = [torch.zeros(t.shape, dtype=t.dtype, device=self.device) for t in self.types[:-1]]
        if isinstance(xs, Held) and xs.form.item == self.item:  # of a plan with other room
            for whole, part in zip(wholes, xs.parts):
                whole[: len(xs)] = part[: len(xs)]
            return [*wholes, len(xs)]
        for i, x in enumerate(xs):
            for whole, part in zip(wholes, self.item.pack(x)):
                whole[i] = part
        return [*wholes, len(xs)]

    def unpack(self, parts: Iterator[Any]) -> tuple:
        wholes = [next(parts) for _ in self.item.types]
        count = int(next(parts))
        items = zip(*(w[:count].unbind(0) for w in wholes))
        made = Held(self.item.unpack(map(_item, row, self.item.types)) for row in items)
        made.form, made.parts = self, [*wholes, count]
        return made


@dataclass(frozen=True)
class Maybe:
    """An optional value of one form."""

    item: Form

    @property
    def bounds(self) -> dict[int, tuple[int, int]]:
        return dict(self.item.bounds)

    @property
    def types(self) -> list[Type]:
        return [*self.item.types, BOOL]

    def pack(self, x: tuple) -> list[Any]:
        if x:
            return [*self.item.pack(x[0]), True]
        return [*(_zero(t) for t in self.item.types), False]

    def unpack(self, parts: Iterator[Any]) -> tuple:
        value = self.item.unpack(parts)
        return (value,) if next(parts) else ()


@dataclass(frozen=True)
class Nothing:
    """An object of the host that nothing here asks for: no parts."""

    bounds = MappingProxyType({})

    @property
    def types(self) -> list[Type]:
        return []

    def pack(self, x: Any) -> list[Any]:
        return []

    def unpack(self, parts: Iterator[Any]) -> Any:
        raise NotImplementedError("an object of the host as a result")


Form = Plain | Padded | Items | Maybe | Nothing


@dataclass
class Rep:
    """What stands for a value: the parts of a form, each a value or a number."""

    form: Form
    parts: list[Any]

    @property
    def value(self) -> Any:
        """The part of a plain value."""
        return self.parts[0]

    def size(self, d: int) -> Any:
        """The size of a tensor in a dim: an int, or a value that is one."""
        if isinstance(self.form, Padded) and d in self.form.dims:
            return self.parts[1 + self.form.dims.index(d)]
        return self.form.type.shape[d]

    @property
    def sizes(self) -> list[Any]:
        return [self.size(d) for d in range(len(self.form.type.shape))]


def _item(x: torch.Tensor, kind: Type) -> Any:
    return kind.kind(x.item()) if isinstance(kind, ScalarType) else x


def _zero(kind: Type) -> Any:
    if isinstance(kind, ScalarType):
        return kind.kind(0)
    return torch.zeros(kind.shape, dtype=kind.dtype, device=kind.device)


def form_of(kind: Type, capacity: int, device: str) -> Form:
    """The form of a type whose lists hold ``capacity`` items and are on ``device``; Unsupported for what has none."""
    if is_static(kind):
        return Plain(kind)
    if isinstance(kind, ScalarType):
        return Plain(kind)
    if isinstance(kind, ListType) and kind.element is not None:
        return Items(form_of(kind.element, capacity, device), capacity, device)
    if isinstance(kind, OptionalType):
        return Maybe(form_of(kind.element, capacity, device))
    if isinstance(kind, TensorType) and kind.shape is not None:
        return _roomy(kind, capacity)
    raise Unsupported(f"a value of type {kind}")


def empty_of(kind: Type, capacity: int, device: str) -> Form:
    """The form of an empty list or optional, whose items may be of any type."""
    if isinstance(kind, ListType):
        return Items(Nothing(), capacity, device)
    return Maybe(Nothing())


def _roomy(kind: TensorType, capacity: int) -> Padded:
    """Memory for as many elements as a list has items, in each open dim."""
    dims = tuple(d for d, n in enumerate(kind.shape) if n is None)
    made = replace(kind, shape=tuple(capacity if n is None else n for n in kind.shape))
    if math.prod(made.shape) * made.dtype.itemsize > BUDGET:
        raise Unsupported("a size that is known only at run time, without a bound")
    return Padded(made, dims)


def joined(a: Form, b: Form) -> Form:
    """The form that holds the values of both."""
    if a == b or isinstance(b, Nothing):
        return a
    if isinstance(a, Nothing):
        return b
    if isinstance(a, Maybe) and isinstance(b, Maybe):
        return Maybe(joined(a.item, b.item))
    if isinstance(a, Items) and isinstance(b, Items) and a.capacity == b.capacity:
        return replace(a, item=joined(a.item, b.item))
    shapes = [getattr(getattr(f, "type", None), "shape", None) for f in (a, b)]
    if None in shapes or len(shapes[0]) != len(shapes[1]) or a.type.dtype != b.type.dtype:
        raise Unsupported(f"branches that give {a} and {b}")
    dims = {d for f in (a, b) if isinstance(f, Padded) for d in f.dims}
    dims |= {d for d, (m, n) in enumerate(zip(*shapes)) if m != n}
    most = tuple(map(max, *shapes))
    return Padded(replace(a.type, shape=most), tuple(sorted(dims)))
