"""The sections of ``benchmarks/gpu.py`` on the device of ``simulated``: what raises there would raise on a GPU.

    python -m tests.runtime.gpu.simulated_benchmark [section ...] [--parts REGEX] [--seconds 60]

Times mean nothing here. What only a GPU has (bits of its random numbers, rates, the profiler) is not compared.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import importlib
import re
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.runtime.gpu.fake_graphs import Graph
from tests.runtime.gpu.simulated import Simulated, launch, simulate
from tograph.bench import programs, workloads
from tograph.runtime.gpu import direct, draws, hazards, planner
from tograph.runtime.gpu.execute import Chunked
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.kernels import device, driver, images, triton_jit, tuning

GRAPH = direct.GRAPH  # as on a GPU
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def small() -> dict[str, Any]:
    """Inputs of the workloads that Triton's interpreter gets through in seconds, by key."""
    given = {key: w.inputs() for key, w in workloads.WORKLOADS.items()}
    given["a1"]["n"][...] = 12
    given["a2"]["n_steps"][...] = 12
    given["b"] |= {"a": given["b"]["a"][:8, :8].copy(), "v": given["b"]["v"][:8].copy(), "tolerance": np.array(0.3, np.float32)}  # fmt: skip
    for key in ("c", "cg"):
        r, hidden = np.random.default_rng(0), 8
        sizes = {"x": (4, 3, hidden), "wx": (hidden, 24), "wh": (hidden, 24), "bx": (24,), "bh": (24,)}  # fmt: skip
        made = {name: r.normal(size=size).astype(np.float32) for name, size in sizes.items()}
        made["lengths"] = np.array([3, 1, 2], np.int32)
        given[key] = {name: made[name] for name in given[key]}
    tokens = programs.greedy_decode(*map(torch.from_numpy, map(np.array, given["d"].values())))
    given["d"]["eos"] = tokens[3].numpy()
    given["e"] |= {"y": given["e"]["y"][:, :8].copy(), "p": given["e"]["p"][:, :8].copy(), "end": np.array(0.6, np.float32)}  # fmt: skip
    shapes = {"x": (4, 16), "w0": (16, 8), "w1": (8, 8), "w2": (8, 10), "b0": (8,), "b1": (8,)}
    given["f"] |= {name: given["f"][name][tuple(map(slice, shape))].copy() for name, shape in shapes.items()}  # fmt: skip
    given["f"]["target"] = given["f"]["target"][:4].copy()
    given["g"]["x"] = given["g"]["x"][:4].copy()
    given["h"] |= {"re": given["h"]["re"][::64, ::64].copy(), "im": given["h"]["im"][::64, ::64].copy(), "n": np.array(6, np.int32)}  # fmt: skip
    return given


def smaller(module: Any) -> Any:
    """A sample that the interpreter gets through in seconds: with a few steps of training, on less data."""
    if hasattr(module, "STEPS"):
        module.STEPS = 2
    if (cut := SMALLER.get(module.__name__)) is not None:
        module.example_inputs = functools.partial(cut, *module.example_inputs())
    return module


SMALLER: dict[str, Any] = {
    "language_model": lambda weights, lines, lengths, steps: (weights, lines[:4, :3], torch.tensor([4, 3, 2]), torch.tensor(2)),
    "reinforce": lambda policy, noise: (policy, noise[:2, :4]),
}  # fmt: skip


def formula(q: Any, k: Any, v: Any, **given: Any) -> Any:
    """Attention as it is recorded on a GPU."""
    return torch.ops.aten._scaled_dot_product_attention_math(q, k, v, **given)[0]


def by_position(source: Any, values: Any) -> None:
    launch(source, dict(zip(source.signature, values, strict=True)))


@contextlib.contextmanager
def recorded(graph: Any, **_: Any) -> Any:
    """In the place of ``torch.cuda.graph``: what torch does in it is done at once, and not again."""
    graph.root = Graph()
    yield


