"""What each sample, workload, gradient and conformance case is on a GPU: python benchmarks/plans.py > benchmarks/results/plans.md. Needs no GPU.

Each is called on the CPU, and every graph that is made meanwhile, those of gradients too, is planned as for a GPU. A row tells the nodes of the plan
(a conditional node's body counts with it), how often the host is asked while it runs, and the memory; or why the host runs the graph op by op. Nodes that no
conditional body may hold are told as forbidden: there should be none.
"""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from gpu_bench import compiled, prepared
from gpu_correctness import CASES, GRADIENTS, SAMPLES, run_gradient, sample

import tograph as tg
from tograph.bench.workloads import WORKLOADS
from tograph.errors import TographError
from tograph.runtime.gpu import planner
from tograph.runtime.gpu.plan import Plan, check
from tograph.runtime.gpu.program import coalesced, compact, fused, told, visited
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.graph.ir import Graph
from tograph.runtime.kernels.loop_ir import Unsupported

CPU = torch.device("cpu")
CALLS = 2  # of one function: straight graphs are compiled at the second


def programs() -> Iterator[tuple[str, Callable[[], Any], int]]:
    """Names and calls, and how often to make them: a case makes its functions anew."""
    for path in sorted(SAMPLES.glob("*.py")):
        module = sample(path)
        yield f"sample {path.stem}", partial(module.main_function, *module.example_inputs()), CALLS
    for key, workload in WORKLOADS.items():
        yield f"workload {key}", prepared(workload, tg.function, CPU), CALLS
    for key in GRADIENTS:
        yield f"gradient {key}", run_gradient(WORKLOADS[key], CPU), CALLS
    folder = next((f for f in CASES if f.is_dir()), None)
    if folder is not None:
        sys.path[:0] = [str(folder)]
        for path in sorted(folder.glob("c[0-9]*_*.py")):
            importlib.import_module(path.stem)
        for case in importlib.import_module("base").CASES:
            yield f"case {case['id']}", case["fn"], 1


def graphs(call: Callable[[], Any], calls: int) -> list[Graph]:
    """The graphs that calls compile. Of one call all that it makes: straight graphs would be compiled at the second."""
    torch.manual_seed(0)
    method = "_compile" if calls > 1 else "__init__"
    with compiled(method) as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(calls):
            try:
                call()
            except TographError:  # a case may be about what is refused
                break
    return [p.graph for p in made]


def planned(graph: Graph) -> Plan | str:
    """The plan as a call on a GPU has it; or why there is none."""
    try:
        return fused(compact(visited(told(coalesced(planner.plan(retarget(graph, "cuda:0")))))))
    except Unsupported as why:
        return str(why)


def row(name: str, graph: Graph) -> dict[str, str]:
    made = planned(graph)
    found = {"program": name, "graph": graph.name}
    if isinstance(made, str):
        why = re.sub(r"\S+/(?=[^/\s]+:\d)", "", made)  # of files their names
        return {**found, "nodes": f"the host runs it op by op: {why}"}
    nodes = made.nodes()
    asked = sum(n for kind, n in nodes.items() if kind.startswith("host"))
    depth = max((d for _, d in made.walk()), default=0)
    shown = ", ".join(f"{n} {kind}" for kind, n in nodes.items()) or "none"
    return {**found, "nodes": shown, "depth": str(depth), "host": str(asked or ""), "bytes": str(made.memory), "forbidden": "; ".join(check(made))}  # fmt: skip


COLUMNS = ("program", "graph", "nodes", "depth", "host", "bytes", "forbidden")


def main() -> None:
    print("# Plans on a GPU\n\nMade without one.\n")
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + " --- |" * len(COLUMNS))
    for name, call, calls in programs():
        for graph in graphs(call, calls):
            found = row(name, graph)
            print("| " + " | ".join(found.get(c, "").replace("|", "\\|") for c in COLUMNS) + " |")


if __name__ == "__main__":
    main()
