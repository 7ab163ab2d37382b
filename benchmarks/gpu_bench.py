"""The device of ``benchmarks/gpu.py``: what a call takes there, and programs whose data is on it."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from tograph.bench import programs
from tograph.bench.workloads import Workload
from tograph.runtime.execution import scheduler

Part = tuple[str, Callable[[], None]]  # of a section


class Bench:
    """The device, and where rows go."""

    def __init__(self, device: str, row: Callable[..., None]):
        self.device = torch.device(device)
        self.gpu = self.device.type == "cuda"
        self.row = row

    def wait(self) -> None:
        if self.gpu:
            torch.cuda.synchronize()

    def latency(self, call: Callable[[], Any], seconds: float = 0.4) -> float:
        """Seconds of a call that is waited for: the best of many."""
        call()
        self.wait()
        found, end = math.inf, time.monotonic() + seconds
        while time.monotonic() < end or found == math.inf:
            start = time.perf_counter()
            call()
            self.wait()
            found = min(found, time.perf_counter() - start)
        return found

    def throughput(self, call: Callable[[], Any], calls: int = 20, repeats: int = 5) -> float:
        """Seconds of a call among many that are waited for together: what the device takes, if the host is faster."""
        for _ in range(5):  # inputs are bound after some calls
            call()
        found = math.inf
        for _ in range(repeats):
            self.wait()
            start = time.perf_counter()
            for _ in range(calls):
                call()
            self.wait()
            found = min(found, (time.perf_counter() - start) / calls)
        return found


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


@contextlib.contextmanager
def compiled(method: str = "_compile") -> Iterator[list[scheduler.Program]]:
    """The programs that are compiled in a scope, those of gradients too; or of which another ``method`` is called, such as ``__init__``."""
    found, before = [], getattr(scheduler.Program, method)

    def noted(self: scheduler.Program, *args: Any, **kwargs: Any) -> None:
        before(self, *args, **kwargs)
        found.append(self)

    setattr(scheduler.Program, method, noted)
    try:
        yield found
    finally:
        setattr(scheduler.Program, method, before)


def levels(made: list[scheduler.Program]) -> dict[str, str]:
    """How programs run, such as "device 1, host", and why not better."""
    how = [f"{s.level} {getattr(s.native, 'tier', '')}".strip() for s in made]
    counted = (f"{how.count(h)} x {h}" if how.count(h) > 1 else h for h in dict.fromkeys(how))
    why = (f"{s.graph.name}: {s.reason}" for s in made if s.reason)
    return {"runs": ", ".join(counted) or "?", "reason": "; ".join(dict.fromkeys(why))[:300]}
