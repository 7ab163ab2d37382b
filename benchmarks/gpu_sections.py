"""The sections of ``benchmarks/gpu.py``: each gives its parts, a name and a call that measures it and reports rows."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from gpu_assumptions import assumptions, probes
from gpu_bench import Bench, compiled, levels, moved, prepared

import tograph as tg
from tograph.bench import peers, torch_forms
from tograph.bench.workloads import WORKLOADS, Workload
from tograph.runtime.gpu import capture, fused_code, planner
from tograph.runtime.gpu.execute import Chunked
from tograph.runtime.gpu.plan import Setting
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.kernels.loop_ir import Unsupported

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "samples"
# The conformance cases lie beside the checkout, or in it; where they do not, their section says so.
CASES = [ROOT / "shared" / "CASES", ROOT.parent / "shared" / "CASES"]
GRAPHS = ("cudaGraphLaunch", "cuGraphLaunch")  # of torch; of a plan, by the driver
COUNTED = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", *GRAPHS)
WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cuStreamSynchronize", "cuEventSynchronize")  # fmt: skip

Part = tuple[str, Callable[[], None]]


# ---- correctness


def sample(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def correctness(bench: Bench) -> Iterator[Part]:
    for path in sorted(SAMPLES.glob("*.py")):
        yield path.stem, functools.partial(compare, bench, path.stem, functools.partial(run_sample, path))  # fmt: skip
    for key, workload in WORKLOADS.items():
        yield key, functools.partial(compare, bench, key, functools.partial(run_workload, workload))
    for key in GRADIENTS:
        yield f"{key} gradient", functools.partial(compare, bench, f"{key} gradient", functools.partial(run_gradient, WORKLOADS[key]))  # fmt: skip


CALLS = 5  # of each: inputs that stay where they are are bound at the third
ENOUGH = 8.0  # seconds of calls on the CPU after which there are no more


def run_sample(path: Path, device: torch.device, plain: bool = False) -> Callable[[], Any]:
    arguments = moved(sample(path).example_inputs(), device)
    with device:
        function = sample(path).main_function
    return functools.partial(function.python_function if plain else function, *arguments)


def run_workload(workload: Workload, device: torch.device, plain: bool = False) -> Callable[[], Any]:  # fmt: skip
    with device:
        return prepared(workload, (lambda f: f) if plain else tg.function, device)


GRADIENTS = (
    "a1",
    "b",
    "e",
    "g",
    "i",
)  # whose results have gradients; those of others are workloads


def run_gradient(workload: Workload, device: torch.device, plain: bool = False) -> Callable[[], Any]:  # fmt: skip
    """The gradients of a workload by all that it is given."""
    tensors = list(moved(workload.inputs(), device).values())
    given = [t.requires_grad_() for t in tensors if t.is_floating_point()]
    form = workload.program if plain else tg.function(workload.program)

    def call() -> Any:
        with device:
            made = torch.utils._pytree.tree_leaves(form(*tensors))
        total = sum((x * x).sum() for x in made if x.requires_grad)
        return torch.autograd.grad(total, given, allow_unused=True)

    return call


def compare(bench: Bench, name: str, make: Callable[..., Callable[[], Any]]) -> None:
    """Several calls on the device beside the same calls on the CPU; where they differ, as what draws random numbers does, beside plain ones there."""
    cpu, times = torch.device("cpu"), []
    want = results(make(cpu), cpu, [])
    call = make(bench.device)
    with compiled() as made:
        got = results(call, bench.device, times, len(want))
    result = differing(got, want) or "same"
    if result != "same":
        plainly = differing(got, results(make(bench.device, plain=True), bench.device, [], len(want)))  # fmt: skip
        result = f"{plainly}; on the CPU {result}" if plainly else "same as plain calls there"
    bench.row(name=name, result=result, first_call_s=times[0], last_call_s=times[-1], **levels(made))  # fmt: skip


def results(call: Callable[[], Any], device: torch.device, times: list[float], calls: int = 0) -> list[list[torch.Tensor]]:  # fmt: skip
    """What the same calls give, and how long each takes. ``calls``: how many; without it ``CALLS``, or as many as there is time for."""
    torch.manual_seed(0)
    found: list[list[torch.Tensor]] = []
    while len(found) < (calls or CALLS) and (calls or sum(times) < ENOUGH):
        start = time.perf_counter()
        with device:
            found.append(leaves(call()))
        times.append(time.perf_counter() - start)
    return found


def differing(got: list[list[torch.Tensor]], want: list[list[torch.Tensor]]) -> str:
    """In which call there is a difference; empty where there is none."""
    pairs = enumerate(zip(got, want, strict=True))
    return next((f"DIFFERENT in call {k + 1}" for k, (a, b) in pairs if len(a) != len(b) or not all(map(close, a, b))), "")  # fmt: skip


def leaves(tree: Any) -> list[torch.Tensor]:
    found = torch.utils._pytree.tree_leaves(tree)
    return [t.detach().cpu().clone() for t in found if isinstance(t, torch.Tensor)]


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """The number of iterations until something is small enough follows from the last bits."""
    rtol = 1e-3 if a.shape else 2e-2
    return a.shape == b.shape and torch.allclose(a, b, rtol=rtol, atol=1e-4, equal_nan=True)


# ---- conformance cases


def cases(bench: Bench) -> Iterator[Part]:
    """The cases of the conformance suite, with tensors made on the device."""
    folder = next((f for f in CASES if f.is_dir()), None)
    if folder is None:
        yield "all", lambda: bench.row(note="there is no folder shared/CASES")
        return
    sys.path[:0] = [str(folder)]
    base = importlib.import_module("base")
    torch.set_default_device(bench.device)
    for path in sorted(folder.glob("c[0-9]*_*.py"), key=lambda p: int(p.stem[1:].split("_")[0])):
        importlib.import_module(path.stem)
    for found in base.CASES:
        yield found["id"], functools.partial(one_case, bench, base, found)


def one_case(bench: Bench, base: Any, found: dict[str, Any]) -> None:
    shim = importlib.import_module("shim")
    try:
        got = found["fn"]()
    except Exception as error:  # what a case may be about; `describe` gives its type and text
        got = shim.describe(error)
    good = bool(base.match(got, found["expect"]))
    shown = {} if good else {"got": str(got)[:160]}
    bench.row(name=found["id"], result="passed" if good else "FAILED", **shown)


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


def loops(bench: Bench) -> Iterator[Part]:
    kinds = {
        "one kernel or WHILE": _planned(True),
        "WHILE node, setter apart": _planned(False),
        "WHILE node, setter fused": _fused,
        "chunks": _chunked,
    }
    for calls in (0, 1, 3, 10):
        for kind, make in kinds.items():
            yield f"{calls} calls, {kind}", functools.partial(one_loop, bench, calls, kind, make)
        if calls:
            yield f"{calls} calls alone", functools.partial(calls_alone, bench, calls)


TRIPS = 100, 1100  # of two calls: their difference is what iterations take


def one_loop(bench: Bench, calls: int, kind: str, make: Callable) -> None:
    few, many = TRIPS
    x, w = torch.eye(64, device=bench.device), torch.eye(64, device=bench.device)
    numbers = [torch.tensor(n, device=bench.device) for n in (few, many)]
    made = tg.function(loop_of(calls)).get_concrete_function(x, w, numbers[0])
    try:
        runner = make(made.value_graph, bench)
    except Unsupported as why:
        return bench.row(calls=calls, kind=kind, note=str(why)[:120])
    assert int(runner.run(x, w, numbers[0])[1]) == few
    times = [bench.latency(functools.partial(runner.run, x, w, n), 0.3) for n in numbers]
    each = (times[1] - times[0]) / (many - few) * 1e6
    return bench.row(calls=calls, kind=kind, microseconds=each)


def calls_alone(bench: Bench, calls: int) -> None:
    """The products of an iteration in a CUDA graph: what an iteration takes without the loop."""
    x, w = torch.eye(64, device=bench.device), torch.eye(64, device=bench.device)
    out = torch.empty_like(x)
    if not bench.gpu:
        return bench.row(calls=calls, kind="the calls alone", note="nothing to measure")
    torch.mm(x, w, out=out)
    graph, times = torch.cuda.CUDAGraph(), 50
    with torch.cuda.graph(graph):
        for _ in range(calls * times):
            torch.mm(x, w, out=out)
    return bench.row(calls=calls, kind="the calls alone", microseconds=bench.throughput(graph.replay) / times * 1e6)  # fmt: skip


def _planned(whole: bool) -> Callable:
    return lambda graph, bench: capture.Captured(planner.plan(graph, whole))


def _fused(graph: Any, bench: Bench) -> capture.Captured:
    """Unsupported where no kernel sets the handle."""
    made = capture.Captured(planner.plan(graph, False), fuse=fused_code.fused_for)
    if not any(isinstance(s, Setting) for s, _ in made.plan.walk()):
        raise Unsupported("no kernel sets the handle")
    return made


def _chunked(graph: Any, bench: Bench) -> Chunked:
    at = graph if bench.gpu else retarget(graph, "cuda:0")
    return Chunked(planner.plan(at, whole=False), str(bench.device))


# ---- synchronisations and launches


def calls(bench: Bench) -> Iterator[Part]:
    for key, workload in WORKLOADS.items():
        yield key, functools.partial(one_call, bench, key, workload)


def one_call(bench: Bench, key: str, workload: Workload) -> None:
    if not bench.gpu:
        return bench.row(name=key, note="only on a GPU")
    with bench.device:
        call = prepared(workload, tg.function, bench.device)
        for _ in range(5):
            call()
        bench.row(name=key, synchronisations=synchronisations(call))
        bench.row(name=key, **launches(call))
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


ACTIVITIES = [torch.profiler.ProfilerActivity.CUDA]


def launches(call: Callable[[], Any]) -> dict[str, Any]:
    """What the runtime and the driver are asked for in a call. Torch's own ops, which a profile of the CPU would tell, are not looked at."""
    with torch.profiler.profile(activities=ACTIVITIES) as profile:
        call()
        torch.cuda.synchronize()
    found = {e.key: e.count for e in profile.key_averages()}
    if not found:  # a device whose counters are not for everybody
        return {"launches": "none seen"}
    launched, graphs, waited = (sum(found.get(k, 0) for k in names) for names in (COUNTED, GRAPHS, WAITS))  # fmt: skip
    return {"launches": launched, "graphs": graphs, "waits": waited}


