"""The traces of a function, bounded: those used least recently go.

A slot is a trace key, or what a key has without its sizes and numbers, for traces that have some of them open. In a slot the trace
that was used last comes first, among the slots it comes last.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

from ... import forks
from ..traces.traces import Trace
from ..values.arguments import Flat
from ..values.keys import without_sizes

SIZE = 256  # traces of a function


def _open_slot(key: Any) -> Any:
    """Where the traces of a family are that have something open."""
    return "open", without_sizes(key)


class TraceCache:
    """``lock`` is held by who makes a trace."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        forks.replaced(self)
        self._slots: OrderedDict[Any, list[Trace]] = OrderedDict()

    def __iter__(self) -> Iterator[Trace]:
        return (trace for traces in self._slots.values() for trace in traces)

    def of(self, key: Any) -> Sequence[Trace]:
        """The traces for these very sizes and numbers, whether or not their guards hold."""
        return self._slots.get(key, ())

    def find(self, key: Any, flat: Flat) -> Trace | None:
        """The trace for these very sizes and numbers, else one for which they are open."""
        for slot_of in (lambda: key, lambda: _open_slot(key)):
            slot = slot_of()
            traces = self._slots.get(slot, ())
            for i, trace in enumerate(traces):
                if trace.fits(key, flat):
                    if i or len(self._slots) > 1:
                        self._use(slot, traces, i)
                    return trace
        return None

    def outlived(self, key: Any, flat: Flat) -> Trace | None:
        """A trace for a call that is worth another one, in which long loops of Python's are unrolled."""
        known = [*self._slots.get(key, ()), *self._slots.get(_open_slot(key), ())]
        return next((t for t in known if t.concrete.outlived and t.holds(key, flat)), None)

    def add(self, key: Any, trace: Trace) -> None:
        """Keep a new trace."""
        slot = _open_slot(key) if trace.open else key
        self._slots.setdefault(slot, []).insert(0, trace)
        self._slots.move_to_end(slot)
        self._shrink()

    def clear(self) -> None:
        self._slots.clear()

    def _use(self, slot: Any, traces: Any, i: int) -> None:
        """A trace was used: it goes last."""
        with self.lock:
            if slot in self._slots:
                self._slots.move_to_end(slot)
            if i and i < len(traces):
                traces.insert(0, traces.pop(i))

    def _shrink(self) -> None:
        """The traces used least recently go."""
        count = sum(map(len, self._slots.values()))
        while count > SIZE:
            slot, traces = next(iter(self._slots.items()))
            traces.pop()
            count -= 1
            if not traces:
                del self._slots[slot]
