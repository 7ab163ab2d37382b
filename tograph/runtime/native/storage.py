"""The values of a function while it is written: where each of them is, and the code that moves them.

A value is an operand (``values``): in a register, in memory, or not yet computed. Memory is held while a bound value or a pending
result is in it; what nobody holds is used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ..graph.ir import Graph, Node, Value
from ..graph.types import DTYPE_NAMES, TensorType
from ..kernels.loop_ir import LONGEST, Open
from . import buffers, complex_parts, direct, extents, loop_nodes, text_code, transposes
from .arena import Arena
from .code import REGISTER, SIZE, Code, literal
from .numbers import Numbers
from .sizes import Sizes
from .values import (
    Decline,
    Fill,
    Mem,
    Operand,
    Reg,
    Room,
    alike,
    endless,
    laid_out,
    numel,
    row_major,
    strides,
    wide,
)

# Bytes that a tensor whose size only the run knows may take in the plan of memory.
_PLANNED = 1 << 28


class Storage:
    """The operands of the values of ``graph``. ``in_place``: whether variables may be computed in their own memory.

    ``in_order``: whether sizes without a bound are laid out in the order of dimensions, where nothing grows (``extents``).
    """

    def __init__(self, graph: Graph, in_place: bool, in_order: bool):
        self.graph, self.code, self.in_order = graph, Code(), in_order
        self.functions: list[str] = []  # functions of the module besides the graph's
        self._known: dict[str, str] = {}  # their names by what follows them
        self.globals: dict[str, str] = {}
        self.arena = Arena()
        self.base = ""  # the register with the arena's address
        # at 0: where the table of calls is, that of the buffers, the texts, and the table of generators
        self.arena.hold(frozenset([self.arena.allocate(32)[0]]))
        self.generators: list[torch.Generator] = []  # which the program gives, by number
        self.texts: dict[str, int] = {}  # those that the code knows, by number
        self.buffers = buffers.Plan(self)
        self.direct = direct.Writes(self, in_place)
        self.numbers = Numbers(self.code, self.fail)
        self.sizes = Sizes(self)
        self.code.spans = self.sizes.span
        self.env: dict[Value, Operand] = {}
        self.dests: dict[Value, Mem | Room] = {}  # where values are to be computed
        self.written: dict[Value, Operand] = {}  # resources that were assigned: what they hold now
        # indices and lengths that were computed and checked before this place
        self.found: dict[tuple, Any] = {}
        self.overwrites: set[Node] = set()  # updates that may be made in the memory of their base
        self.updates: set[Value] = set()  # their results
        self.reserved: dict[Node, Mem] = {}  # where what a node pushes is computed
        self.work = 0.0

    def slot(self, i: int) -> str:
        """The address of a parameter's slot."""
        return self.code.do(f"getelementptr i64, ptr %params, i64 {i}")

    def tensor(self, v: Value) -> tuple[str, tuple[int, ...]]:
        """(dtype, size) of a tensor that native code can hold."""
        kind = v.type
        if not isinstance(kind, TensorType):
            raise Decline(f"a value of type {kind}")
        dtype = DTYPE_NAMES[kind.dtype]
        size = self.sizes.of.get(v, kind.shape)
        if kind.device != "cpu" or None in size or dtype not in SIZE:
            raise Decline(f"a value of type {kind}")
        return dtype, tuple(map(self.sizes.fixed, size))

    def fail(self, condition: str) -> None:
        """Decline where ``condition`` is true."""
        if condition == "false":
            return
        if self.direct.begun:
            raise direct.Late
        ok = self.code.fresh("ok")
        self.code.line(f"br i1 {condition}, label %declined, label %{ok}, !prof !9")
        self.globals["prof"] = '!9 = !{!"branch_weights", i32 1, i32 1000000}'
        self.code.label(ok)

    def bind(self, v: Value, x: Operand) -> None:
        """Let ``x`` be the value ``v``, and hold its memory."""
        self.arena.hold(x.owners)
        self.env[v] = x
        self.sizes.note(v, x.size or ())

    def unbind(self, v: Value) -> None:
        """Forget ``v``, and release its memory."""
        x = self.env.pop(v, None)
        if x is not None:
            self.arena.release(x.owners)
        self.sizes.of.pop(v, None)

    def release(self, xs: Sequence[Operand]) -> None:
        for x in xs:
            self.arena.release(x.owners)

    def operand(self, a: Any) -> Operand:
        """The operand of an argument: a value, or a Python number."""
        if isinstance(a, Value):
            return self.written.get(a, self.env[a])
        if isinstance(a, bool):
            return Reg(literal(a, "bool"), "bool")
        if isinstance(a, int):
            if not -(1 << 63) <= a < 1 << 63:
                raise Decline("an int of more than 64 bits")
            return Reg(literal(a, "i64"), "i64")
        if isinstance(a, float):
            return Reg(literal(a, "f64"), "f64")
        if type(a) is str:
            return text_code.known(self, a)
        raise Decline(f"an argument of type {type(a).__name__}")

    def register(self, x: Operand) -> Reg:
        """A one-element operand in a register; the code declines where only the run knows that it has another number of elements."""
        if isinstance(x, Reg):
            return x
        for n in x.size:
            if isinstance(n, Open):
                self.sizes.require(n, 1)
        if isinstance(x, Fill):
            made = loop_nodes.inline(self, x.node)[x.node.outputs[0]]
            return replace(made, size=x.size)
        if x.dtype not in REGISTER:
            raise Decline("a complex number in a register")
        return Reg(self.code.load(x.dtype, x.pointer), x.dtype, x.size, x.alias)

    def new(self, dtype: str, size: tuple[int, ...]) -> Mem:
        """Memory in the arena that nobody holds yet; in a buffer, where only the run knows how much."""
        if wide(size):
            place, owner = self.buffers.new()
            nbytes = self.code.multiply(self.sizes.elements(size), SIZE[dtype])
            owners = frozenset([owner])
            data = self.buffers.room(place, "0", nbytes, owners)
            return laid_out(data, dtype, size, owners, place)
        if any(isinstance(n, Open) for n in size) and numel(size) * SIZE[dtype] > _PLANNED:
            place, owner = self.buffers.new()
            return self.placed(Room(place, frozenset([owner]), endless(size) or 0), dtype, size)
        owner, offset = self.arena.allocate(numel(size) * SIZE[dtype])
        pointer = self.code.do(f"getelementptr i8, ptr {self.base}, i64 {offset}")
        return laid_out(pointer, dtype, size, frozenset([owner]))

    def row_by_row(self, x: Operand) -> Mem:
        """``x`` in eager PyTorch's order without room for more: where it is, if it lies so, else in new memory."""
        size = x.size or ()
        if not any(isinstance(n, Open) for n in size):
            return self.contiguous(x)
        stride = row_major(size)
        if isinstance(x, Mem) and alike(size, x.stride, stride):
            return replace(x, stride=stride, lead=None, place="")
        count = self.sizes.new(self.sizes.elements(size), min(numel(size), LONGEST))
        found = replace(self.new(x.dtype, (count,)), size=size, stride=stride, place="")
        self.copy(x, found)
        return found

    def placed(self, room: Room, dtype: str, size: tuple) -> Mem:
        """A new tensor in a buffer; what was there is lost."""
        first = room.dim
        rest = numel(size[:first] + size[first + 1 :]) * SIZE[dtype]
        if rest > _PLANNED or endless(size) not in (None, first) or strides(size)[first] * SIZE[dtype] != rest:  # fmt: skip
            raise Decline("a temporary whose size is known only at run time")
        nbytes = self.code.multiply(self.sizes.text(size[first]), rest)
        data = self.buffers.room(room.place, "0", nbytes, room.owners)
        return laid_out(data, dtype, size, room.owners, room.place)

    def target(self, v: Value) -> Mem:
        """Where the tensor ``v`` is to be computed."""
        dtype, size = self.tensor(v)
        dest = self.dests.pop(v, None)
        if isinstance(dest, Room):
            return self.placed(dest, dtype, size)
        return dest or self.new(dtype, size)

    def moved(self, x: Operand, dest: Mem | Room) -> Mem:
        """``x`` at ``dest``: copied there where it is not there already."""
        if isinstance(dest, Room):
            if isinstance(x, Mem) and x.place == dest.place:
                return x
            made = self.placed(dest, x.dtype, extents.unbounded(self, x.size, dest.dim))
        elif isinstance(x, Mem) and x.pointer == dest.pointer:
            return x
        else:
            made = dest
        self.copy(x, made)
        return replace(made, dense=x.settled)

    def memory(self, x: Operand) -> Mem:
        """``x`` in memory; a fill or a register is written to new memory, which the caller must hold."""
        if isinstance(x, Mem):
            return x
        made = self.new(x.dtype, x.size or ())
        self.copy(x, made)
        return made

    def contiguous(self, x: Operand) -> Mem:
        """``x`` in contiguous memory."""
        if isinstance(x, Mem) and x.contiguous:
            return x
        made = self.new(x.dtype, x.size or ())
        self.copy(x, made)
        return made

    def function(self, stem: str, text: str) -> str:
        """The name of a function without result, given from its parameters on; one text is one function."""
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = f"{stem}{len(self.functions)}"
            self.functions.append(f"define internal void @{name}{text}")
        return name

    def _bytes(self, source: Mem, target: Mem) -> str:
        """How many bytes are copied, where elements follow each other in both places; else an empty text."""
        if source.contiguous and target.contiguous:
            return str(numel(source.size) * SIZE[source.dtype])
        if wide(source.size) and all(alike(x.size, x.stride, row_major(x.size)) for x in (source, target)):  # fmt: skip
            return self.code.multiply(self.sizes.elements(source.size), SIZE[source.dtype])
        opened = [d for d, n in enumerate(source.size) if isinstance(n, Open)]
        if len(opened) != 1 or not source.packed or source.stride != target.stride:
            return ""
        (d,) = opened
        rest = numel(source.size[:d] + source.size[d + 1 :])
        if source.stride[d] != rest:
            return ""
        return self.code.multiply(self.sizes.text(source.size[d]), rest * SIZE[source.dtype])

    def copy(self, source: Operand, target: Mem) -> None:
        """Write all elements of ``source`` to ``target``, which has its dtype and does not overlap it."""
        if source.dtype != target.dtype:
            raise Decline("a copy that converts")
        if isinstance(source, Mem) and (nbytes := self._bytes(source, target)):
            self.code.declare("llvm.memmove.p0.p0.i64", "void {}(ptr, ptr, i64, i1)")
            self.code.line(f"call void @llvm.memmove.p0.p0.i64(ptr {target.pointer}, ptr {source.pointer}, i64 {nbytes}, i1 false)")  # fmt: skip
            self.work += 0.05 * (int(nbytes) if nbytes.isdigit() else numel(source.size[1:]))
            return
        if isinstance(source, Reg):
            self.code.store(source.dtype, source.text, target.pointer)
            return
        if isinstance(source, Mem) and source.dtype in complex_parts.PARTS:
            self.copy(complex_parts.in_pairs(source), complex_parts.in_pairs(target))
            return
        if isinstance(source, Mem) and transposes.fits(source, target):
            transposes.copy(self, source, target)
            return
        loop_nodes.copy(self, source, target)
