"""Every Triton kernel of the samples and workloads: what it takes to make one, and what it takes of the machine.

    python benchmarks/triton_kernels.py [--output benchmarks/results] [sm_80 sm_90 sm_100 gfx942]

Needs triton and no GPU. Times are of this machine, with Triton's cache of compiled code empty; ``plan`` is the time to make
the whole plan of a graph, rendering included.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import tograph as tg
from tograph.bench.workloads import WORKLOADS
from tograph.runtime.gpu import planner
from tograph.runtime.gpu.coalescing import coalesced
from tograph.runtime.gpu.plan import Plan, Run, check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.ir import Graph
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
        yield path.stem, made.watched_graph
    for key, workload in WORKLOADS.items():
        given = [torch.as_tensor(a) for a in workload.inputs().values()]
        yield from _KINDS[workload.kind](key, tg.function(workload.program), given)


def _forward(key: str, f: Any, given: list[torch.Tensor]) -> Iterator[tuple[str, Graph]]:
    yield key, f.get_concrete_function(*given).watched_graph


def _gradient(key: str, f: Any, given: list[torch.Tensor]) -> Iterator[tuple[str, Graph]]:
    """As a call makes it: the weights, which follow the data, require grad."""
    given = given[:2] + [x.requires_grad_() for x in given[2:]]
    f(*given).sum().backward()
    for pair in f.concrete_functions[0]._differentiable._pairs.values():
        yield f"{key} forward", pair.program.graph
        for backward in pair._backwards.values():
            yield f"{key} backward", backward.graph


def _train(key: str, f: Any, given: list[torch.Tensor]) -> Iterator[tuple[str, Graph]]:
    data, weights = given[:2], [x.requires_grad_() for x in given[2:]]
    momenta = [torch.zeros_like(w) for w in weights]
    yield key, f.get_concrete_function(*data, weights, momenta).watched_graph


_KINDS = {"forward": _forward, "gradient": _gradient, "train": _train}


def planned(graph: Graph) -> tuple[Plan | str, float]:
    """(the plan on a GPU or why there is none, seconds)."""
    start = time.perf_counter()
    try:
        made = coalesced(planner.plan(retarget(graph, "cuda:0")))
        return made, time.perf_counter() - start
    except Unsupported as why:
        return str(why), time.perf_counter() - start


def table(architectures: list[str]) -> list[str]:
    head = ["graph", "kernel", *(f"{a}: s, registers, spills" for a in architectures)]
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    for name, graph in graphs():
        made, seconds = planned(graph)
        if isinstance(made, str):
            lines.append(f"| {name} | host: {made.split('/')[-1]} |" + " |" * len(architectures))
            continue
        assert check(made) == []
        nodes = ", ".join(f"{n} {kind}" for kind, n in made.nodes().items())
        lines.append(f"| {name} | plan {seconds * 1e3:.0f} ms: {nodes} |" + " |" * len(architectures))  # fmt: skip
        for step, _ in made.walk():
            if isinstance(step, Run):
                cells = [_cell(step, a) for a in architectures]
                lines.append(f"| | {step.source.name} | {' | '.join(cells)} |")
        print(name, flush=True)
    return lines


def _cell(step: Run, architecture: str) -> str:
    start = time.perf_counter()
    found = triton_jit.compiled(step.source, architecture).resources
    return f"{time.perf_counter() - start:.2f}, {found.registers}, {found.spills}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("architectures", nargs="*", default=list(triton_jit.ARCHITECTURES))
    options = parser.parse_args()
    if why := triton_jit.available():
        print(f"benchmarks/triton_kernels.py: {why}")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        lines = table(options.architectures)
    page = options.output / "triton_kernels.md"
    text = "# Triton kernels of the samples and workloads\n\nMade by `benchmarks/triton_kernels.py`, without a GPU.\n\n"
    options.output.mkdir(parents=True, exist_ok=True)
    page.write_text(text + "\n".join(lines) + "\n")
    print(page)


if __name__ == "__main__":
    main()
