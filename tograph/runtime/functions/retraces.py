"""Why a function was traced again, for ``explain_retraces`` and for the warning about functions that trace at every other call."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

from ..traces.traces import Trace
from ..values.arguments import Flat
from ..values.families import advice
from ..values.keys import describe_key

LOGGER = logging.getLogger("tograph")
REMEMBERED = 256
UNROLLED = "its long loops are unrolled: no machine code has a form for them"


def _change(old: str, new: str) -> str:
    """What comes after "changed from"; two objects of one class are told by the word."""
    return f"{old} to another one" if old == new else f"{old} to {new}"


class Retraces:
    """The latest traces of a function, each with why those before it did not fit. ``recent``: which of the last calls traced."""

    def __init__(self) -> None:
        self.made: deque[tuple[Any, str, Trace]] = deque(maxlen=REMEMBERED)
        self.recent: deque[bool] = deque(maxlen=10)
        self._warnings = 0

    def explained(self, count: int) -> str:
        """One line for each trace, of which there were ``count``."""
        first = count - len(self.made) + 1
        lines = [
            f"trace {i}: {why}{trace.describe()}"
            for i, (_, why, trace) in enumerate(self.made, first)
        ]
        return "\n".join(lines) or "no traces yet"

    def why(self, key: Any, flat: Flat, known: Sequence[Trace]) -> str:
        """Why no trace fits a call; ``known``: those of its key, whose guards do not hold."""
        if not self.made:
            return "first call"
        old, new = dict(self.made[-1][0][0]), dict(key[0])
        changed = [
            f"argument {n!r} changed from {_change(describe_key(old[n]), describe_key(new[n]))}"
            for n in new
            if n in old and old[n] != new[n]
        ]
        if changed:
            return ", ".join(changed)
        if self.made[-1][0][1] != key[1]:
            return "the default dtype, the default device or autocast changed"
        found = [t.checks.change(t.inputs(flat)) for t in known[:1]]
        return found[0] if found and found[0] else "a size that the trace depends on changed"

    def warn(self, why: str, label: str, reduced: bool) -> None:
        """A call has traced: warn where too many do."""
        self.recent.append(True)
        if sum(self.recent) >= 5 and self._warnings < 2:
            self._warnings += 1
            self.recent.clear()
            LOGGER.warning(
                "%d of the last 10 calls to %r triggered tg.function retracing. Tracing is expensive; the last one because %s. %s",
                5,
                label,
                why,
                advice(self.made[-2][0], self.made[-1][0], reduced),
            )
