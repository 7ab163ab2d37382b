"""What a GPU takes: iterations of loops, synchronisations and launches of calls, the bandwidth of fused kernels."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from gpu_bench import Bench, Part, prepared
from gpu_probes import DOUBLE

import tograph as tg
from tograph.bench.workloads import WORKLOADS, Workload
from tograph.runtime.gpu import capture, fused_code, planner
from tograph.runtime.gpu.execute import Chunked
from tograph.runtime.gpu.plan import Setting
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.gpu.storage import copy_all
from tograph.runtime.kernels import driver, images, triton_jit
from tograph.runtime.kernels.loop_ir import Unsupported

GRAPHS = ("cudaGraphLaunch", "cuGraphLaunch")  # of torch; of a plan, by the driver
COUNTED = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", *GRAPHS)
WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cuStreamSynchronize", "cuEventSynchronize")  # fmt: skip


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


def costs(bench: Bench, name: str, start: Callable[[], Any]) -> None:
    """What the host takes for one of many: the estimates of ``direct`` and ``hazards`` stand on these."""
    if not bench.gpu:
        return bench.row(name=name, note="only on a GPU")
    return bench.row(name=name, microseconds=bench.throughput(start, calls=500) * 1e6)


def kernel_starts(bench: Bench) -> dict[str, Callable[[], Any]]:
    """What a call consists of, on the least data."""
    x, y = (torch.zeros(1024, device=bench.device) for _ in range(2))
    given = {"x": x, "o": y}
    made: list[driver.Launcher] = []

    def graph() -> None:
        if not made:
            recorded, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
            images.start(DOUBLE, given)
            torch.cuda.synchronize()
            with torch.cuda.graph(recorded, stream=stream):
                images.start(DOUBLE, given)
            made.append(driver.Launcher(recorded))
        made[0].launch(torch.cuda.current_stream().cuda_stream)

    return {
        "a start by the driver": lambda: images.start(DOUBLE, given),
        "a start by Triton": lambda: triton_jit.launch(DOUBLE, [x, y]),
        "a CUDA graph of one kernel": graph,
        "an op of torch": lambda: torch.add(x, y, out=y),
        "copies of two tensors": lambda: copy_all([x, y], [y, x]),
        "a tensor": lambda: torch.empty(1024, device=bench.device),
    }


def loops(bench: Bench) -> Iterator[Part]:
    for name, start in kernel_starts(bench).items():
        yield name, functools.partial(costs, bench, name, start)
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
