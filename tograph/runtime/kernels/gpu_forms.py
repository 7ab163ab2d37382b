"""What a kernel is on a GPU: Triton source, PTX, cubin, and what it takes of the machine. No GPU is needed to look.

A class with ``loops`` (the loop IR) gets these views by inheriting from ``GpuForms``. A kernel is rendered with the first of
its ``tiles`` that spills no registers on the architecture it is asked for.
"""

from __future__ import annotations

import functools

from ...lazy import lazy_module
from . import loop_ir, triton_jit, tuning
from .loop_ir import Unsupported
from .tiles import tiles
from .triton_source import render
from .triton_text import Source

notebook = lazy_module("..display.notebook", __package__)
DEFAULT = "sm_90"


class GpuForms:
    """Views of ``loops`` for a GPU. Unsupported says why there is none."""

    name: str
    loops: loop_ir.Kernel

    def __repr__(self) -> str:
        """The name, the sizes of the loops and the user's first line."""
        loops = self.loops
        sizes = " x ".join(str(d.size) for d in (*loops.outer, *loops.row)) or "1"
        lines = getattr(self, "lines", ())
        return f"<kernel {self.name}: {sizes}{f', {lines[0]}' if lines else ''}>"

    def _repr_html_(self) -> str:
        return notebook.kernel_html(self, Unsupported)

    @property
    def triton(self) -> str:
        """The Triton source, of the first choice of block sizes."""
        return sources(self.loops)[0].text

    @property
    def choice(self) -> str:
        """Its block sizes, and how they were found: measured on a GPU, or estimated."""
        return str(tuning.estimate(self.loops))

    def ptx(self, architecture: str = DEFAULT) -> str:
        """NVIDIA's assembly, or AMD's for a "gfx..." architecture. Example: ``kernel.ptx("sm_80")``."""
        return best(self.loops, architecture)[1].assembly

    def cubin(self, architecture: str = DEFAULT) -> bytes:
        """The machine code that a driver loads; AMD's hsaco for a "gfx..." architecture."""
        return best(self.loops, architecture)[1].image

    @property
    def resources(self) -> triton_jit.Resources:
        """Registers, shared memory and spills on sm_90."""
        return self.resources_on(DEFAULT)

    def resources_on(self, architecture: str) -> triton_jit.Resources:
        """Registers, shared memory and spills on an architecture."""
        return best(self.loops, architecture)[1].resources


def sources(loops: loop_ir.Kernel) -> list[Source]:
    """The source with each choice of block sizes, best first."""
    return [render(loops, tile) for tile in tiles(loops)]


@functools.lru_cache(maxsize=1024)
def best(loops: loop_ir.Kernel, architecture: str) -> tuple[Source, triton_jit.Binary]:
    """The first source that spills nothing, with its code; the one that spills least where all do."""
    triton_jit.named(architecture)
    found: list[tuple[Source, triton_jit.Binary]] = []
    reason: Unsupported | None = None
    for source in sources(loops):
        try:
            binary = triton_jit.compiled(source, architecture)
        except Unsupported as why:  # such as more shared memory than there is
            reason = why
            continue
        found.append((source, binary))
        if not binary.resources.spills:
            return found[-1]
    if not found:
        raise reason or Unsupported("no block sizes")
    return min(found, key=lambda pair: pair[1].resources.spills)
