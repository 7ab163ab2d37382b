"""A worker of ``benchmarks/gpu.py``: the parts of one section, in a process of its own, each with its rows on a line for the parent."""

from __future__ import annotations

import functools
import json
import math
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gpu_correctness
import gpu_sections
import torch
from gpu_bench import Bench
from gpu_details import Details
from gpu_probes import FUSED, PROBE
from gpu_report import is_wrong

from tograph.runtime.gpu import capture
from tograph.runtime.kernels import driver

MARK = "@row "  # begins a line that is for the parent
FRAMES, CAUSES = 4, 3  # of an error that a row tells
SPOILT = 3  # exit status of a worker whose CUDA context cannot be used any more
LAST = 4.0  # seconds before the end within which no part begins


def work(section: str, device: str, skip: int, without: str = "", cases: str = "", until: float = math.inf, details: Details | None = None) -> int:  # fmt: skip
    """Run the parts of a section from number ``skip`` on. ``without``: what is not used, since its probe gave no answer. ``until``: when the parent ends it.

    ``details``: where it is told why a part has gone wrong.
    """
    _prepared(without, cases)
    details = details or Details(None)
    wrong: list[bool] = []

    def say(**fields: Any) -> None:
        print(MARK + json.dumps(fields), flush=True)

    def row(**fields: Any) -> None:
        wrong.append(is_wrong(fields))
        say(row=fields)

    bench = Bench(device, row)
    left: list[str] = []
    for i, (name, run) in enumerate(parts(section, bench)):
        if i < skip:
            continue
        if time.time() > until - LAST:
            left.append(name)
            continue
        say(begins=i, name=name)
        wrong.clear()
        start = time.perf_counter()
        try:
            with details.part():
                run()
                bench.wait()
            say(took=round(time.perf_counter() - start, 2))
            if any(wrong):
                details.write(f"{section}: {name}", None)
        except Exception as error:  # a benchmark reports what fails and goes on
            details.write(f"{section}: {name}", error)
            say(row={"name": name, "note": f"{type(error).__name__}: {error}".strip()[:300], "where": where(error)})  # fmt: skip
            if spoilt(bench, error):
                return SPOILT
    if left:
        say(row={"note": f"no time left for {len(left)}: {', '.join(left)}"})
    return 0


def _prepared(without: str, cases: str) -> None:
    if cases:
        gpu_correctness.CASES.insert(0, Path(cases))
    if PROBE in without:
        driver.available = lambda *_: "the probe gave no answer"
    if FUSED in without:
        capture.fuses = lambda *_: "the probe gave no answer"


def where(error: BaseException) -> str:
    """The innermost frames of an error and of those behind it: what has to be looked at."""
    found = []
    for _ in range(CAUSES):
        frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
        at = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))
        found.append(f"{type(error).__name__} at {at}")
        error = error.__cause__ or error.__context__
        if error is None:
            break
    return "; from ".join(found)


def parts(section: str, bench: Bench) -> Iterator[tuple[str, Callable[[], None]]]:
    """The parts of a section; what goes wrong while they are named is one more of them, which raises it."""
    try:
        yield from gpu_sections.SECTIONS[section](bench)
    except (
        Exception
    ) as error:  # of whatever kind: the part that is made of it raises it, and its row tells
        yield "its parts", functools.partial(_raise, error)


def _raise(error: Exception) -> None:
    raise error


def spoilt(bench: Bench, error: Exception) -> bool:
    """Whether nothing more can be done on the device in this process."""
    if not bench.gpu:
        return False
    try:
        torch.zeros(1, device=bench.device).item()
    except RuntimeError:
        return True
    return "CUDA error" in str(error)
