"""Cells as processes: started one after the other, timed in turn.

A shared machine has phases of seconds to minutes in which all takes up to twice as long. Peers that are measured one behind the other meet different
phases, and their ratio tells those. So the processes of a workload all stay, each waiting at its standard input, and take turns: one window of calls
each, ``TURNS`` times. Those of a gradient and of its forward pass take turns with each other too. A first call is a cold start and nothing else runs meanwhile; the warm start is that of a second process with the disk cache of the first.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import clock

Figures = dict[str, Any]
TURNS = 7
BUDGET = clock.BUDGET / 5  # seconds for one turn
LIMIT = 600  # seconds for one answer


class Cell:
    """A worker's process, and what it has told: its first call by now, its turns as they are asked for.

    Figures are ``first``, ``steady``, ``turns`` (seconds), ``quiet``, ``memory`` (MB), or ``refused`` (why there are none).
    """

    def __init__(self, key: str, peer: str, threads: int, folder: Path) -> None:
        self.result = folder / f"{key}-{peer}.npz"
        command = [sys.executable, "-m", f"{__package__}.worker", key, peer, str(threads)]
        self.process = subprocess.Popen(
            [*command, str(self.result)],
            env=_environment(folder, f"{key}-{peer}"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.errors: list[str] = []
        self.reader = threading.Thread(target=self._read_errors, daemon=True)
        self.reader.start()
        self.figures: Figures = self._answer()
        self.figures |= {"turns": [], "quiet": True} if "first" in self.figures else {}

    def _read_errors(self) -> None:
        """A full pipe of warnings must not stop the worker."""
        self.errors += self.process.stderr

    def _answer(self) -> Figures:
        """The next line of the worker that is one of figures; what libraries print is passed over."""
        timer = threading.Timer(LIMIT, self.process.kill)
        timer.start()
        line = next((t for t in self.process.stdout if t.startswith("{")), "")
        late = not timer.is_alive()
        timer.cancel()
        if line:
            return json.loads(line)
        self.process.kill()
        self.reader.join(1.0)
        last = ["failed", *filter(None, map(str.strip, self.errors))][-1][:120]
        return {"refused": f"no result in {LIMIT} s" if late else last}

    def _ask(self, order: str) -> None:
        """Have the worker do one thing, and note its answer. A cell that was refused is not asked."""
        if "refused" in self.figures:
            return
        with contextlib.suppress(BrokenPipeError):  # it has ended: its last words are its answer
            self.process.stdin.write(f"{order}\n")
            self.process.stdin.flush()
        answer = self._answer()
        if "refused" in answer:
            self.figures = answer
            return
        if "turn" in answer:
            self.figures["turns"].append(answer["turn"])
            self.figures["quiet"] &= answer["quiet"]
        self.figures["memory"] = answer["memory"]

    def turn(self) -> None:
        """Time one window of calls."""
        self._ask(str(BUDGET))

    def close(self) -> Figures:
        """Let the process end, which writes what it keeps on disk; what the cell gave."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        if self.figures.get("turns"):
            self.figures["steady"] = statistics.median(self.figures["turns"])
        return self.figures


def _environment(folder: Path, cell: str) -> dict[str, str]:
    """What a worker sees: this package, and caches of its own."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    caches = {
        "TOGRAPH_CACHE_DIR": str(folder / f"cache-{cell}"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / f"inductor-{cell}"),
    }
    return {**os.environ, **caches, "PYTHONPATH": path}


def rows(keys: Sequence[str], names: Sequence[str], threads: int, rounds: int, folder: Path) -> dict[str, dict[str, Figures]]:  # fmt: skip
    """The cells of workloads that take turns, by workload and peer; first calls and memory of several rounds are medians, turns are all of them."""
    found: dict[tuple[str, str], list[Figures]] = {(k, n): [] for k in keys for n in names}
    for i in range(rounds):
        scratch = folder / str(i)
        scratch.mkdir(exist_ok=True)
        for place, figures in _round(list(found), threads, scratch).items():
            found[place].append(figures)
    return {k: {n: _median(found[k, n]) for n in names} for k in keys}


def _round(places: Sequence[tuple[str, str]], threads: int, folder: Path) -> dict[tuple[str, str], Figures]:  # fmt: skip
    """Each cell in a new process, cold, then in turn, then each in a second process, warm."""
    cells = {place: Cell(*place, threads, folder) for place in places}
    # A peer's cells come one behind the other, since the nearest turns are the most alike.
    in_turn = sorted(cells, key=lambda place: [name for _, name in places].index(place[1]))
    for _ in range(TURNS):
        for place in in_turn:
            cells[place].turn()
    found = {place: cell.close() for place, cell in cells.items()}
    for (key, name), figures in found.items():
        if "steady" in figures:
            figures["error"] = _difference(folder / f"{key}-eager.npz", cells[key, name].result)
            figures["warm"] = Cell(key, name, threads, folder).close().get("first")
    return found


def _difference(reference: Path, result: Path) -> float:
    """The largest difference from eager's result, relative to its largest value; zero where eager was not run."""
    if not reference.exists():
        return 0.0
    with np.load(reference) as a, np.load(result) as b:
        if len(a.files) != len(b.files):
            return math.inf
        return max((_relative(a[name], b[name]) for name in a.files), default=0.0)


def _relative(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x.astype(float), y.astype(float)
    if x.shape != y.shape:
        return math.inf
    scale = np.abs(x).max(initial=0.0) or 1.0
    return float(np.abs(x - y).max(initial=0.0) / scale)


def _median(found: list[Figures]) -> Figures:
    good = [f for f in found if "steady" in f]
    if not good:
        return found[0]
    out: Figures = {
        k: statistics.median([f[k] for f in good if f.get(k) is not None] or [math.nan])
        for k in ("first", "warm", "memory")
    }
    out["turns"] = [t for f in good for t in f["turns"]]
    out["steady"] = statistics.median(out["turns"])
    out["quiet"] = all(f["quiet"] for f in good)
    out["error"] = max(f["error"] for f in good)
    return out
