"""Which reads of a row loop the processor is told of before it comes to them.

A fold over the rows of a matrix reads a strip of columns, row after row. A processor fetches by itself what follows in the same page of memory; where each
row lies in another page it waits for each. So a step asks for what the step ``STEPS`` later will read. Asking for what lies beyond the end of the buffer
does nothing.
"""

from __future__ import annotations

from .loop_ir import Affine, Kernel
from .planning import Plan

FETCH = "llvm.prefetch.p0"
STEPS = 8  # how far ahead: more would push each other out of the first cache, whose places go by the address within a page
LINE = 64  # bytes that are fetched at once
FAR = 1 << 10  # bytes between two steps from which on they are asked for
LARGE = 1 << 19  # bytes from the first step to the last that no cache near a core holds


def step(kernel: Kernel, plan: Plan, address: Affine, item: int) -> tuple[str, int] | None:
    """(the loop, elements between two of its steps) of a read with ``item`` bytes an element, or None where nothing is to be fetched."""
    if plan.in_row or plan.lanes is None or not kernel.row or address.gathers:
        return None
    dim = kernel.row[-1]
    factor, lanes = address.factor(dim.name), address.factor(plan.lanes.name)
    if lanes != 1 or not isinstance(factor, int) or not isinstance(dim.size, int):
        return None
    apart = abs(factor) * item
    return (dim.name, factor) if apart >= FAR and apart * dim.size >= LARGE else None
