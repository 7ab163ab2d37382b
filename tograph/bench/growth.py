"""How cost grows: the first call with the length of a graph, a loop with its steps, a chain of ops with its size."""

from __future__ import annotations

import linecache
import time
from collections.abc import Callable
from pathlib import Path

import torch

from .. import function
from . import clock, programs
from .report import duration

LENGTHS = (10, 100, 1_000, 10_000)
STEPS = (1, 100, 10_000, 1_000_000)
SIZES = (1, 1_000, 100_000, 10_000_000)


def straight_line(length: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function of ``length`` ops, one after the other."""
    ops = ("y = y * 1.001", "y = torch.sin(y)", "y = y + x", "y = torch.maximum(y, x)")
    lines = ["def chain(x):", "    y = x", *(f"    {ops[i % 4]}" for i in range(length))]
    source = "\n".join([*lines, "    return y", ""])
    name = f"<bench chain of {length}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace = {"torch": torch, "__name__": __name__}
    exec(compile(source, name, "exec"), namespace)
    return namespace["chain"]


def pointwise(x, y):
    return torch.tanh(x * y + 1) * torch.exp(-x) + torch.sigmoid(y)


def _length(length: int) -> tuple[float, float]:
    plain, x = straight_line(length), torch.rand(16)
    compiled = function(plain)
    start = time.perf_counter()
    compiled(x)
    return time.perf_counter() - start, clock.steady(lambda: plain(x)).seconds


def _steps(steps: int) -> tuple[float, float]:
    compiled, args = function(programs.newton), (torch.tensor(2.0), torch.tensor(steps))
    compiled(*args)
    fast = clock.steady(lambda: compiled(*args)).seconds
    if steps > 10_000:
        return fast, float("nan")
    return fast, clock.steady(lambda: programs.newton(*args)).seconds


def _size(size: int) -> tuple[float, float]:
    compiled, args = function(pointwise), (torch.rand(size), torch.rand(size))
    compiled(*args)
    return tuple(clock.steady(lambda f=f: f(*args)).seconds for f in (compiled, pointwise))


def run(threads: int, out: Path | None = None) -> str:
    """Measure, print the tables, and write ``growth.md`` under ``out``."""
    torch.set_num_threads(threads)
    lines = ["# How cost grows", ""]
    for title, what, values, measure in (
        ("Graph length", "first call", LENGTHS, _length),
        ("Loop steps (Newton on 0-d tensors)", "steady call", STEPS, _steps),
        ("Elements of a chain of six pointwise ops", "steady call", SIZES, _size),
    ):
        lines += [f"## {title}", "", f"| n | tograph, {what} | a unit of n | eager, steady call |"]
        lines += ["| --- | --- | --- | --- |"]
        for n in values:
            own, eager = measure(n)
            beside = duration(eager) if eager == eager else ""
            lines.append(f"| {n:,} | {duration(own)} | {duration(own / n)} | {beside} |")
        lines.append("")
    text = "\n".join(lines)
    print(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "growth.md").write_text(text)
    return text