# ---- bandwidth


def chain(x, y):
    t = x * 0.5 + y
    w = torch.exp(-(t * t)) * torch.tanh(t) + torch.erf(t)
    return torch.where(w > 0, w, 0.1 * w)


def norm_gelu(x):
    return x + F.gelu(F.layer_norm(x, (x.shape[-1],)))


RATES: dict[str, tuple[Callable, int, float]] = {  # function, number of inputs, times that the size is moved
    "sum of two": (lambda x, y: x + y, 2, 3),
    "pointwise": (chain, 2, 3),
    "with the transpose": (lambda x, y: x + 2 * y.t(), 2, 3),
    "softmax": (lambda x: torch.softmax(x, -1), 1, 2),
    "layer norm, gelu, residual": (norm_gelu, 1, 2),
    "row sums": (lambda x: (x * x).sum(-1), 1, 1),
    "column sums": (lambda x: (x * x).sum(0), 1, 1),
    "sum of all": (lambda x: (x * x).sum(), 1, 1),
    "step and norm": (lambda x: (x * 0.5, (x * x).sum()), 1, 2),
}  # fmt: skip


SIDE = 8192


def bandwidth(bench: Bench) -> Iterator[Part]:
    side = SIDE if bench.gpu else 256
    x, y = (torch.randn(side, side, device=bench.device) for _ in range(2))
    out = torch.empty_like(x)
    size = x.numel() * x.element_size()
    copy = functools.cache(lambda: 2 * size / bench.throughput(lambda: out.copy_(x)))
    yield "copy", lambda: bench.row(name="copy", GB_per_s=copy() / 1e9)
    for name, (fn, count, passes) in RATES.items():
        given = (x, y)[:count]
        yield name, functools.partial(one_rate, bench, name, fn, given, passes * size, copy)


