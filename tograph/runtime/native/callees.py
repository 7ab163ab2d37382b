"""The Python objects that native code asks for an op: they view its memory as tensors, and torch runs the op on them.

A loop meets few different operands, so what these mean, and the views of their memory, are kept. Where results go may be new at each call of the program, so
a place is told its address with each of them. A large result that is the caller's stays where torch has put it (``Own``): it is neither copied, nor is there
memory for it beside torch's.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..graph import ops
from ..graph.generators import generator_of
from ..graph.ir import Node, Value, map_values, values_in
from ..graph.opaque import plain
from ..graph.ordering import node_effects
from ..graph.types import DTYPES
from ..kernels.loop_ir import Open
from .values import NO_OWNERS, Mem, Span, alike, strides

LARGE = 1 << 18  # bytes that torch copies by several threads


KEPT = 64  # views that a call keeps, by address


class Call:
    """One op on memory. ``self(address)`` of a block of 64-bit slots: operands, results, open sizes, and for each result of a size that only
    the op tells (``Later``) where it is and its size.

    ``wanted``: which of the op's results are used. ``exact``: for each whether it must have the strides of its place, which are those of eager PyTorch then.
    """

    native_ops = 3  # that a graph must have for each call to be worth it
    spare = 0  # words behind the others

    def __init__(self, node: Node, inputs: list[Value], operands: list[Any], results: list[Mem | Later], exact: list[bool], wanted: list[int]):  # fmt: skip
        self.node, self.run = node, ops.quick(node.op) or ops.lookup(node.op).run
        self.random, self.generator = node_effects(node).random, generator_of(node)
        self._inputs, self._operands, self._results = inputs, operands, results
        self._exact, self._wanted = exact, wanted
        held = [x for x in (*operands, *results) if isinstance(x, Mem)]
        self.opened = list(dict.fromkeys(n for x in held for n in opened(x)))
        self.words = len(operands) + len(results) + len(self.opened)
        self._targets = f"{len(results)}q"
        self.later = [x for x in results if isinstance(x, Later)]
        self.copied = any(type(x) is Later for x in results)
        self._owned: list[torch.Tensor | None] = []
        self._views: dict[Any, torch.Tensor] = {}
        self._laid: dict[bytes, Any] = {}  # how operands and results lie, by the open sizes
        self._known: dict[Any, Any] = {}  # what the operands are, and the places of the results

    def __reduce__(self) -> Any:
        """The same call of a node that stands in no graph, for later processes."""
        bare = {v: Value(v.type) for v in self._inputs}
        args, kwargs = (map_values(bare.__getitem__, a) for a in (self.node.args, self.node.kwargs))
        node = Node(self.node.op, args, kwargs, [v.type for v in self.node.outputs])
        rest = (self._operands, self._results, self._exact, self._wanted)
        return type(self), (node, list(bare.values()), *rest)

    def __call__(self, address: int) -> bool:
        """Whether the op ran, and gave what its types say."""
        block = ctypes.string_at(address, 8 * self.words)
        first = 8 * len(self._operands)
        given = block[:first] + block[first + 8 * len(self._results) :]
        args, kwargs, places = self._known.get(given) or self._read(given)
        try:
            found = self.run(*args, **kwargs)
        except TypeError:  # the quick function takes its arguments in another way
            reference, self.run = self.run, ops.lookup(self.node.op).run
            return self.run is not reference and self(address)
        except Exception:  # ops raise anything, and an error would be lost in the C caller: the host runs the op again and raises it
            return False
        results = [found] if type(found) is torch.Tensor else [found[i] for i in self._wanted]
        at = struct.unpack_from(self._targets, block, first)
        if not all(place.put(x, to) for x, place, to in zip(results, places, at)):
            return False
        if self.later:
            words = [word for place in places if isinstance(place, _Kept) for word in place.words()]
            self._owned = [place.given() for place in places if isinstance(place, _Owned)]
            ctypes.memmove(address + 8 * self.words, struct.pack(f"{len(words)}q", *words), 8 * len(words))  # fmt: skip
        return True

    def drop(self) -> None:
        """Forget the results that the code has copied."""
        if self.copied:
            self._known.clear()

    def take(self, k: int) -> torch.Tensor | None:
        """Number ``k`` of the ``Own`` results of the last run, which the call holds no longer."""
        x, self._owned[k] = self._owned[k], None
        return x

    def slots(self, block: bytes) -> tuple[int, ...]:
        return struct.unpack(f"{self.words}q", block)

    def _read(self, given: bytes) -> Any:
        """(args, kwargs, places of the results) for the slots of the operands and open sizes."""
        count = len(self._operands)
        slots = struct.unpack(f"{len(given) // 8}q", given)
        opened = given[8 * count :]
        forms, places = self._laid.get(opened) or self._lie(opened, slots[count:])
        values = [self._value(x, bits, form) for x, bits, form in zip(self._operands, slots, forms)]
        flat = self._flat
        if flat is not None:
            args: Any = [values[x] if known else x for known, x in flat]
            kwargs = {k: plain(x) for k, x in self.node.kwargs.items()}
        else:
            env = dict(zip(self._inputs, values))
            args = map_values(env.__getitem__, self.node.args)
            kwargs = {k: plain(map_values(env.__getitem__, x)) for k, x in self.node.kwargs.items()}
        if self.later:
            taken = frozenset(bits for form, bits in zip(forms, slots) if form is not None)
            places = [x.place(taken) if isinstance(x, Later) else p for x, p in zip(self._results, places)]  # fmt: skip
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[given] = args, kwargs, places
        return args, kwargs, places

    def _lie(self, opened: bytes, numbers: Sequence[int]) -> Any:
        """(dtype, size and strides of each operand that is a tensor, the place of each result) with the open sizes known."""
        sizes = dict(zip(self.opened, numbers))
        forms = [lies(x, sizes) for x in self._operands]
        pairs = zip(self._results, self._exact)
        places = [None if isinstance(x, Later) else _Place(lies(x, sizes), exact, x.open) for x, exact in pairs]  # fmt: skip
        if len(self._laid) >= KEPT:
            self._laid.clear()
        self._laid[opened] = forms, places
        return forms, places

    @functools.cached_property
    def _flat(self) -> list[tuple[bool, Any]] | None:
        """The arguments where none is in another: for each whether it is an operand, and its number or itself."""
        args = self.node.args
        nested = [x for x in (*args, self.node.kwargs) if not isinstance(x, Value)]
        if next(values_in(nested), None) is not None:
            return None
        number = {v: k for k, v in enumerate(self._inputs)}
        return [
            (isinstance(x, Value), number[x] if isinstance(x, Value) else plain(x)) for x in args
        ]

    def _value(self, x: Any, bits: int, form: Any) -> Any:
        """What a slot says. ``form``: how a tensor lies, None for a number."""
        if form is not None:
            return self._view(bits, form)
        if x.dtype == "text":
            return ctypes.cast(bits, ctypes.py_object).value
        if x.dtype == "f64":
            return ctypes.c_double.from_buffer(ctypes.c_int64(bits)).value
        return bool(bits & 1) if x.dtype == "bool" else bits

    def _view(self, address: int, form: Any) -> torch.Tensor:
        key = (address, form)
        found = self._views.get(key)
        if found is None:
            if len(self._views) >= KEPT:
                self._views.clear()
            found = self._views[key] = _viewed(address, *form)
        return found


def lies(x: Any, sizes: dict[Open, int]) -> Any:
    """(dtype, size, strides) of a tensor; None for a number."""
    return (DTYPES[x.dtype], *laid(x, sizes)) if isinstance(x, Mem) else None


def opened(x: Mem) -> list[Open]:
    """The open sizes that a tensor has, or that its strides depend on."""
    inside = [n for s in x.stride if isinstance(s, Span) for n in s.sizes]
    every: list[Any] = [*x.size, *inside]
    return [n for n in every if isinstance(n, Open)]


def laid(x: Mem, sizes: dict[Open, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The size and the strides of a tensor, with the open sizes known."""
    size = tuple(sizes.get(n, n) for n in x.size)  # type: ignore[call-overload]
    return size, tuple(s.value(sizes) if isinstance(s, Span) else s for s in x.stride)


