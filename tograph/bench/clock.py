"""Timing on a shared machine: medians of windows in which other processes had little of the processor.

A window is 0.15 s of calls. Where ``/proc/stat`` tells how busy all processors were, a window is thrown away when others used
more than a tenth of one; after ``PATIENCE`` windows or ``BUDGET`` seconds the quietest ones are taken, and the figure says so.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WINDOW = 0.15  # seconds
WANTED = 3
PATIENCE = 20
BUDGET = 10.0  # seconds for one figure
_STAT = Path("/proc/stat")


@dataclass(frozen=True)
class Timing:
    """``seconds`` of one call; ``quiet`` is False when no quiet window was found."""

    seconds: float
    quiet: bool


def _busy() -> float | None:
    """Processor seconds that the whole machine has used, where the system tells."""
    if not _STAT.exists():
        return None
    user, nice, system, _, _, irq, soft, steal, *_ = map(
        int, _STAT.read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def _window(call: Callable[[], object], count: int) -> tuple[float, float]:
    """(seconds of a call, share of a processor that others had)."""
    before, own, start = _busy(), time.process_time(), time.perf_counter()
    for _ in range(count):
        call()
    wall = time.perf_counter() - start
    if before is None:
        return wall / count, 0.0
    others = _busy() - before - (time.process_time() - own)
    return wall / count, max(0.0, others) / wall


def steady(call: Callable[[], object], wanted: int = WANTED, budget: float = BUDGET) -> Timing:
    """The time of a call after it has settled: the median of ``wanted`` quiet windows, found in ``budget`` seconds."""
    start = time.perf_counter()
    once = min(_window(call, 1)[0] for _ in range(2))
    count = max(1, int(WINDOW / max(once, 1e-7)))
    seen: list[tuple[float, float]] = []
    for _ in range(PATIENCE):
        seen.append(_window(call, count))
        quiet = [t for t, others in seen if others <= 0.1]
        if len(quiet) >= wanted:
            return Timing(statistics.median(quiet), True)
        if time.perf_counter() - start > budget:
            break
    quietest = sorted(seen, key=lambda w: w[1])[:wanted]
    return Timing(statistics.median(t for t, _ in quietest), False)
