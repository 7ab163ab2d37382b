"""Running the cells and telling the result: a table of ratios, a Markdown and a JSON file, and a plot."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import peers, plot
from .workloads import WORKLOADS

Cells = dict[str, dict[str, dict[str, Any]]]
LIMIT = 600  # seconds for one cell


def measure(key: str, peer: str, threads: int, folder: Path) -> dict[str, Any]:
    """One cell in a process of its own, cold; tograph's a second time with the disk cache that it left."""
    result = folder / f"{key}-{peer}.npz"
    caches = {
        "TOGRAPH_CACHE_DIR": str(folder / f"cache-{key}-{peer}"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / f"inductor-{key}-{peer}"),
    }
    command = [sys.executable, "-m", f"{__package__}.worker", key, peer, str(threads), str(result)]
    found = _run(command, caches)
    if "steady" in found:
        found["warm"] = _run(command, caches).get("first")
        reference = folder / f"{key}-eager.npz"
        if reference.exists():
            found["error"] = _difference(reference, result)
    return found


def _run(command: Sequence[str], environment: dict[str, str]) -> dict[str, Any]:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, **environment, "PYTHONPATH": path}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return {"refused": f"no result in {LIMIT} s"}
    if done.returncode != 0:
        return {"refused": (done.stderr.strip().splitlines() or ["failed"])[-1][:120]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def _difference(reference: Path, result: Path) -> float:
    """The largest difference from eager's result, relative to its largest value."""
    with np.load(reference) as a, np.load(result) as b:
        if len(a.files) != len(b.files):
            return math.inf
        worst = 0.0
        for name in a.files:
            x, y = a[name].astype(float), b[name].astype(float)
            if x.shape != y.shape:
                return math.inf
            scale = np.abs(x).max(initial=0.0) or 1.0
            worst = max(worst, float(np.abs(x - y).max(initial=0.0) / scale))
        return worst


def collect(keys: Sequence[str], names: Sequence[str], threads: int, rounds: int) -> Cells:
    """All cells; of several rounds the medians. Eager comes first: it is the reference of results."""
    names = sorted(names, key=lambda n: n != "eager")
    cells: Cells = {}
    with tempfile.TemporaryDirectory() as scratch:
        for key in keys:
            cells[key] = {}
            for name in names:
                found = []
                for i in range(rounds):
                    folder = Path(scratch, str(i))
                    folder.mkdir(exist_ok=True)
                    found.append(measure(key, name, threads, folder))
                cells[key][name] = _median(found)
                print(f"{key:3} {name:11} {_figure(cells[key][name])}", file=sys.stderr, flush=True)
    return cells


def _median(found: list[dict[str, Any]]) -> dict[str, Any]:
    good = [f for f in found if "steady" in f]
    if not good:
        return found[0]
    out = {
        k: statistics.median([f[k] for f in good if f.get(k) is not None] or [math.nan])
        for k in ("first", "warm", "steady", "memory")
    }
    out["quiet"] = all(f["quiet"] for f in good)
    out["error"] = max(f.get("error", 0.0) for f in good)
    return out


# ---- text


def duration(seconds: float) -> str:
    """A time with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _figure(cell: dict[str, Any]) -> str:
    if "steady" not in cell:
        return f"refused: {cell['refused']}"
    noisy = "" if cell["quiet"] else " (busy machine)"
    wrong = " WRONG RESULT" if cell["error"] > 1e-2 else ""
    return f"{duration(cell['steady'])} steady, {duration(cell['first'])} first{noisy}{wrong}"


def ratio(row: dict[str, dict[str, Any]]) -> tuple[str, float] | None:
    """(best peer, tograph's time over its time)."""
    others = {n: c["steady"] for n, c in row.items() if n != "tograph" and _right(c)}
    if not others or "steady" not in row.get("tograph", {}):
        return None
    best = min(others, key=lambda n: others[n])
    return best, row["tograph"]["steady"] / others[best]


def _right(cell: dict[str, Any]) -> bool:
    return "steady" in cell and cell["error"] <= 1e-2


def markdown(cells: Cells, threads: int) -> str:
    """The tables of a run."""
    names = [n for n in peers.PEERS if any(n in row for row in cells.values())]
    lines = [
        "# Workloads under tograph and its peers",
        "",
        f"{platform.machine()}, {threads} threads, Python {platform.python_version()}, torch {torch.__version__}. Times of one "
        "run on a shared machine: read the ratios. Each cell ran in its own process.",
        "",
        "## Steady state",
        "",
    ]
    lines += _table(cells, names, lambda c: duration(c["steady"]), best=True)
    lines += ["", "## First call in a new process, after imports", ""]
    lines += _table(cells, names, lambda c: duration(c["first"]))
    lines += ["", "## First call in a new process with a warm disk cache", ""]
    lines += _table(cells, names, lambda c: duration(c["warm"]))
    lines += ["", "## Memory beyond imports (MB, at the peak)", ""]
    lines += _table(cells, names, lambda c: f"{c['memory']:.0f}")
    return "\n".join(lines) + "\n"


def _table(cells: Cells, names: list[str], show, best: bool = False) -> list[str]:
    head = [
        "workload",
        *(peers.TITLES[n] for n in names),
        *(["tograph / best peer"] if best else []),
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for key, row in cells.items():
        texts = [_entry(row.get(n), show) for n in names]
        if best:
            found = ratio(row)
            texts.append(f"{found[1]:.2f} ({peers.TITLES[found[0]]})" if found else "")
        lines.append(f"| **{key}** {WORKLOADS[key].title} | " + " | ".join(texts) + " |")
    return lines


def _entry(cell: dict[str, Any] | None, show) -> str:
    if cell is None:
        return ""
    if "steady" not in cell:
        return "-"
    return show(cell) if _right(cell) else "wrong result"


def run(
    keys: Sequence[str] = (),
    names: Sequence[str] = (),
    threads: int = 2,
    rounds: int = 1,
    out: Path | None = None,
) -> Cells:
    """Measure ``keys`` under ``names`` (all by default), print the tables, and write them under ``out``.

    Files: ``workloads.md``, ``workloads.json`` and, where matplotlib is installed, ``workloads.svg``.
    """
    names = list(names) or peers.installed()
    cells = collect(list(keys) or list(WORKLOADS), names, threads, rounds)
    text = markdown(cells, threads)
    print(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "workloads.md").write_text(text)
        (out / "workloads.json").write_text(json.dumps(cells, indent=1) + "\n")
        if importlib.util.find_spec("matplotlib") is not None:
            plot.draw(cells, out / "workloads.svg")
    return cells
