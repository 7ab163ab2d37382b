"""A compiled kernel: machine code for one loop IR kernel, and how to call it.

``make`` renders and compiles; ``Kernel.run`` calls the code through ctypes, on torch's threads when there is work for them.
A kernel that sets an error code has written nothing that may be used.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import torch

from ..graph.types import DTYPES
from . import jit, llvm, loop_ir, threads
from .gpu_forms import GpuForms
from .loop_ir import COSTLY, DIVISION_BY_ZERO, INDEX_OUT_OF_RANGE
from .planning import usual

WORK_PER_THREAD = 1 << 15  # in the time of one simple op on one element
COSTLY_WORK = 8
_MESSAGES = {DIVISION_BY_ZERO: "ZeroDivisionError", INDEX_OUT_OF_RANGE: "index out of range"}


class KernelFailed(Exception):
    """A kernel returned an error code; ``str`` says which."""


@cache
def target(precise: bool = False) -> llvm.Target | None:
    """What kernels may use on this machine; None where nothing can be compiled."""
    host = jit.host()
    if host is None:
        return None
    half = "+f16c" in host.features or "+avx512f" in host.features or platform.machine() == "aarch64"  # fmt: skip
    return llvm.Target(
        host.vector_bytes, host.fma, host.avx512, half, lambda name: jit.symbol(name) is not None, precise
    )  # fmt: skip


@dataclass(repr=False)
class Kernel(GpuForms):
    """Machine code of a fused region. ``llvm`` is its text, ``loops`` its loop IR, ``lines`` the user's lines.

    ``triton``, ``ptx``, ``cubin`` and ``resources`` show what it would be on a GPU.
    """

    name: str
    llvm: str
    loops: loop_ir.Kernel
    units: int
    grain: int
    imports: tuple[str, ...]
    route: str
    opened: tuple[str, ...] = ()  # sizes that only the run knows: there are so many times ``units``

    @property
    def lines(self) -> tuple[str, ...]:
        return self.loops.comments

    @cached_property
    def address(self) -> dict[str, int]:
        """The functions ``NAME_run`` and ``NAME_threads`` in memory; compiles at first use."""
        found = {n: a for n in self.imports if (a := jit.symbol(n)) is not None}
        names = [f"{self.name}_run", f"{self.name}_threads"]
        code = "\n".join(t for t in self.llvm.split("\n") if not t.startswith(";"))
        return jit.compile_module(code, names, found)

    @cached_property
    def _entry(self) -> Callable[..., int]:
        """``entry(block)`` on as many threads as there is work for."""
        if self.units <= self.grain or self.route == "serial":
            return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self.address[f"{self.name}_run"])  # fmt: skip
        call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)(
            self.address[f"{self.name}_threads"]
        )
        grain = self.grain
        return lambda block: call(block, grain)

    @cached_property
    def _block(self) -> type:
        return ctypes.c_int64 * (len(self.loops.slots) + 1)

    def call(self, slots: Sequence[int]) -> None:
        """Run with the parameter slots given; KernelFailed for an error code."""
        block = self._block(*slots)
        code = self._entry(ctypes.addressof(block))
        if code:
            raise KernelFailed(_MESSAGES.get(code, f"error {code}"))

    def run(self, arguments: dict[str, torch.Tensor | int | float]) -> None:
        """Run with a tensor for each buffer, the written ones too, and a number for each scalar, by name."""
        slots = []
        for buffer in self.loops.buffers:
            given = arguments[buffer.name]
            if not isinstance(given, torch.Tensor) or given.dtype != DTYPES[buffer.dtype]:
                raise TypeError(f"{self.name}: {buffer.name} must be a tensor of {buffer.dtype}")
            slots.append(given.data_ptr())
        slots += [scalar_bits(arguments[s.name], s.dtype) for s in self.loops.scalars]
        self.call(slots)

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {len(self.loops.body)} expressions>"


def scalar_bits(value, dtype: str) -> int:
    """A number as the 64 bits of its parameter slot."""
    if dtype == "f64":
        return struct.unpack("<q", struct.pack("<d", float(value)))[0]
    return int(value)


def work_of(loops: loop_ir.Kernel) -> int:
    """What one point of the loops costs, in simple ops."""
    ops = [e for e in loops.body if e.op not in ("const", "scalar")]
    return 1 + len(ops) + COSTLY_WORK * sum(e.op in COSTLY for e in ops)


def make(loops: loop_ir.Kernel, precise: bool = False) -> Kernel | None:
    """The kernel of a loop nest, or None where this machine has no compiler. ``Unsupported`` as ``llvm.render``."""
    machine = target(precise)
    if machine is None:
        return None
    rendered = llvm.render(loops, machine)
    how = threads.route(machine.has)
    text = rendered.text
    around = threads.render(loops.name, rendered.units, len(loops.slots), how)
    around += threads.declarations(loops.name, rendered.units, how)
    points, opened = 1, rendered.plan.opened
    for d in (*loops.outer, *loops.row):
        points *= 1 if d.size in opened else usual(d.size)
    per_unit = max(points // max(rendered.units, 1), 1) * work_of(loops)
    grain = max(1, -(-WORK_PER_THREAD // per_unit))
    return Kernel(loops.name, _inserted(text, around), loops, rendered.units, grain,
                  (*rendered.imports, *threads.imports(how)), how, opened)  # fmt: skip


def _inserted(text: str, around: str) -> str:
    """``around`` before the attributes of a module's text."""
    head, mark, tail = text.partition("attributes #0")
    return head + around + mark + tail
