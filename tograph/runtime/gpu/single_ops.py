"""Ops that are planned one by one: views, items of tensors, random numbers, library calls, and what the host does."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..graph.ir import Node, map_values
from ..graph.ordering import node_effects
from ..graph.types import DTYPE_NAMES, ObjectType, ScalarType
from ..kernels import triton_random, triton_rows
from ..kernels.loop_ir import Unsupported
from ..kernels.lower import metas_of
from ..kernels.triton_ops import SIGNATURE
from ..kernels.views import ITEM
from . import draws, library
from .nested_items import NESTED, SCATTER
from .places import Places
from .plan import Call, Cell, Copy, Host, Place, Run, Step, Update, View
from .steps import located


class SingleOps(Places):
    """Needs of the planner: a kernel as a step."""

    _run: Callable[..., Run]
    moves: draws.Moves

    def _identity(self, node: Node) -> list[Step]:
        self.where[node.outputs[0]] = self.place(node.args[0])
        return []

    def _view(self, node: Node) -> View:
        source, out = self.place(node.args[0]), node.outputs[0]
        given = map_values(lambda v: self.meta(v), node.args)
        (self.metas[out],) = metas_of(node, given, node.kwargs)
        self.bases[out] = self.bases.get(source, source)
        self.plan.layouts[out] = self.metas[out]
        args = (source, *node.args[1:])
        return View(node.op, args, node.kwargs, out, node.location)

    def _selection(self, node: Node) -> list[Step]:
        """``x[n]`` for a number of the device."""
        x, d, number = node.args
        meta = self.meta(x)
        if node in self.safe and 0 in node.outputs[0].type.shape:
            self._buffer(node.outputs[0])
            return []
        if not meta.size or 0 in meta.size or DTYPE_NAMES[meta.dtype] not in SIGNATURE:
            raise Unsupported(located(node.location, "an item of this tensor"))
        source = triton_rows.item(self.name("item"), meta, d % len(meta.size), node in self.safe)
        places = {
            "x": self.place(x),
            "at": self.place(number),
            "row": self._buffer(node.outputs[0]),
        }
        made = self._run(source, places, node, ["row"])
        return [replace(made, decides=frozenset(["at"]))]

    def _update(self, node: Node) -> list[Step] | None:
        """``x`` with item ``n`` replaced: the item is written where ``x`` is, if nobody reads that any more."""
        x, row, *path, d, index = node.args
        at, out = self.place(x), node.outputs[0]
        steps: list[Step] = []
        if at in self.frame.owned and self.frame.ends(x):
            self.where[out] = at
        else:
            steps = self._copies([self._buffer(out)], [at], node)
        target, given_row, row_meta = self.place(out), self.place(row), self.meta(row)
        if self.bases.get(given_row) is target:  # other threads may write what one still reads
            own = self._cell_of(row_meta.dtype, tuple(row_meta.size))
            steps.append(Copy([(own, given_row)], node.location))
            given_row, row_meta = own, self.meta_of(own)
        self.undefined.discard(target)
        whole, start = triton_rows.part(self.meta(out), path[0] if path else ())
        given = index if isinstance(index, int) else None
        name = self.name("item")
        source = triton_rows.render(name, whole, row_meta, d % len(whole.size), given, node in self.safe, start)  # fmt: skip
        places = {"x": target, "row": given_row}
        if given is None:
            places |= {"at": self.place(index)}
        made = self._run(source, places, node)
        return [*steps, Update(made.source, made.arguments, made.location, frozenset(["x"]), decides=frozenset(["at"]))]  # fmt: skip

    def _random(self, node: Node) -> list[Step]:
        """A kernel that draws, and one that moves the offset on."""
        try:
            draw = draws.draw_of(node)
            read = draws.read_by(node, draw)
        except Unsupported as why:
            raise Unsupported(located(node.location, str(why))) from why
        outputs = [self._buffer(v) for v in node.outputs]
        count, most = math.prod(self.meta(outputs[0]).size), draws.blocks(self.plan.device)
        name = self.name("random")
        kind = SIGNATURE[DTYPE_NAMES[self.meta(outputs[0]).dtype]]
        seed, offset = self._generator()
        outs = dict(zip(draw.arguments[-len(outputs) :], outputs))
        places: dict[str, Place] = {**outs, "seed": seed, "offset": offset}
        steps: list[Step] = []
        given = ""
        if read is not None:
            places[draw.arguments[0]], steps = self._dense(read, node)
            given = SIGNATURE[DTYPE_NAMES[self.meta(read).dtype]]
        source = triton_random.render(name, draw, count, most, kind, given)
        after = triton_random.advance(f"{name}_next", triton_random.words(draw, count, most, kind))
        moved = {"offset": offset, triton_rows.ACTIVE: self._always()}
        move = Update(after, moved, node.location, frozenset(["offset"]))
        self.moves[id(move)] = move, triton_random.words(draw, count, most, kind)
        return [*steps, self._run(source, places, node, outs), move]

    def _generator(self) -> tuple[Cell, Cell]:
        """The cells of the seed and of the offset."""
        if self.plan.generator is None:
            self.plan.generator = self._cell_of(torch.int64, ()), self._cell_of(torch.int64, ())
        return self.plan.generator

    def _library(self, node: Node) -> list[Step]:
        effects = node_effects(node)
        if effects.random:
            return self._random(node)
        if not node.op.startswith(("aten.", "op.")) or node.control_inputs:
            raise Unsupported(located(node.location, f"{node.op} runs on the host"))
        if any(isinstance(v.type, ScalarType) for v in node.inputs):
            raise Unsupported(
                located(node.location, f"{node.op} takes a number that is known only at run time")
            )
        args, kwargs = map_values(self.place, node.args), map_values(self.place, node.kwargs)
        given = library.wanted(node.op, node.args) or [True] * len(node.outputs)
        for v, made in zip(node.outputs, given):
            if not made:
                self.where[v] = self._cell_of(v.type.dtype, (0,))
        outputs = [self._buffer(v) if made else self.where[v] for v, made in zip(node.outputs, given)]  # fmt: skip
        return [Call(node.op, args, kwargs, outputs, node.location)]

    def _host(self, node: Node) -> Host:
        args, kwargs = map_values(self.place, node.args), map_values(self.place, node.kwargs)
        for v in node.outputs:
            if not isinstance(v.type, ObjectType):
                self._buffer(v)
        return Host(node.op, args, kwargs, node.outputs, node.location)

    SPECIAL: dict[str, Any] = {
        "tg.identity": _identity,
        "aten.select.int": _selection,
        SCATTER: _update,
        NESTED: _update,
        ITEM: _selection,
    }
