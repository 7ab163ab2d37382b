"""Block sizes of loops that run inside of one kernel, block by block: measured once on the data of a call, and kept on disk.

A block goes on until its last element has ended, so the best size follows from the data, not from its amount. Nothing is known of it
while a graph is planned; so the first call runs with the estimate, or with what an earlier process found. Behind it the memory of the plan still
has what its loops were given: each choice runs on that, into memory of its own. Where another one is clearly faster the graph is
planned again. Elements do not depend on each other, so results do not depend on the choice. Not yet seen on a GPU.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ... import disk
from ..graph.ir import Value
from ..kernels import triton_jit
from ..kernels.loop_ir import Unsupported
from ..kernels.triton_loops import STEPS, LoopSource, Shape
from ..kernels.triton_text import ERROR, Source
from ..kernels.tuning import CLEARLY, Clock, device_name
from .steps import Place, Run, Step, bases, dtype_name, reads, walk, writes
from .steps import size_of as bytes_of

SHAPES = (Shape(256, 2), Shape(128, 1), Shape(64, 1), Shape(32, 1), Shape(128, 4), Shape(512, 4), Shape(1024, 8))  # fmt: skip
SECONDS = 0.4  # for the loops of one plan
LONGEST = 0.02  # seconds of a start: a longer one is not worth a measurement
TIMES = 2  # starts in one measurement


@dataclass(frozen=True)
class Trial:
    """A loop in a plan: ``render(shape)`` gives its kernel for another shape; ``key`` names the loop and the size of its data."""

    key: str
    render: Callable[[Shape], LoopSource]


class Loops:
    """What is known of loops on one device: ``shape(key)``; None where the estimate is all there is."""

    def __init__(self, device: str, launch: Callable[[Source, dict[str, Any]], None], clock: Any = None):  # fmt: skip
        self.device, self.launch, self.clock = torch.device(device), launch, clock or Clock()
        self._known: dict[str, Shape | None] = {}

    def shape(self, key: str) -> Shape | None:
        if key not in self._known:
            self._known[key] = _kept(self._file(key))
        return self._known[key]

    def _file(self, key: str) -> str:
        parts = (key, device_name(self.device), triton_jit.version())
        return f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()}.loop"

    def measure(self, steps: Sequence[Step], trials: Mapping[str, Trial], of: Mapping[Place, torch.Tensor]) -> bool:  # fmt: skip
        """Measure those of a plan's loops that nothing is known of, on the memory of a run; whether a choice has changed."""
        end, changed = self.clock.now() + SECONDS, False
        for j, step in enumerate(steps):
            trial = trials.get(step.source.name) if isinstance(step, Run) else None
            if trial is None or self.shape(trial.key) is not None or _overwritten(step, steps[j + 1 :]):  # fmt: skip
                continue
            found = self._times(step, trial, of, end)
            best = min(found, key=lambda shape: found[shape], default=SHAPES[0])
            if SHAPES[0] not in found or found[best] > CLEARLY * found[SHAPES[0]]:
                best = SHAPES[0]
            if len(found) == len(SHAPES):
                content = {"block": best.block, "warps": best.warps, "seconds": found[best]}
                disk.store(self._file(trial.key), json.dumps(content).encode())
            self._known[trial.key] = best
            changed |= best != SHAPES[0]
        return changed

    def _times(self, step: Run, trial: Trial, of: Mapping[Place, torch.Tensor], end: float) -> dict[Shape, float]:  # fmt: skip
        """Seconds by shape, as far as the time goes."""
        found: dict[Shape, float] = {}
        for shape in SHAPES:
            if self.clock.now() > end or found.get(SHAPES[0], 0) > LONGEST:
                break
            try:
                loop = trial.render(shape)
                given = self._arguments(step, loop, of)
                found[shape] = self.clock.seconds(lambda s=loop.source, a=given: self.launch(s, a), TIMES)  # fmt: skip
            except Unsupported:  # such as more registers than there are
                found[shape] = math.inf
            except (
                Exception
            ):  # too little memory; memory that the run has let go; a driver that cannot do it
                break
        return found

    def _arguments(self, step: Run, loop: LoopSource, of: Mapping[Place, torch.Tensor]) -> dict[str, torch.Tensor]:  # fmt: skip
        """The memory that the step reads, and memory of its own for what it writes."""
        given: dict[str, torch.Tensor] = {}
        for name in loop.source.signature:
            place = step.arguments[name]
            if name in loop.counted or name == STEPS:
                kind = torch.int64 if name == STEPS else of[place].dtype
                given[name] = torch.empty(loop.source.programs, dtype=kind, device=self.device)
            elif name in loop.outputs or name == ERROR:
                given[name] = torch.zeros_like(of[place])
            else:
                given[name] = of[place]
        return given


def _overwritten(step: Run, later: Sequence[Step]) -> bool:
    """Whether what a step has read is not there any more: on other data a loop might never end."""
    of = bases([step, *later])
    written = {of.get(p, p) for s in walk(later) for p in writes(s)}
    return any(of.get(p, p) in written for p in reads(step))


def _kept(name: str) -> Shape | None:
    data = disk.load(name)
    try:
        found = json.loads(data) if data is not None else {}
        shape = Shape(found["block"], found["warps"])
    except (ValueError, KeyError, TypeError):
        return None
    return shape if shape in SHAPES else None


def key_of(loop: LoopSource, inputs: Sequence[Value]) -> str:
    """A loop's text without its name, and the class of the amount of its data."""
    amount = sum(bytes_of(v) for v in inputs).bit_length()
    types = ", ".join(dtype_name(v) for v in inputs)
    return f"{loop.source.text.replace(loop.source.name, 'loop')}\n{types}\n{amount}"