def _viewed(address: int, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int]) -> torch.Tensor:  # fmt: skip
    """A tensor over memory."""
    if 0 in size:
        return torch.empty(size, dtype=dtype)
    length = 1 + sum((n - 1) * s for n, s in zip(size, stride))
    memory = (ctypes.c_char * (length * dtype.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=dtype).as_strided(size, stride)


@dataclass(frozen=True)
class Later:
    """A result some sizes of which only the op tells. ``in_order``: whether one alone is laid out in its place; ``loose``: whether torch may
    give it any strides."""

    dtype: str
    shape: tuple[int | None, ...]
    in_order: bool = False
    loose: bool = False

    owners = NO_OWNERS

    @property
    def dims(self) -> list[int]:
        """The dimensions whose sizes only the op tells."""
        return [d for d, n in enumerate(self.shape) if n is None]

    @property
    def words(self) -> int:
        """The words that tell of it: where it is, and these sizes."""
        return 1 + len(self.dims)

    def fits(self, x: torch.Tensor) -> bool:
        """Whether a result is what the graph says, and contiguous where it has to be."""
        same = len(x.shape) == len(self.shape) and all(m in (None, n) for n, m in zip(x.shape, self.shape))  # fmt: skip
        return same and x.dtype is DTYPES[self.dtype] and (self.loose or x.is_contiguous())

    def place(self, taken: frozenset[int]) -> _Kept:
        """Where it goes. ``taken``: the addresses of the operands."""
        return _Kept(self)


class Own(Later):
    """A result, all sizes of which are known, that is one of the program's and is given as torch has made it."""

    def place(self, taken: frozenset[int]) -> _Kept:
        return _Owned(self, taken)


class _Kept:
    """Such a result, until the next one; one dimension without a bound may be laid out first."""

    __slots__ = ("sizes", "tensor", "what")

    def __init__(self, what: Later):
        self.what = what

    def put(self, x: torch.Tensor, address: int) -> bool:
        if not self.what.fits(x):
            return False
        dims = self.what.dims
        self.sizes = [x.shape[d] for d in dims]
        turns = len(dims) == 1 and not self.what.in_order
        self.tensor = (x.movedim(dims[0], 0) if turns else x).contiguous()
        return True

    def words(self) -> tuple[int, ...]:
        return self.tensor.data_ptr(), *self.sizes


class _Owned(_Kept):
    """Such a result of known size, until it is given; one that shares memory with an operand, or is a part of a larger tensor, is copied."""

    __slots__ = ("taken",)

    def __init__(self, what: Later, taken: frozenset[int]):
        super().__init__(what)
        self.taken = taken

    def put(self, x: torch.Tensor, address: int) -> bool:
        if not super().put(x, address):
            return False
        if x.data_ptr() in self.taken or x.untyped_storage().nbytes() != x.nbytes:
            self.tensor = x.clone()
        return True

    def given(self) -> torch.Tensor:
        x = self.tensor
        del self.tensor
        return x


class _Place:
    """What a result has to be: its type and its strides; any strides where they are not ``exact``."""

    __slots__ = ("dtype", "exact", "nbytes", "shape", "stride")

    def __init__(self, form: Any, exact: bool, opened: bool):
        dtype, size, stride = form
        # What is laid out for an open size has other strides than eager PyTorch's tensor, which is contiguous.
        self.exact = (strides(size) if opened else stride) if exact else None
        self.dtype, self.shape, self.stride = dtype, torch.Size(size), stride
        self.nbytes = math.prod(size) * dtype.itemsize
        if self.nbytes > LARGE or not without_gaps(size, stride):
            self.nbytes = -1

    def put(self, x: torch.Tensor | None, address: int) -> bool:
        """Copy a result to its address; whether it is what it has to be."""
        if x is None or x.dtype is not self.dtype or x.shape != self.shape:
            return False
        same = x.stride() == self.stride
        if same and self.nbytes >= 0:
            ctypes.memmove(address, x.data_ptr(), self.nbytes)
            return True
        if self.exact is not None and not alike(self.shape, x.stride(), self.exact):
            return False
        _viewed(address, self.dtype, self.shape, self.stride).copy_(x)
        return True


def without_gaps(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the elements of a tensor fill its memory, in whatever order."""
    step = 1
    for s, n in sorted((s, n) for s, n in zip(stride, size) if n != 1):
        if s != step:
            return False
        step *= n
    return True
