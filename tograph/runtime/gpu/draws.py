"""Random ops in a plan: which of torch's draws they are, and the generator that they draw from.

A plan draws from the device's default generator: its seed and offset are cells, which a call sets before it runs, and the
generator is moved on when all has run. A graph that fails has drawn nothing. Where no loop or branch draws, it is known how far each draw is from
that offset: then no kernel moves it, and the host, which knows where it ends, does not wait for the device.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import DTYPE_NAMES, TensorType
from ..kernels.loop_ir import Unsupported
from ..kernels.triton_ops import SIGNATURE
from ..kernels.triton_random import THREADS, Draw, shifted
from .steps import Conditional, Run, Step, Update, walk

Moves = dict[
    int, tuple[Update, int]
]  # by the id of a step that moves the offset: that step, and by how much
REAL = frozenset([torch.float16, torch.bfloat16, torch.float32, torch.float64])
_WHOLE = frozenset([torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
# The types of elements whose words torch takes as the kernels here do.
TYPES = {"uniform": REAL, "normal": REAL, "exponential": REAL, "integers": _WHOLE, "kept": {torch.bool},
         "bernoulli": {torch.float16, torch.bfloat16, torch.float32}, "chances": REAL | _WHOLE | {torch.bool}}  # fmt: skip
IN_TURN = ("uniform", "normal", "exponential", "bernoulli", "integers")
# Of more bytes torch draws those in several goes, each behind an offset of its own.
LONGEST = (1 << 31) - 1
BLOCKS = 132 * (2048 // THREADS)  # of an H200, for plans that are made without a GPU


@functools.cache
def blocks(device: str) -> int:
    """How many blocks of torch's kernels fit on a device at once."""
    if not device.startswith("cuda") or not torch.cuda.is_available():
        return BLOCKS
    found = torch.cuda.get_device_properties(device)
    return found.multi_processor_count * (found.max_threads_per_multi_processor // THREADS)


def draw_of(node: Node) -> Draw:
    """What an op draws; Unsupported for draws that torch alone can do."""
    kind = node.outputs[0].type
    assert isinstance(kind, TensorType)
    op, args = node.op, node.args
    if op == "tg.kept":
        return Draw("kept", args[0], of=SIGNATURE[DTYPE_NAMES[args[1]]])
    if op == "tg.random_fill":
        name, size, stride, *_ = args
        if tuple(stride) != _contiguous(size):
            raise Unsupported("random numbers in memory of other strides")
        op, args = name, (None, *args[5:])
    made = _DRAWS.get(op.split(".")[1])
    if made is None or node.kwargs.get("generator") is not None:
        raise Unsupported(f"{node.op} draws random numbers")
    draw = made(*(a for a in args if not isinstance(a, torch.Generator)), **_numbers(node.kwargs))
    if kind.dtype not in TYPES[draw.kind] or any(isinstance(p, Value) for p in (draw.first, draw.second)):  # fmt: skip
        raise Unsupported(f"{node.op} draws random numbers of type {kind.dtype}")
    if draw.kind in IN_TURN and math.prod(kind.shape) * kind.dtype.itemsize > LONGEST:
        raise Unsupported(f"{node.op} draws more than 2 GiB of random numbers")
    return draw


def _numbers(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in kwargs.items() if isinstance(v, (int, float)) and k != "pin_memory"}


def _contiguous(size: Any) -> tuple[int, ...]:
    return tuple(math.prod(size[d + 1 :]) for d in range(len(size)))


def _integers(*args: Any) -> Draw:
    """``high, size`` or ``low, high, size``, with or without a tensor that it is like."""
    numbers = [a for a in args if isinstance(a, int)]
    low, high = numbers if len(numbers) == 2 else (0, *numbers)
    if not 0 < high - low < 1 << 28:
        raise Unsupported("random integers of 64 bits")
    return Draw("integers", low, high)


_DRAWS: dict[str, Any] = {
    "rand": lambda *_: Draw("uniform"),
    "rand_like": lambda *_: Draw("uniform"),
    "uniform": lambda x, low=0.0, high=1.0: Draw("uniform", low, high),
    "uniform_": lambda x, low=0.0, high=1.0: Draw("uniform", low, high),
    "randn": lambda *_: Draw("normal"),
    "randn_like": lambda *_: Draw("normal"),
    "normal_functional": lambda x, mean=0.0, std=1.0: Draw("normal", mean, std),
    "normal_": lambda x, mean=0.0, std=1.0: Draw("normal", mean, std),
    "exponential": lambda x, rate=1.0: Draw("exponential", rate),
    "exponential_": lambda x, rate=1.0: Draw("exponential", rate),
    "bernoulli": lambda x, p=None: _bernoulli(p),
    "bernoulli_": lambda x, p=0.5: _bernoulli(p),
    "randint": _integers,
    "randint_like": _integers,
}


def counted(steps: Sequence[Step], moves: Moves) -> tuple[list[Step], int | None]:
    """(the steps, by how much they move the offset); as they are, and None, where the run decides that."""
    if any(id(inner) in moves for s in steps if isinstance(s, Conditional) for inner in walk([s])):
        return list(steps), None
    made: list[Step] = []
    by = 0
    for step in steps:
        if id(step) in moves:
            by += moves[id(step)][1]
        elif by and isinstance(step, Run) and "offset" in step.source.signature:
            made.append(replace(step, source=shifted(step.source, by)))
        else:
            made.append(step)
    return made, by


def _bernoulli(p: float | Value | None) -> Draw:
    return Draw("chances") if p is None or isinstance(p, Value) else Draw("bernoulli", p)


def read_by(node: Node, draw: Draw) -> Value | None:
    """The tensor that a draw reads; ``Unsupported`` for chances that are broadcast."""
    if draw.kind != "chances":
        return None
    x = node.args[1] if node.op == "aten.bernoulli.Tensor" else node.args[0]
    if x.type.shape != node.outputs[0].type.shape:
        raise Unsupported(f"{node.op} draws random numbers for chances of another size")
    return x


class Generator:
    """The default generator of a device: ``state`` is (seed, offset)."""

    def __init__(self, device: torch.device):
        self.made = torch.cuda.default_generators[device.index or 0]

    @property
    def state(self) -> tuple[int, int]:
        return self.made.initial_seed(), self.made.get_offset()

    def move(self, offset: int) -> None:
        self.made.set_offset(offset)
