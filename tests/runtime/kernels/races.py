"""Races of a kernel on a GPU, found while Triton's interpreter runs it: there programs run one after another, and a program is one thread.

``Watch`` notes which elements are loaded and stored. Two accesses to one element, of which one is a store, are a race where nothing orders them:

* of two programs, always;
* of one program of several warps, without a barrier between, where they may be of different threads. An element of a tensor belongs to the
  thread that its place in a tensor of that shape gives it; a number is loaded by all threads, and stored by the first. Where a tensor has fewer elements
  than there are threads, others have copies, and may load what is stored already.

The error cell is left out: whichever code comes last, the run has failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

LOAD, STORE = "load", "store"


class Watch:
    """``begin``, then the kernel; ``found()`` are the races in words."""

    def __init__(self) -> None:
        self.begin(1)

    def begin(self, warps: int, free: int = 0) -> None:
        """``free``: an address that programs need not agree about."""
        self.warps, self.program, self.free = warps, 0, free
        self._since: list[tuple[str, tuple[int, ...], np.ndarray, np.ndarray]] = []  # the last barrier  # fmt: skip
        self._all: dict[str, list[tuple[int, np.ndarray]]] = {LOAD: [], STORE: []}
        self._races: dict[str, None] = {}

    def enter(self, program: int) -> None:
        self.barrier()
        self.program = program

    def barrier(self) -> None:
        self._since.clear()

    def note(self, kind: str, pointers: np.ndarray, mask: np.ndarray | None) -> None:
        at, lanes = pointers.reshape(-1).astype(np.uint64), np.arange(pointers.size)
        chosen = at != self.free
        if mask is not None:
            chosen &= np.broadcast_to(mask, pointers.shape).reshape(-1)
        at, lanes = at[chosen], lanes[chosen]
        if not at.size:
            return
        shape = () if pointers.size == 1 else pointers.shape
        self._all[kind].append((self.program, np.unique(at)))
        if self.warps > 1:
            for before in self._since:
                if STORE in (before[0], kind) and not self._ordered(before, (kind, shape, at, lanes)):  # fmt: skip
                    self._races[f"a {kind} behind a {before[0]} without a barrier"] = None
            self._since.append((kind, shape, at, lanes))

    def _ordered(self, before: Any, now: Any) -> bool:
        """Whether two accesses have no element in common, or each is the same thread's in both."""
        shared = np.intersect1d(before[2], now[2])
        if not shared.size:
            return True
        if before[0] == now[0] and before[1] == now[1] == ():
            return True  # stores of the first thread
        if before[1] != now[1] or np.prod(now[1], dtype=int) < 32 * self.warps:
            return False
        pairs = [{*zip(at[found].tolist(), lanes[found].tolist())} for _, _, at, lanes in (before, now) for found in [np.isin(at, shared)]]  # fmt: skip
        return pairs[0] == pairs[1] and len(pairs[0]) == shared.size

    def found(self) -> list[str]:
        return [*self._races, *dict.fromkeys(self._between())]

    def _between(self) -> Iterator[str]:
        """Races of programs."""
        stores = self._all[STORE]
        if not stores:
            return
        owner = np.concatenate([np.full(at.size, program) for program, at in stores])
        address = np.concatenate([at for _, at in stores])
        order = np.lexsort((owner, address))
        address, owner = address[order], owner[order]
        if np.any((address[1:] == address[:-1]) & (owner[1:] != owner[:-1])):
            yield "two programs store one element"
        for program, at in self._all[LOAD]:
            places = np.minimum(np.searchsorted(address, at), address.size - 1)
            if np.any((address[places] == at) & (owner[places] != program)):
                yield "a program loads what another one stores"


def watched(interpreter: Any) -> Watch:
    """A watch on the interpreter of this process."""
    watch, builder = Watch(), interpreter.InterpreterBuilder
    load, store, enter = builder.create_masked_load, builder.create_masked_store, builder.set_grid_idx  # fmt: skip

    def loads(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        watch.note(LOAD, pointers.data, None if mask is None else mask.data)
        return load(self, pointers, mask, *rest)

    def stores(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        watch.note(STORE, pointers.data, None if mask is None else mask.data)
        return store(self, pointers, value, mask, *rest)

    def begins(self: Any, x: int, y: int, z: int) -> None:
        watch.enter(x)
        enter(self, x, y, z)

    builder.create_masked_load, builder.create_masked_store = loads, stores
    builder.set_grid_idx = begins
    builder.create_barrier = lambda self: watch.barrier()
    return watch
