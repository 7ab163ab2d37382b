"""Whatever fails in the driver, its bindings or torch's graphs costs a tier and not the result: each call of theirs fails once, at first or later on."""

import functools
import warnings

import pytest
import torch

import tograph as tg
from tests.runtime.gpu.fake_driver import Status, forget
from tests.runtime.gpu.simulated import simulate
from tograph import disk
from tograph.runtime.gpu import capture, pointers
from tograph.runtime.kernels import recording

pytest.importorskip("triton")

DRIVER = ["cuDriverGetVersion", "cuCtxGetCurrent", "cuStreamCreate", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncLoad", "cuLaunchKernel",
    "cuGraphConditionalHandleCreate", "cuStreamGetCaptureInfo", "cuGraphAddNode", "cuStreamUpdateCaptureDependencies",
    "cuStreamBeginCaptureToGraph", "cuStreamEndCapture", "cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphLaunch"]  # fmt: skip
TORCH = ["capture_begin", "capture_end", "replay", "raw_cuda_graph_exec"]
NO_LOSS = {
    "cuGraphLaunch",
    "cuStreamCreate",
    "raw_cuda_graph_exec",
    "replay",
}  # something else does the same


def status(name, *_):
    return (Status(999),)


def error(kind, name, *_, **__):
    raise kind(f"{name} fails")


HOW = {"status": status, "RuntimeError": functools.partial(error, RuntimeError), "TypeError": functools.partial(error, TypeError)}  # fmt: skip


def summed(x, w, v, n):
    """A loop with a library call, a branch, and a variable that is written."""
    i = torch.zeros_like(n)
    while i < n:
        x = torch.tanh(x @ w)
        i = i + 1
    if i > 1:
        x = x + 1
    v.add_(x)
    return x, i


@pytest.fixture
def simulated(monkeypatch):
    monkeypatch.setattr(disk, "_warned", set())
    monkeypatch.setattr(pointers, "SMALLEST", 0)
    yield simulate(monkeypatch, whole=False)
    monkeypatch.undo()
    forget(capture.probed)


def inject(monkeypatch, simulated, name, how):
    place = simulated.cuda if name.startswith("cu") else torch.cuda.CUDAGraph
    monkeypatch.setattr(place, name, functools.partial(HOW[how], name))


def calls(simulated, before=None, after=0):
    """What calls give beside plain ones; ``before()`` comes ahead of call number ``after``."""
    fn, v, plain = tg.function(summed), torch.zeros(4, 4), torch.zeros(4, 4)
    x, w = torch.eye(4) * 0.5, torch.eye(4)  # bound at the third call, however small
    said = []
    for k, n in enumerate([2, 0, 1, 2]):
        if before is not None and k == after:
            before()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            got = fn(x, w, v, torch.tensor(n))
        said += [str(s.message) for s in seen]
        want = summed(x, w, plain, torch.tensor(n))
        torch.testing.assert_close([*got, v], [*want, plain])
    return fn.concrete_functions[-1].scheduled, said


def test_all_these_calls_are_made(simulated):
    scheduled, said = calls(simulated)
    assert {*DRIVER} <= {*simulated.cuda.calls} and not said
    assert scheduled.level == "device" and scheduled.native.tier == 1


@pytest.mark.parametrize(("name", "how"), [
    *((name, "status") for name in DRIVER), *((name, "RuntimeError") for name in TORCH),
    *((name, "TypeError") for name in ("cuCtxGetCurrent", "cuStreamCreate", "cuGraphAddNode", "cuStreamGetCaptureInfo", "cuGraphLaunch"))])  # fmt: skip
def test_what_fails_from_the_start(name, how, simulated, monkeypatch):
    inject(monkeypatch, simulated, name, how)
    scheduled, said = calls(simulated)
    if name not in NO_LOSS:
        assert said or scheduled.reason, "no notice"


@pytest.mark.parametrize(("name", "after"), [*((name, 1) for name in ("cuGraphLaunch", "replay", "cuCtxGetCurrent")), *((name, 2) for name in DRIVER + TORCH)])  # fmt: skip
def test_what_fails_later_on(name, after, simulated, monkeypatch):
    """When a graph is launched, or is captured again for inputs that stay where they are."""
    how = "status" if name in DRIVER else "RuntimeError"
    calls(simulated, lambda: inject(monkeypatch, simulated, name, how), after)


@pytest.mark.parametrize("name", ["MemPool", "use_mem_pool", "graph_pool_handle", "Event", "CUDAGraph", "ExternalStream"])  # fmt: skip
def test_what_torch_does_not_have(name, simulated, monkeypatch):
    monkeypatch.setattr(torch.cuda, name, functools.partial(HOW["RuntimeError"], name))
    calls(simulated)


def test_what_a_pool_had_goes_to_the_next_one(simulated):
    pools = []
    for _ in range(2):
        pool = recording.Pool(torch.device("cuda:0"))
        pools.append((pool.memory, pool.stream(0), pool.stream(1), pool.handle))
        assert len({s.cuda_stream for s in pools[-1][1:3]}) == 2
        del pool
    assert pools[0][:3] == pools[1][:3] and pools[0][3] is not pools[1][3]
    first, second = recording.Pool(torch.device("cuda:0")), recording.Pool(torch.device("cuda:0"))
    assert first.memory is not second.memory and first.stream(0) is not second.stream(0)
