"""Telling what the cells gave: a table of ratios, a Markdown and a JSON file, and a plot."""

from __future__ import annotations

import importlib.util
import itertools
import json
import platform
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from . import cells, peers, plot
from .workloads import WORKLOADS

Cells = dict[str, dict[str, dict[str, Any]]]


def collect(keys: Sequence[str], names: Sequence[str], threads: int, rounds: int) -> Cells:
    """All cells. Eager comes first: it is the reference of results."""
    names = sorted(names, key=lambda n: n != "eager")
    found: Cells = {}
    with tempfile.TemporaryDirectory() as scratch:
        for group in _groups(keys):
            found |= cells.rows(group, names, threads, rounds, Path(scratch))
            for key, name in itertools.product(group, names):
                print(f"{key:3} {name:11} {_figure(found[key][name])}", file=sys.stderr, flush=True)
    return found


def _groups(keys: Sequence[str]) -> list[list[str]]:
    """The workloads that are measured in turn: each alone, or forward pass and gradient."""
    gradients = {w.forward: key for key in keys if (w := WORKLOADS[key]).forward in keys}
    alone = [key for key in keys if key not in gradients.values()]
    return [[key, gradients[key]] if key in gradients else [key] for key in alone]


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
    """(best peer, tograph's time over its time): the median of what the turns gave."""
    own, others = row.get("tograph", {}), {n: c for n, c in row.items() if n != "tograph"}
    ratios = {
        name: statistics.median(a / b for a, b in zip(own["turns"], cell["turns"]))
        for name, cell in others.items()
        if _right(cell) and "steady" in own
    }
    return max(ratios.items(), key=lambda r: r[1]) if ratios else None


def _right(cell: dict[str, Any]) -> bool:
    return "steady" in cell and cell["error"] <= 1e-2


def markdown(found: Cells, threads: int) -> str:
    """The tables of a run."""
    names = [n for n in peers.PEERS if any(n in row for row in found.values())]
    lines = [
        "# Workloads under tograph and its peers",
        "",
        f"{platform.machine()}, {threads} threads, Python {platform.python_version()}, torch {torch.__version__}. Times of one "
        "run on a shared machine: read the ratios. Each cell ran in its own process; steady times are medians of turns that the peers took, ratios medians of the turns' ratios.",
        "",
        "## Steady state",
        "",
    ]
    lines += _table(found, names, lambda c: duration(c["steady"]), best=True)
    lines += _beside_forward(found, names)
    lines += ["", "## First call in a new process, after imports", ""]
    lines += _table(found, names, lambda c: duration(c["first"]))
    lines += ["", "## First call in a new process with a warm disk cache", ""]
    lines += _table(found, names, lambda c: duration(c["warm"]))
    lines += ["", "## Memory beyond imports (MB, at the peak)", ""]
    lines += _table(found, names, lambda c: f"{c['memory']:.0f}")
    return "\n".join(lines) + "\n"


def _table(found: Cells, names: list[str], show, best: bool = False) -> list[str]:
    head = [
        "workload",
        *(peers.TITLES[n] for n in names),
        *(["tograph / best peer"] if best else []),
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for key, row in found.items():
        texts = [_entry(row.get(n), show) for n in names]
        if best:
            best = ratio(row)
            texts.append(f"{best[1]:.2f} ({peers.TITLES[best[0]]})" if best else "")
        lines.append(f"| **{key}** {WORKLOADS[key].title} | " + " | ".join(texts) + " |")
    return lines


def _beside_forward(found: Cells, names: list[str]) -> list[str]:
    """Gradients as multiples of their forward passes: medians of the ratios of turns that were taken one behind the other."""
    pairs = [(w.forward, key) for key in found if (w := WORKLOADS[key]).forward in found]
    if not pairs:
        return []
    times = {
        key: {n: _multiple(found[key].get(n), found[forward].get(n)) for n in names}
        for forward, key in pairs
    }
    lines = ["", "## Forward and backward pass / forward pass", ""]
    return lines + _table(times, names, lambda c: f"{c['steady']:.2f}")


def _multiple(gradient: dict[str, Any] | None, forward: dict[str, Any] | None) -> dict[str, Any] | None:  # fmt: skip
    """A cell whose time is that of a gradient in times of its forward pass."""
    if gradient is None or forward is None or not (_right(gradient) and _right(forward)):
        return None
    each = [a / b for a, b in zip(gradient["turns"], forward["turns"])]
    return {"steady": statistics.median(each), "error": 0.0}


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
    found = collect(list(keys) or list(WORKLOADS), names, threads, rounds)
    text = markdown(found, threads)
    print(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "workloads.md").write_text(text)
        (out / "workloads.json").write_text(json.dumps(found, indent=1) + "\n")
        if importlib.util.find_spec("matplotlib") is not None:
            plot.draw(found, out / "workloads.svg")
    return found
