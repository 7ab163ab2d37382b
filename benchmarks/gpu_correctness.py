"""What samples, workloads, gradients and conformance cases give on a GPU, beside the CPU."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from gpu_bench import Bench, Part, compiled, levels, moved, prepared

import tograph as tg
from tograph.bench.workloads import WORKLOADS, Workload

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "samples"
# The conformance cases lie beside the checkout, or in it; where they do not, their section says so.
CASES = [ROOT / "shared" / "CASES", ROOT.parent / "shared" / "CASES"]


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
    want = results(reference(make, cpu), cpu, [])
    call = make(bench.device)
    with compiled() as made:
        got = results(call, bench.device, times, len(want))
    result = differing(got, want) or "same"
    if result != "same":
        plainly = differing(got, results(make(bench.device, plain=True), bench.device, [], len(want)))  # fmt: skip
        result = f"{plainly}; on the CPU {result}" if plainly else "same as plain calls there"
    bench.row(name=name, result=result, first_call_s=times[0], last_call_s=times[-1], **levels(made))  # fmt: skip


def reference(make: Callable[..., Callable[[], Any]], cpu: torch.device) -> Callable[[], Any]:
    """The calls that those on the device are to be like."""
    return make(cpu)


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
