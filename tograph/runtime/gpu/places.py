"""Where the values of a plan are: the memory that it has, and what its planner knows about it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from ..graph.ir import Node, Value, as_word
from ..graph.types import ScalarType, TensorType, Type
from ..inference.shapes import Meta, contiguous
from ..kernels.loop_ir import Unsupported
from ..kernels.triton_text import ERROR
from .bounded import Bounded
from .memory import Frame
from .plan import Cell, Copy, Place, Plan, Step


class Places:
    """``where``: what stands for a value; ``bases``: the memory that a view is of; ``undefined``: memory without content."""

    def __init__(self, form: Bounded, device: str, safe: set[Node]):
        self.graph, self.safe = form.graph, safe
        self.plan = Plan(self.graph.name, device, list(self.graph.inputs), [], form=form)
        self.where: dict[Value, Place] = {}
        self.metas: dict[Value, Meta] = {}
        self.bases: dict[Place, Place] = {}
        self.undefined: set[Place] = set()
        self.frame = Frame(self.graph, [])
        self.count, self.handles = itertools.count(), itertools.count()

    def name(self, kind: str) -> str:
        """A name for the next kernel."""
        word = as_word(self.graph.name)
        return f"{word}_{kind}{next(self.count)}"

    def place(self, a: Any, like: Type | None = None) -> Place:
        """Where a value is; constants get a cell."""
        while isinstance(a, Value) and a in self.where:
            a = self.where[a]
        if isinstance(a, (Value, Cell)):
            return a
        kind = like.dtype if like is not None else torch.as_tensor(a).dtype
        for known, content in self.plan.constants.items():
            if isinstance(known, Cell) and known.type.dtype == kind and repr(content) == repr(a):
                return known
        if not isinstance(a, (bool, int, float)):
            raise Unsupported(f"a constant {a!r} as a value")
        cell = Cell(f"c{len(self.plan.constants)}", TensorType(kind, (), self.plan.device), a)
        self.plan.constants[cell] = a
        return cell

    def _buffer(self, v: Value) -> Value:
        if v not in self.plan.buffers:
            if not isinstance(v.type, (TensorType, ScalarType)):
                raise Unsupported(f"a value of type {v.type}")
            shape = () if isinstance(v.type, ScalarType) else v.type.shape
            if shape is None or None in shape:
                raise Unsupported("a size that is known only at run time")
            self.plan.buffers[v] = None
            self.frame.owned.add(v)
            where = torch.device(self.plan.device)
            self.metas[v] = contiguous(v.type.dtype, shape, where)
        return v

    def _cell(self, like: Place) -> Cell:
        kind = like.type
        shape = () if isinstance(kind, ScalarType) else kind.shape
        return self._cell_of(kind.dtype, shape)

    def _cell_of(self, dtype: torch.dtype, shape: tuple[int, ...]) -> Cell:
        cell = Cell(f"t{next(self.count)}", TensorType(dtype, shape, self.plan.device))
        self.plan.buffers[cell] = None
        return cell

    def _error(self) -> Cell:
        if self.plan.error is None:
            self.plan.error = Cell(ERROR, TensorType(torch.int32, (1,), self.plan.device), 0)
            self.plan.constants[self.plan.error] = 0
        return self.plan.error

    def meta(self, v: Value) -> Meta:
        """Size and strides of a tensor's memory, of another kind for a value that stands for it."""
        return self.meta_of(self.place(v))

    def meta_of(self, at: Place) -> Meta:
        if isinstance(at, Cell):
            return contiguous(at.type.dtype, at.type.shape, torch.device(self.plan.device))
        return self.metas[at]

    def _always(self) -> Place:
        return self.place(True)

    def _dense(self, x: Value, node: Node) -> tuple[Place, list[Step]]:
        """A value in contiguous memory."""
        meta = self.meta(x)
        if meta.stride == contiguous(*meta[:2], torch.device("cpu")).stride:
            return self.place(x), []
        cell = self._cell_of(meta.dtype, tuple(meta.size))
        return cell, [Copy([(cell, self.place(x))], node.location)]

    def _copies(self, targets: Sequence[Place], sources: Sequence[Place], node: Node) -> list[Step]:
        """Copies as if all at once: what is overwritten before it is read goes through other memory."""
        pairs = [(a, b) for a, b in zip(targets, sources, strict=True) if a is not b and b not in self.undefined]  # fmt: skip
        written = {a for a, _ in pairs}
        moved: list[tuple[Place, Place]] = []
        for i, (a, b) in enumerate(pairs):
            if b in written or self.bases.get(b) in written:
                between = self._cell(a)
                moved.append((between, b))
                pairs[i] = (a, between)
        return [Copy(p, node.location) for p in (moved, pairs) if p]
