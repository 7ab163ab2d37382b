"""The report of ``benchmarks/gpu.py``: a Markdown page and the same as JSON, from the rows of its sections."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import math
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpu_sections
import torch


def short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each workload, with µs by peer and the ratio to the best of eager and torch.compile; the geometric mean."""
    table: dict[str, dict[str, Any]] = {}
    for r in rows:
        if "workload" in r:
            table.setdefault(r["workload"], {"name": r["workload"]})[r["peer"]] = r["microseconds"]
        else:
            # What there was no time for has no name.
            table.setdefault(r.get("name") or r["note"], r)
    ratios = []
    for r in table.values():
        peers = [r[p] for p in ("eager", "compile", "reduce-overhead") if p in r]
        if "tograph" in r and peers:
            r["ratio"] = min(peers) / r["tograph"]
            ratios.append(r["ratio"])
    mean = [{"name": "geometric mean", "ratio": math.exp(sum(map(math.log, ratios)) / len(ratios))}] if ratios else []  # fmt: skip
    return [*table.values(), *mean]


def failures(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases that did not pass, and how many did."""
    passed = sum(r.get("result") == "passed" for r in rows)
    return [{"name": "passed", "result": passed}, *(r for r in rows if r.get("result") != "passed")]


SUMMARIES = {"workloads": compared, "cases": failures}


def report(run: Any) -> Path:
    """Both files. ``run``: its ``sections`` of rows, the ``name`` of the device, the ``folder``."""
    device = run.name
    lines = [f"# tograph on {device}", "", f"torch {torch.__version__}, Python {platform.python_version()}. Times in µs unless the name says otherwise."]  # fmt: skip
    found = {n: [*run.sections[n]] for n in gpu_sections.SECTIONS if n in run.sections}
    for section, rows in found.items():
        shown = SUMMARIES.get(section, list)(rows)
        columns = list(dict.fromkeys(k for r in shown for k in r))
        lines += ["", f"## {section}", "", f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]  # fmt: skip
        lines += [f"| {' | '.join(_cell(r.get(c, '')) for c in columns)} |" for r in shown]
    lines += ["", *wrong(run)]
    run.folder.mkdir(parents=True, exist_ok=True)
    page = run.folder / "gpu.md"
    texts = {page.with_suffix(".json"): json.dumps({"device": device, **found}, indent=1), page: "\n".join(lines)}  # fmt: skip
    for path, text in texts.items():  # an older version stays whole until the new one is
        new = path.with_suffix(".new")
        new.write_text(text + "\n")
        new.replace(path)
    return page


def wrong(run: Any) -> list[str]:
    """All that did not go as it should, in full, and what it ran on: what one has to send."""
    found = [f"* {section}: {json.dumps(row)}" for section, rows in [*run.sections.items()] for row in [*rows] if is_wrong(row)]  # fmt: skip
    lines = ["## What went wrong", "", *(found or ["nothing"]), "", "### The machine", ""]
    return [*lines, *(f"* {k}: {v}" for k, v in machine().items())]


def is_wrong(row: dict[str, Any]) -> bool:
    result = str(row.get("result", ""))
    lower = "host" in str(row.get("runs", "")) or "device 2" in str(row.get("runs", ""))
    return bool(row.get("note")) or row.get("holds") == "NO" or "DIFFERENT" in result or "FAILED" in result or lower  # fmt: skip


@functools.cache
def machine() -> dict[str, str]:
    """What there is to know about the machine without its GPU, which a worker might have spoilt."""
    found = {"Python": sys.version.split()[0], "torch": torch.__version__, "CUDA of torch": str(torch.version.cuda)}  # fmt: skip
    for name in ("triton", "cuda-bindings", "llvmlite", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    found["C compiler"] = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), "none")
    found["set"] = " ".join(f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(("CUDA_", "PYTORCH_", "TRITON_", "TOGRAPH_")))  # fmt: skip
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,memory.used,compute_mode,mig.mode.current", "--format=csv,noheader"]  # fmt: skip
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        found["nvidia-smi"] = subprocess.run(query, capture_output=True, text=True, timeout=10).stdout.strip()  # fmt: skip
    return found


def _cell(value: Any) -> str:
    return short(value).replace("|", "\\|").replace("\n", " ")
