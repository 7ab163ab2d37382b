"""A plan run kernel by kernel into the memory that the caller gets: for straight-line graphs of few kernels, or that make much data.

A CUDA graph writes where it was captured to, so that its results have to be copied out, which takes a bandwidth-bound kernel as
long again as the kernel itself, and the host as long as two starts more. Here each call has outputs of its own, and inputs are read where they are;
what is between stays in the plan's memory. The host starts every kernel, ahead of the device: ``worth`` weighs that against the copies.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import torch

from ..graph.ir import Value
from ..graph.types import TensorType
from .execute import Stepwise
from .forms import Plain
from .plan import Conditional, Host, Place, Plan, View
from .storage import from_host

# Estimates, to be measured on a device: ``benchmarks/gpu.py`` tells them.
COPIED = 3e12  # bytes of a second that a copy reads and writes
LAUNCH = 8e-6  # seconds of the host for one start from Python
GRAPH = 1.5e-5  # seconds of the host for the launch of a CUDA graph, with copies of what goes in and comes out


def worth(plan: Plan) -> bool:
    """Whether a CUDA graph takes longer, with the copies of its results, than the host takes to start the steps."""
    if any(isinstance(s, (Conditional, Host)) for s, _ in plan.walk()):
        return False
    starts = sum(not isinstance(s, View) for s, _ in plan.walk())
    made = sum(2 * _bytes(v) for v in fresh(plan))
    graph = 0.0 if plan.form.written else GRAPH  # it writes variables without copies
    return graph + made / COPIED > starts * LAUNCH


def fresh(plan: Plan) -> dict[Place, None]:
    """The outputs that are memory of the plan, whole: each call can have its own."""
    known = {*plan.inputs, *plan.constants}
    return {v: None for v in plan.outputs if v in plan.buffers and v not in known and _large(v)}


def _large(place: Place) -> bool:
    return isinstance(place, Value) and isinstance(place.type, TensorType) and place.type.shape != ()  # fmt: skip


def _bytes(place: Any) -> int:
    return math.prod(place.type.shape) * place.type.dtype.itemsize


class Direct(Stepwise):
    """``run(*inputs)`` gives the outputs of the graph, in memory of the call's own.

    ``short``: whether a call has nothing to do but start the steps on what it is given: then it is not asked what else there may be.
    """

    def __init__(self, plan: Plan, where: str | None = None):
        self.fresh = fresh(plan)
        # What is bound has no memory of the plan: the inputs, and the outputs that each call has for itself.
        sent = {*from_host(plan)}
        bound = {v: torch.empty(0) for v in (*_tensors(plan.inputs), *self.fresh) if v not in sent}
        super().__init__(plan, where, bound)
        self.memory.own = frozenset(self.fresh)
        self.short = _short(plan, self.fresh)
        kept = {*self.plan.buffers, *self.plan.constants} - self.memory.bound.keys()
        self._kept = {p: x for p, x in self.memory.of.items() if p in kept}
        self._rows: tuple[Any, bool] = (None, False)  # strides that were asked for, and whether they are those of memory in a row  # fmt: skip
        self._release()

    def run(self, *inputs: Any) -> list[Any]:
        memory = self.memory
        for v in self.fresh:
            memory.of[v] = torch.empty(v.type.shape, dtype=v.type.dtype, device=memory.device)
        try:
            return super().run(*inputs)
        finally:
            self._release()

    def _called(self, inputs: Sequence[Any]) -> list[Any]:
        if not self.short or self.behind is not None or not self._in_rows():
            return super()._called(inputs)
        of = self.memory.of
        for v, x in zip(self.plan.inputs, inputs, strict=True):
            of[v] = (x if type(x) is torch.Tensor else x.detach()).contiguous()
        self.play()
        return [of[v] for v in self.plan.outputs]

    def _in_rows(self) -> bool:
        """Whether the outputs are to lie in a row, as they do here."""
        wanted = self.memory.strides
        if self._rows[0] is not wanted:
            pairs = zip(self.plan.outputs, wanted) if wanted else ()
            self._rows = wanted, all(s in (None, self.memory.of[v].stride()) for v, s in pairs)
        return self._rows[1]

    def _release(self) -> None:
        """Keep the plan's own memory only: no input, no output, no view."""
        self.memory.of = dict(self._kept)


def _short(plan: Plan, own: Collection[Place]) -> bool:
    """Whether tensors are all that goes in and out, nothing can fail or is written outside, and each output is one that the call has for itself."""
    form, outputs = plan.form, plan.outputs
    plain = all(isinstance(f, Plain) for f in (*form.inputs, *form.outputs))
    only_tensors = len(_tensors(plan.inputs)) == len(plan.inputs)
    alone = len({*outputs}) == len(outputs) and all(v in own for v in outputs)
    cells = plan.error or plan.generator or plan.ring
    moved = form.written or form.from_host or form.to_host or plan.stored
    return plain and only_tensors and alone and not cells and not moved


def _tensors(places: Sequence[Value]) -> list[Value]:
    return [v for v in places if isinstance(v.type, TensorType)]