def prepare(monkeypatch: Any) -> tuple[Any, Simulated]:
    """(the module ``gpu`` of the benchmarks, the device): what the sections use of a GPU is in place."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    made = simulate(monkeypatch)
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(sys.modules["gpu_measures"], "TRIPS", (2, 4))
    monkeypatch.setattr(
        sys.modules["gpu_correctness"], "CALLS", 4
    )  # the fourth one reads inputs where they are
    monkeypatch.setattr(sys.modules["gpu_correctness"], "reference", lambda make, cpu: make(cpu, plain=True))  # all else is on the device  # fmt: skip
    monkeypatch.setattr(sys.modules["gpu_measures"], "SIDE", 64)
    monkeypatch.setattr(
        sys.modules["gpu_measures"], "ACTIVITIES", [torch.profiler.ProfilerActivity.CPU]
    )
    monkeypatch.setattr(sys.modules["gpu_correctness"], "sample", lambda path, load=sys.modules["gpu_correctness"].sample: smaller(load(path)))  # fmt: skip
    for place, name, value in (("gpu_draws", "SIZES", ((1002,), (5,), (7, 100))), ("gpu_nodes", "SIDE", 64), ("gpu_calls", "PRINTS", 700), ("gpu_calls", "LONG", (32, 3))):  # fmt: skip
        monkeypatch.setattr(sys.modules[place], name, value)
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", formula
    )  # torch has one kernel for it on a CPU
    for key, inputs in small().items():
        made_smaller = dataclasses.replace(workloads.WORKLOADS[key], inputs=functools.partial(dict, inputs))  # fmt: skip
        monkeypatch.setitem(workloads.WORKLOADS, key, made_smaller)
    for place, name, value in (
        (images, "start", launch), (triton_jit, "launch", by_position), (driver, "loadable", lambda: ""),
        (device, "prepare", lambda kernels, place: None), (tuning, "device_name", lambda device: "simulated"),
        (torch.cuda, "get_device_capability", lambda device=None: (9, 0)), (torch.cuda, "is_current_stream_capturing", lambda: False),
        (torch.cuda, "set_sync_debug_mode", lambda mode: None), (torch.cuda, "graph", recorded),
        (draws, "blocks", lambda device: 512), (hazards, "LEAST", 0.0), (direct, "GRAPH", GRAPH),
    ):  # fmt: skip
        monkeypatch.setattr(place, name, value)
    plan = planner.plan
    monkeypatch.setattr(planner, "plan", lambda graph, *rest, **kw: plan(retarget(graph, "cuda:0"), **dict(zip(("whole",), rest)), **kw))  # fmt: skip
    before = Chunked.__init__
    monkeypatch.setattr(Chunked, "__init__", lambda self, plan, where=None, **kw: before(self, plan, "cpu", **{"chunk": 2, **kw}))  # fmt: skip
    return gpu, made


class Bench:
    """``gpu_bench.Bench`` of the device; one call is enough for a time."""

    def __new__(cls, gpu: Any, row: Any) -> Any:
        made = sys.modules["gpu_bench"].Bench("cpu", row)
        made.gpu = True
        made.latency = made.throughput = functools.partial(_once, made)
        return made


def _once(bench: Any, call: Any, *_: Any, **named: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Late(BaseException):
    """A part takes too long: no error of the device, which would be run another way."""


def section(gpu: Any, name: str, row: Any, wanted: str = "", seconds: int = 60) -> None:
    """Run the parts of a section whose names match; a part that raises, or takes too long, is a row."""
    bench = Bench(gpu, row)

    def late(*_: Any) -> None:
        raise Late(f"more than {seconds} s")

    for part, run in gpu.gpu_sections.SECTIONS[name](bench):
        if not re.search(wanted, part):
            continue
        signal.signal(signal.SIGALRM, late)
        signal.alarm(seconds)
        start = time.perf_counter()
        try:
            run()
        except (Exception, Late) as error:
            traceback.print_exc(limit=-4)
            row(name=part, note=f"{type(error).__name__}: {error}"[:300])
        finally:
            signal.alarm(0)
        print(f"    {part}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--parts", default="")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--cases", type=Path, help="the folder of the conformance cases")
    options = parser.parse_args()
    with pytest.MonkeyPatch.context() as monkeypatch:
        gpu, made = prepare(monkeypatch)
        if options.cases:
            monkeypatch.setattr(sys.modules["gpu_correctness"], "CASES", [options.cases])
        for name in options.sections or gpu.gpu_sections.SECTIONS:
            section(gpu, name, lambda section=name, **fields: print(section, fields, flush=True), options.parts, options.seconds)  # fmt: skip
        for level in made.levels:
            if level[1:3] != ("device", 1):
                print("level", *level)
        print("declined", sorted({*made.declined}))


if __name__ == "__main__":
    main()
