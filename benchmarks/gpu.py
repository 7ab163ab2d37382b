"""Everything on a GPU, in one command: what is right, then what it costs. Under eight minutes; not yet seen on a GPU.

    python benchmarks/gpu.py [--output benchmarks/results] [--seconds 450] [--only correctness,loops,...]

Sections, in order; one that finds no time left says so:

correctness  every sample and workload with its tensors on the GPU, beside the same call on the CPU; level and tier of each
loops        µs per iteration of a While by number of library calls in its body: in one kernel, as a WHILE node, in chunks
calls        host synchronisations and launches of one call of each workload; 0 synchronisations is the aim of tiers 0 and 1
bandwidth    fused kernels as a share of the rate of a device copy
workloads    each beside eager PyTorch, torch.compile, its mode "reduce-overhead", and torch.while_loop; JAX where it has a GPU

Without a GPU one line says so, and the exit status is 0. ``--device cpu`` tries the script itself.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import math
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.bench import programs, torch_forms
from tograph.bench.workloads import WORKLOADS, Workload
from tograph.runtime.gpu import planner
from tograph.runtime.gpu.capture import Captured
from tograph.runtime.gpu.execute import Chunked
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.kernels.loop_ir import Unsupported

SAMPLES = Path(__file__).parent.parent / "samples"
COUNTED = ("cudaLaunchKernel", "cudaGraphLaunch", "cuLaunchKernel", "cuLaunchKernelEx")


class Bench:
    """The device, the clock of the whole run, and the rows of each section."""

    def __init__(self, device: str, seconds: float):
        self.device, self.end = torch.device(device), time.monotonic() + seconds
        self.gpu = self.device.type == "cuda"
        self.sections: dict[str, list[dict[str, Any]]] = {}

    def row(self, section: str, **fields: Any) -> None:
        self.sections.setdefault(section, []).append(fields)
        print(f"{section:12}", "  ".join(f"{k}={_short(v)}" for k, v in fields.items()), flush=True)

    def wait(self) -> None:
        if self.gpu:
            torch.cuda.synchronize()

    def out_of_time(self, section: str, name: str) -> bool:
        late = time.monotonic() > self.end
        if late:
            self.row(section, name=name, note="no time left")
        return late

    def best(self, call: Callable[[], Any], seconds: float = 0.4) -> float:
        """Seconds of a call: the best of many, each waited for."""
        call()
        found, end = math.inf, time.monotonic() + seconds
        while time.monotonic() < end or found == math.inf:
            start = time.perf_counter()
            call()
            self.wait()
            found = min(found, time.perf_counter() - start)
        return found


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def moved(tree: Any, device: torch.device) -> Any:
    """Tensors and numpy arrays in nested structures, on a device."""
    if isinstance(tree, np.ndarray | np.generic):
        return torch.from_numpy(np.array(tree)).to(device)
    if isinstance(tree, torch.Tensor | torch.nn.Module):
        return tree.to(device)
    if isinstance(tree, (list, tuple)):
        return type(tree)(moved(x, device) for x in tree)
    return {k: moved(v, device) for k, v in tree.items()} if isinstance(tree, dict) else tree


def prepared(workload: Workload, wrap: Callable, device: torch.device) -> Callable[[], Any]:
    """A call without arguments of a workload on a device."""
    tensors = list(moved(workload.inputs(), device).values())
    if workload.kind == "train":
        x, target, *weights = tensors
        weights = [w.requires_grad_() for w in weights]
        momenta = [torch.zeros_like(w) for w in weights]
        return functools.partial(wrap(programs.train_step), x, target, weights, momenta)
    form = wrap(workload.program)
    if workload.kind == "gradient":
        weights = [t.requires_grad_() for t in tensors[2:]]
        return lambda: torch.autograd.grad((form(*tensors) ** 2).sum(), weights)
    return functools.partial(form, *tensors)


# ---- correctness


def sample(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def correctness(bench: Bench) -> None:
    for path in sorted(SAMPLES.glob("*.py")):
        if not bench.out_of_time("correctness", path.stem):
            compare(bench, path.stem, functools.partial(run_sample, path))
    for key, workload in WORKLOADS.items():
        if not bench.out_of_time("correctness", key):
            compare(bench, key, lambda device, w=workload: run_workload(w, device))


def run_sample(path: Path, device: torch.device) -> tuple[Any, Any]:
    torch.manual_seed(0)
    with device:
        module = sample(path)
        arguments = moved(module.example_inputs(), device)
        return module.main_function(*arguments), module.main_function


def run_workload(workload: Workload, device: torch.device) -> tuple[Any, Any]:
    form = tg.function(workload.program)
    with device:
        return prepared(workload, lambda f: form, device)(), form


def compare(bench: Bench, name: str, run: Callable[[torch.device], tuple[Any, Any]]) -> None:
    try:
        want = run(torch.device("cpu"))[0]
        start = time.perf_counter()
        got, function = run(bench.device)
    except Exception as error:  # a benchmark reports what fails and goes on
        bench.row("correctness", name=name, result=f"{type(error).__name__}: {error}"[:160])
        return
    bench.wait()
    first = time.perf_counter() - start
    flat = [t.detach().cpu() for t in torch.utils._pytree.tree_leaves(got) if isinstance(t, torch.Tensor)]  # fmt: skip
    good = [t.detach() for t in torch.utils._pytree.tree_leaves(want) if isinstance(t, torch.Tensor)]  # fmt: skip
    same = len(flat) == len(good) and all(map(close, flat, good))
    made = list(function.concrete_functions) if hasattr(function, "concrete_functions") else []
    level = made[-1].scheduled.level if made else "?"
    reason = made[-1].scheduled.reason if made else ""
    bench.row("correctness", name=name, result="same" if same else "DIFFERENT", first=first, level=level, reason=reason[:120])  # fmt: skip


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)


# ---- loops


def loop_of(calls: int) -> Callable:
    def run(x, w, n):
        i = torch.zeros_like(n)
        while i < n:
            for _ in range(calls):
                x = x @ w
            i = i + 1
        return x, i

    return run


def loops(bench: Bench) -> None:
    few, many = 100, 1100
    for calls in (0, 1, 3, 10):
        x, w = torch.eye(64, device=bench.device), torch.eye(64, device=bench.device)
        numbers = [torch.tensor(n, device=bench.device) for n in (few, many)]
        graph = tg.function(loop_of(calls)).get_concrete_function(x, w, numbers[0]).watched_graph
        for kind, make in (("one kernel or WHILE", _planned(True)), ("WHILE node", _planned(False)), ("chunks", _chunked)):  # fmt: skip
            if bench.out_of_time("loops", kind):
                return
            try:
                runner = make(graph, bench)
                times = [bench.best(functools.partial(runner.run, x, w, n), 0.3) for n in numbers]
            except (Unsupported, RuntimeError) as error:
                bench.row("loops", calls=calls, kind=kind, note=str(error)[:120])
                continue
            each = (times[1] - times[0]) / (many - few) * 1e6
            bench.row("loops", calls=calls, kind=kind, microseconds=each)
        alone = bench.best(functools.partial(products, x, w, calls)) * 1e6
        bench.row("loops", calls=calls, kind="the calls alone, from Python", microseconds=alone)


def products(x: torch.Tensor, w: torch.Tensor, count: int) -> None:
    for _ in range(count):
        torch.mm(x, w)


def _planned(whole: bool) -> Callable:
    return lambda graph, bench: Captured(planner.plan(graph, whole))


def _chunked(graph: Any, bench: Bench) -> Chunked:
    at = graph if bench.gpu else retarget(graph, "cuda:0")
    return Chunked(planner.plan(at, whole=False), str(bench.device))


# ---- synchronisations and launches


def calls(bench: Bench) -> None:
    if not bench.gpu:
        return bench.row("calls", note="only on a GPU")
    for key, workload in WORKLOADS.items():
        if bench.out_of_time("calls", key):
            return None
        with bench.device:
            call = prepared(workload, tg.function, bench.device)
            for _ in range(3):
                call()
            bench.row("calls", name=key, synchronisations=synchronisations(call), **launches(call))
    return None


def synchronisations(call: Callable[[], Any]) -> int:
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(w.message) for w in seen)


def launches(call: Callable[[], Any]) -> dict[str, int]:
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        call()
        torch.cuda.synchronize()
    found = {e.key: e.count for e in profile.key_averages() if e.key in COUNTED}
    return {"launches": sum(found.values()), "graphs": found.get("cudaGraphLaunch", 0)}


# ---- bandwidth


def chain(x, y):
    t = x * 0.5 + y
    w = torch.exp(-(t * t)) * torch.tanh(t) + torch.erf(t)
    return torch.where(w > 0, w, 0.1 * w)


def norm_gelu(x):
    return x + F.gelu(F.layer_norm(x, (x.shape[-1],)))


def bandwidth(bench: Bench) -> None:
    shape = (16384, 4096) if bench.gpu else (256, 256)
    x, y = (torch.randn(shape, device=bench.device) for _ in range(2))
    out = torch.empty_like(x)
    size = x.numel() * x.element_size()
    copy = 2 * size / bench.best(lambda: out.copy_(x))
    bench.row("bandwidth", name="copy", GB_per_s=copy / 1e9)
    rows: dict[str, tuple[Callable, tuple, float]] = {
        "pointwise": (chain, (x, y), 3),
        "softmax": (lambda x: torch.softmax(x, -1), (x,), 2),
        "layer norm, gelu, residual": (norm_gelu, (x,), 2),
        "row sums": (lambda x: (x * x).sum(-1), (x,), 1),
        "column sums": (lambda x: (x * x).sum(0), (x,), 1),
    }
    for name, (fn, given, passes) in rows.items():
        if bench.out_of_time("bandwidth", name):
            return
        ours, theirs = tg.function(fn), fn
        rate = passes * size / bench.best(functools.partial(ours, *given))
        eager = passes * size / bench.best(functools.partial(theirs, *given))
        bench.row("bandwidth", name=name, GB_per_s=rate / 1e9, share_of_copy=rate / copy, eager=eager / copy)  # fmt: skip


# ---- workloads


def workloads(bench: Bench) -> None:
    peers: dict[str, Callable] = {
        "tograph": tg.function,
        "eager": lambda f: f,
        "compile": torch.compile,
        "reduce-overhead": lambda f: torch.compile(f, mode="reduce-overhead"),
    }
    ratios = []
    for key, workload in WORKLOADS.items():
        found: dict[str, Any] = {}
        forms = dict(peers)
        if key in torch_forms.FORMS and workload.kind == "forward":
            forms["while_loop"] = lambda f, key=key: torch.compile(torch_forms.FORMS[key])
        for name, wrap in forms.items():
            if bench.out_of_time("workloads", f"{key} {name}"):
                break
            try:
                with bench.device:
                    found[name] = bench.best(prepared(workload, wrap, bench.device)) * 1e6
            except Exception as error:  # a peer that refuses is a result
                found[name] = f"{type(error).__name__}"
        times = [v for k, v in found.items() if k in ("eager", "compile", "reduce-overhead") and isinstance(v, float)]  # fmt: skip
        if times and isinstance(found.get("tograph"), float):
            found["ratio"] = min(times) / found["tograph"]
            ratios.append(found["ratio"])
        bench.row("workloads", name=key, **found)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        bench.row("workloads", name="geometric mean of the ratio to the best of eager and torch.compile", ratio=mean)  # fmt: skip


# ---- the report


SECTIONS = {f.__name__: f for f in (correctness, loops, calls, bandwidth, workloads)}


def report(bench: Bench, folder: Path) -> Path:
    """A Markdown page and the same as JSON."""
    name = torch.cuda.get_device_name(bench.device) if bench.gpu else platform.processor() or "CPU"
    lines = [f"# tograph on {name}", "", f"torch {torch.__version__}, Python {platform.python_version()}. Times in µs unless the name says otherwise."]  # fmt: skip
    for section, rows in bench.sections.items():
        columns = list(dict.fromkeys(k for r in rows for k in r))
        lines += ["", f"## {section}", "", f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]  # fmt: skip
        lines += [f"| {' | '.join(_short(r.get(c, '')) for c in columns)} |" for r in rows]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu.json").write_text(json.dumps({"device": name, **bench.sections}, indent=1))
    page = folder / "gpu.md"
    page.write_text("\n".join(lines) + "\n")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("benchmarks/gpu.py: there is no GPU on this machine; nothing was measured")
        return
    bench = Bench("cuda:0" if options.device == "cuda" else options.device, options.seconds)
    for name in options.only.split(","):
        SECTIONS[name](bench)
    print(report(bench, options.output))


if __name__ == "__main__":
    main()