def one_rate(bench: Bench, name: str, fn: Callable, given: tuple, moves: float, copy: Callable) -> None:  # fmt: skip
    rate = moves / bench.throughput(functools.partial(tg.function(fn), *given))
    eager = moves / bench.throughput(functools.partial(fn, *given))
    bench.row(name=name, GB_per_s=rate / 1e9, share_of_copy=rate / copy(), eager=eager / copy())


# ---- workloads


COMPILING: dict[str, Callable] = {
    "compile": torch.compile,
    "reduce-overhead": lambda f: torch.compile(f, mode="reduce-overhead"),
}


def compiling(bench: Bench) -> Iterator[Part]:
    """The first calls of the peers that compile, beside other sections: what is compiled is on disk when they are measured."""
    for key, workload in WORKLOADS.items():
        yield f"{key} compile", functools.partial(first_call, bench, key, workload)


def first_call(bench: Bench, key: str, workload: Workload) -> None:
    with bench.device:
        start = time.perf_counter()
        prepared(workload, COMPILING["compile"], bench.device)()
        bench.wait()
    bench.row(name=f"{key} compile", first_call_s=time.perf_counter() - start)


def workloads(bench: Bench) -> Iterator[Part]:
    """Ours and eager first, then the peers that compile: where time ends, the shortest comparison is whole."""
    for peer, wrap in {"tograph": tg.function, "eager": lambda f: f, **COMPILING}.items():
        for key, workload in WORKLOADS.items():
            yield f"{key} {peer}", functools.partial(one_workload, bench, key, workload, peer, wrap)
    for key, form in torch_forms.FORMS.items():
        if WORKLOADS[key].kind == "forward":
            compiled = functools.partial(lambda f, form: torch.compile(form), form=form)
            yield f"{key} while_loop", functools.partial(one_workload, bench, key, WORKLOADS[key], "while_loop", compiled)  # fmt: skip

    if "jax" in peers.installed():
        for key in WORKLOADS:
            yield f"{key} jax", functools.partial(one_jax, bench, key)


def one_jax(bench: Bench, key: str) -> None:
    """JAX on its default device, which is a GPU where its own packages know one."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave memory to the others
    try:
        call = peers.PEERS["jax"](key, WORKLOADS[key].inputs(), 0)
    except peers.Refused as why:
        return bench.row(name=f"{key} jax", note=str(why))
    where = importlib.import_module("jax").devices()[0].platform
    if bench.gpu and where != "gpu":
        return bench.row(name=f"{key} jax", note=f"its device is {where}")
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    return bench.row(workload=key, peer="jax", microseconds=bench.latency(call) * 1e6, first_call_s=first)  # fmt: skip


def one_workload(bench: Bench, key: str, workload: Workload, peer: str, wrap: Callable) -> None:
    with bench.device:
        call = prepared(workload, wrap, bench.device)
        start = time.perf_counter()
        call()
        bench.wait()
        first = time.perf_counter() - start
        bench.row(workload=key, peer=peer, microseconds=bench.latency(call) * 1e6, first_call_s=first)  # fmt: skip


SECTIONS = {f.__name__: f for f in (probes, assumptions, correctness, cases)} | {"peers": compiling}
SECTIONS |= {f.__name__: f for f in (loops, bandwidth, calls, workloads)}
