"""Whole calls on a device that is simulated: traces of the CPU run as plans of a GPU, by the driver of ``fake_driver``.

``simulate(monkeypatch)`` has the scheduler take every graph for one of a GPU, from its first call on. Its plan is what the GPU would
get; kernels are started in Triton's interpreter, on memory of the CPU, and conditional nodes are loops of Python. What has no plan
runs on the host, as on a GPU. ``Simulated.levels`` tells what each graph came to.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from tests.runtime.gpu.fake_driver import Cuda, install
from tests.runtime.kernels import triton_worker
from tests.runtime.kernels.triton_samples import flats
from tograph.runtime.execution import scheduler
from tograph.runtime.gpu import capture, draws, forms, planner, program
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.kernels import device


class Generator:
    """In the place of torch's generator of a device."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda, self.seed, self.offset = cuda, 1234, 0

    def initial_seed(self) -> int:
        return self.seed

    def get_offset(self) -> int:
        assert not self.cuda.capturing
        return self.offset

    def set_offset(self, offset: int) -> None:
        assert not self.cuda.capturing and offset % 4 == 0
        self.offset = offset


class Simulated:
    """``levels``: (name of a graph, level, tier, reason). ``declined``: calls that the host had to run, by the graph's name."""

    def __init__(self, cuda: Cuda):
        self.cuda = cuda
        self.levels: list[tuple[str, str, int, str]] = []
        self.declined: list[str] = []


def launch(source: Any, arguments: dict[str, torch.Tensor]) -> None:
    """Start a kernel in the interpreter."""
    before = flats({n: arguments[n] for n in source.signature})
    after = triton_worker.interpret(source, before)
    for name, x in before.items():
        if not torch.equal(x.view(torch.uint8), after[name].view(torch.uint8)):
            torch.as_strided(arguments[name], x.shape, (1,)).copy_(after[name])


def simulate(monkeypatch: Any, whole: bool = True, version: int = 13000) -> Simulated:
    """Put the device in the place of a GPU. ``whole``: loops that fit become kernels; ``version``: of the driver."""
    made = Simulated(Cuda(version))
    install(monkeypatch, made.cuda)
    monkeypatch.setattr(torch.cuda, "default_generators", [Generator(made.cuda)])
    monkeypatch.setattr(device, "launch", launch)
    plan = planner.plan

    def on_cpu(graph: Any, **given: Any) -> Any:
        found = plan(graph, **{"whole": whole, **given})
        found.device = "cpu"
        return found

    def run(self: Any, inputs: Any, before: Any = program.Program.run) -> Any:
        outputs = before(self, inputs)
        if outputs is None:
            made.declined.append(self.plan.name)
        return outputs

    def compile(self: Any) -> None:
        try:
            self._native = program.Program(retarget(self.graph, "cuda:0"), self._leaving.visible)
            self.level, self.reason = "device", "; ".join(self._native.notes)
        except program.Unsupported as why:
            self.reason = str(why)
        tier = getattr(self._native, "tier", 3)
        made.levels.append((self.graph.name, self.level, tier, self.reason))

    def resumed(graph: Any, *given: Any, before: Any = program.resumed) -> Any:
        return before(retarget(graph, "cpu", "cuda:0"), *given)

    def packed(self: Any, xs: Any, before: Any = forms.Items.pack) -> Any:
        here = self if isinstance(xs, forms.Held) else dataclasses.replace(self, device="cpu")
        return before(here, xs)

    def zero(kind: Any, before: Any = forms._zero) -> Any:
        return before(kind if not hasattr(kind, "device") else dataclasses.replace(kind, device="cpu"))  # fmt: skip

    monkeypatch.setattr(planner, "plan", on_cpu)
    monkeypatch.setattr(forms, "_zero", zero)
    monkeypatch.setattr(forms.Items, "pack", packed)
    probe = capture.probe_plan("cuda:0")
    monkeypatch.setattr(capture, "probe_plan", lambda place: probe)
    monkeypatch.setattr(program, "resumed", resumed)
    monkeypatch.setattr(program.Program, "run", run)
    monkeypatch.setattr(program, "tuner", lambda place: planner.estimate)
    monkeypatch.setattr(scheduler.Program, "_compile", compile)
    monkeypatch.setattr(scheduler, "_calls_before", lambda graph: 1)
    monkeypatch.setattr(draws.Generator, "__init__", _generator)
    return made


def _generator(self: Any, place: torch.device) -> None:
    self.made = torch.cuda.default_generators[0]
