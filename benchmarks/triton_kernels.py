"""Every Triton kernel of the samples and workloads: what it takes to make one, and what it takes of the machine.

    python benchmarks/triton_kernels.py [--output benchmarks/results] [--plans] [sm_80 sm_90 sm_100 gfx942]

Needs triton and no GPU. Ends with status 1 where a kernel spills registers or a plan has what a conditional body may not hold. ``--plans``
prints the plan of each graph. Times are processor time of this machine, the assembler's included, with Triton's cache of compiled code empty; ``plan`` is
the time to make the whole plan of a graph, rendering included. Results of several versions of Triton stand beside each other: ``--name triton_kernels_3.6``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import tograph as tg
from tograph.bench.workloads import WORKLOADS
from tograph.runtime.gpu import planner
from tograph.runtime.gpu.compacting import compact
from tograph.runtime.gpu.plan import Plan, Run, check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.graph.ir import Graph
from tograph.runtime.kernels import triton_jit
from tograph.runtime.kernels.loop_ir import Unsupported

SAMPLES = Path(__file__).parent.parent / "samples"


def graphs() -> Iterator[tuple[str, Graph]]:
    """The traces of all samples and workloads; of the one with a gradient the forward and the backward graph."""
    for path in sorted(SAMPLES.glob("*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made = module.main_function.get_concrete_function(*module.example_inputs())
        yield path.stem, made.value_graph
    for key, workload in WORKLOADS.items():
        given = [torch.as_tensor(a) for a in workload.inputs().values()]
        yield from _KINDS[workload.kind](key, tg.function(workload.program), given)


def _forward(key: str, f: Any, given: list[torch.Tensor]) -> Iterator[tuple[str, Graph]]:
    yield key, f.get_concrete_function(*given).value_graph


def _gradient(key: str, f: Any, given: list[torch.Tensor]) -> Iterator[tuple[str, Graph]]:
    """As a call makes it: the weights, which follow the data, require grad."""
    given = given[:2] + [x.requires_grad_() for x in given[2:]]
    f(*given).sum().backward()
    for pair in f.concrete_functions[0].gradients.differentiable._pairs.values():
        yield f"{key} forward", pair.program.graph
        for backward in pair._backwards.values():
            yield f"{key} backward", backward.graph


def _train(key: str, f: Any, given: list[torch.Tensor]) -> Iterator[tuple[str, Graph]]:
    data, weights = given[:2], [x.requires_grad_() for x in given[2:]]
    momenta = [torch.zeros_like(w) for w in weights]
    yield key, f.get_concrete_function(*data, weights, momenta).value_graph


_KINDS = {"forward": _forward, "gradient": _gradient, "train": _train}


problems: list[str] = []  # of plans


def planned(graph: Graph) -> tuple[Plan | str, float]:
    """(the plan on a GPU or why there is none, seconds)."""
    start = spent()
    try:
        made = compact(planner.plan(retarget(graph, "cuda:0")))
        return made, spent() - start
    except Unsupported as why:
        return str(why), spent() - start


def spent() -> float:
    """Seconds of a processor, of this process and those that it has waited for: others on the machine do not count."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


@dataclass
class Found:
    """What there is of one architecture: seconds of each kernel, the most registers, spilled bytes."""

    seconds: list[float] = field(default_factory=list)
    registers: int = 0
    spills: int = 0

    def __str__(self) -> str:
        times = sorted(self.seconds) or [0.0]
        return f"{len(times)} kernels, {times[len(times) // 2]:.2f} s the median, {times[-1]:.2f} s the longest, up to {self.registers} registers, {self.spills} bytes spilled"


def table(architectures: list[str], plans: bool, found: dict[str, Found]) -> list[str]:
    head = ["graph", "kernel", *(f"{a}: s, registers, spills" for a in architectures)]
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    for name, graph in graphs():
        made, seconds = planned(graph)
        if isinstance(made, str):
            lines.append(f"| {name} | host: {made.split('/')[-1]} |" + " |" * len(architectures))
            continue
        problems.extend(f"{name}: {p}" for p in check(made))
        if plans:
            print(made)
        nodes = ", ".join(f"{n} {kind}" for kind, n in made.nodes().items())
        lines.append(f"| {name} | plan {seconds * 1e3:.0f} ms: {nodes} |" + " |" * len(architectures))  # fmt: skip
        for step in (*made.once, *(s for s, _ in made.walk())):
            if isinstance(step, Run):
                cells = [_cell(step, a, found[a]) for a in architectures]
                lines.append(f"| | {step.source.name} | {' | '.join(cells)} |")
        print(name, flush=True)
    return lines


def _cell(step: Run, architecture: str, all_: Found) -> str:
    start = spent()
    found = triton_jit.compiled(step.source, architecture).resources
    all_.seconds.append(spent() - start)
    all_.registers, all_.spills = max(all_.registers, found.registers), all_.spills + found.spills
    return f"{all_.seconds[-1]:.2f}, {found.registers}, {found.spills}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--name", default="triton_kernels", help="of the file")
    parser.add_argument("architectures", nargs="*", default=list(triton_jit.ARCHITECTURES))
    parser.add_argument("--plans", action="store_true", help="print the plan of each graph")
    options = parser.parse_args()
    if why := triton_jit.available():
        print(f"benchmarks/triton_kernels.py: {why}")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        found = {a: Found() for a in options.architectures}
        lines = table(options.architectures, options.plans, found)
    page = options.output / f"{options.name}.md"
    text = f"# Triton kernels of the samples and workloads\n\nMade by `benchmarks/triton_kernels.py`, without a GPU, with Triton {triton_jit.version()}.\n\n"
    text += "".join(f"* {a}: {all_}\n" for a, all_ in found.items()) + "\n"
    options.output.mkdir(parents=True, exist_ok=True)
    page.write_text(text + "\n".join(lines) + "\n")
    print(*(f"{a}: {all_}" for a, all_ in found.items()), *problems, page, sep="\n")
    if problems or any(all_.spills for all_ in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
