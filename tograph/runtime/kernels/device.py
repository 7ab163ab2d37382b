"""Kernels on a CUDA device: regions and whole loops of a graph, called with the device's tensors.

``region_caller``  a fused region: its loop IR, rendered as Triton for the sizes and strides of a call.
``LoopOnDevice``   a ``While`` whose loop runs inside one kernel (``triton_loops``).

Both run their graph op by op where there is no kernel, and where a kernel reports an error: it has then written fresh outputs
only. Reading the error code waits for the device; only kernels that may fail have one. ``launch`` is how a kernel starts;
tests put Triton's interpreter in its place. Not yet seen on a GPU: everything that needs one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import OutOfRangeError
from ..graph.ir import Graph, Node, Value
from ..graph.types import DTYPES, ScalarType, TensorType
from ..inference.shapes import Meta
from . import driver, images, loop_ir, triton_jit, triton_loops, tuning
from .build import build
from .gpu_forms import GpuForms
from .jit import warn_once
from .loop_ir import Unsupported
from .triton_source import render
from .triton_text import ERROR, Source

PATIENCE = 3  # runs of a loop that may fail before it is left to the host


class Start:
    """Starts a kernel. Where its first start fails (it does not compile for the device, Triton finds no C compiler) it never
    starts again; one warning says why.
    """

    def __init__(self, source: Source):
        self.source, self.reason, self._ran = source, "", False

    def __call__(self, arguments: dict[str, Any]) -> bool:
        """Whether the kernel has started. ``arguments`` by name, more than it has parameters."""
        if self.reason:
            return False
        if self._ran:
            launch(self.source, arguments)
            return True
        try:
            launch(self.source, arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as why:  # of the compiler, the driver or its bindings; the kernel writes fresh memory only
            self.reason = str(why) or type(why).__name__
            warn_once(f"tograph: kernel {self.source.name} does not start, its ops run one by one: {why}")  # fmt: skip
            return False
        self._ran = True
        return True


def launch(source: Source, arguments: dict[str, Any]) -> None:
    """Start a kernel on the current stream of its device: by the driver, or where there are no bindings for it, or it refuses, by Triton's launcher.

    That takes longer: 3.6 compiles C code for every signature, and every start looks at all arguments in Python.
    """
    at = next(arguments[n].device for n, kind in source.signature.items() if kind.startswith("*"))
    # Launchers take the current one.
    if at.type == "cuda" and at.index != torch.cuda.current_device():
        with torch.cuda.device(at):
            launch(source, arguments)
        return
    if not driver.loadable():
        try:
            images.start(source, arguments)
            return
        except (driver.DriverError, Unsupported):
            if triton_jit.launcher():
                raise
    triton_jit.launch(source, [arguments[name] for name in source.signature])


def prepare(kernels: Iterable[tuple[Source, dict[str, Any]]], place: torch.device) -> None:
    """Compile kernels side by side, for a device and the alignment of their arguments: their first starts find the code."""
    if place.type != "cuda":
        return
    wanted = {}
    for source, arguments in kernels:
        pointers = (n for n, kind in source.signature.items() if kind.startswith("*"))
        aligned = frozenset(n for n in pointers if arguments[n].data_ptr() % images.ALIGNMENT == 0)
        wanted[source.text, aligned] = (source, images.architecture(place.index or 0), aligned)
    triton_jit.compile_all(list(wanted.values()), linked=bool(driver.loadable()))


def tuner(device: str) -> tuning.Tuner:
    """What chooses block sizes for the kernels of one plan on a device."""
    place = torch.device(device)
    here = (lambda: images.architecture(place.index or 0)) if place.type == "cuda" else None
    return tuning.Tuner(device, launch, here)


@dataclass(repr=False)
class DeviceKernel(GpuForms):
    """A region's kernel on a device. ``source``: the Triton source that runs; ``choice``: its block sizes, and how they were found."""

    name: str
    loops: loop_ir.Kernel
    source: Source
    choice: str = ""

    @property
    def triton(self) -> str:
        return self.source.text

    @property
    def lines(self) -> tuple[str, ...]:
        return self.loops.comments

    @property
    def llvm(self) -> str:
        return ""


@dataclass
class LoopKernel:
    """A kernel of a plan, such as a loop. ``choice``: its block sizes, where it has some, and how they were found."""

    name: str
    source: Source
    lines: tuple[str, ...]
    choice: str = ""

    @property
    def triton(self) -> str:
        return self.source.text

    @property
    def llvm(self) -> str:
        return ""

    def ptx(self, architecture: str = "sm_90") -> str:
        return self._code(architecture).assembly

    def cubin(self, architecture: str = "sm_90") -> bytes:
        return self._code(architecture).image

    @property
    def resources(self) -> triton_jit.Resources:
        return self.resources_on("sm_90")

    def resources_on(self, architecture: str) -> triton_jit.Resources:
        return self._code(architecture).resources

    def _code(self, architecture: str) -> triton_jit.Binary:
        return triton_jit.compiled(self.source, triton_jit.named(architecture))


def device_of(values: Sequence[Value]) -> str:
    """The device of all tensors among ``values``; "" where there is none, or more than one."""
    found = {v.type.device for v in values if isinstance(v.type, TensorType)}
    return found.pop() if len(found) == 1 else ""


def gpu_of(values: Iterable[Value]) -> str:
    """The one GPU among the devices of tensors; "" where there is none, or more than one."""
    found = gpus(values)
    return found[0] if len(found) == 1 else ""


def gpus(values: Iterable[Value]) -> list[str]:
    """The GPUs among the devices of tensors."""
    found = {v.type.device for v in values if isinstance(v.type, TensorType)}
    return [d for d in sorted(found) if is_gpu(d)]


def gpus_in(graph: Graph) -> list[str]:
    """The GPUs of the tensors that a graph is given or makes, inner ones too."""
    values = [*graph.inputs, *(v for n in graph.nodes for v in n.outputs)]
    inner = (d for n in graph.nodes for g in n.regions.values() for d in gpus_in(g))
    return sorted({*gpus(values), *inner})


def is_gpu(device: str) -> bool:
    return device.startswith("cuda")


def region_caller(
    region: Any, metas: dict[Value, Meta], name: str, unfused: Callable[..., Any]
) -> tuple[list[DeviceKernel], Callable[..., Any]]:
    """(the kernels, a function from the region's inputs to fresh outputs) for sizes and strides."""
    if why := triton_jit.available():
        raise Unsupported(why)
    loops = build(region, metas, name)
    found = tuner(str(metas[region.outputs[0]].device))(loops, pointers=False)
    kernels = [
        DeviceKernel(k.name, k, render(k, tile), str(found)) for k, tile in found.option.parts
    ]
    starts = [Start(k.source) for k in kernels]
    between = found.option.between
    made = [metas[v] for v in region.outputs]
    place = made[0].device
    fails = ERROR in kernels[0].source.signature

    def run(inputs: Sequence[Any]) -> Any:
        outputs = [torch.empty_strided(m.size, m.stride, dtype=m.dtype, device=place) for m in made]
        arguments = {f"p{i}": x for i, x in enumerate(inputs)}
        arguments |= {f"s{i}": x for i, x in enumerate(inputs)}
        arguments |= {f"o{i}": x for i, x in enumerate(outputs)}
        for key, (dtype, size) in between.items():
            arguments[key] = torch.empty(size, dtype=DTYPES[dtype], device=place)
        if fails:
            arguments[ERROR] = torch.zeros(1, dtype=torch.int32, device=place)
        started = all(start(arguments) for start in starts)
        code = int(arguments[ERROR].item()) if started and fails else 0
        if code == loop_ir.ASSERTED and place.type == "cuda":
            raise out_of_range(next((n.location for n in region.nodes if n.location), None))
        if not started or code:
            return unfused(*inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    return kernels, run


def out_of_range(location: Any) -> OutOfRangeError:
    """The error of a call with a position that torch's kernels assert: to run the op again would end the CUDA context."""
    return OutOfRangeError("a class number or position is out of range", location)


class LoopOnDevice:
    """A ``While`` node that can be called with the values among its arguments."""

    def __init__(self, name: str, node: Node, graph: Graph, make: Callable[[Graph], Any]):
        self.name, self.node, self.graph, self._make = name, node, graph, make
        self.loop = triton_loops.render(node, name)
        self.kernels = [LoopKernel(name, self.loop.source, (f"{node.location} While",))]
        self.reasons: list[str] = []
        self._host: Callable[..., Any] | None = None
        self._start = Start(self.loop.source)
        self._failures = 0
        places: dict[Value, int] = {}
        for k, a in enumerate(node.args):
            if isinstance(a, Value):
                places.setdefault(a, k)
        self._places = list(places.items())

    def __call__(self, *inputs: Any) -> Any:
        if self._failures < PATIENCE and _plain(inputs):
            outputs = self._run(inputs)
            if outputs is not None:
                return outputs[0] if len(outputs) == 1 else outputs
        return self.on_host(*inputs)

    def on_host(self, *inputs: Any) -> Any:
        """The loop of the host program."""
        if self._host is None:
            self._host = self._make(self.graph).run
        outputs = self._host(*inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def _run(self, inputs: Sequence[Any]) -> list[Any] | None:
        source, device = self.loop.source, next(x.device for x in inputs if isinstance(x, torch.Tensor))  # fmt: skip
        arguments: dict[str, Any] = {}
        for (_, k), x in zip(self._places, inputs, strict=True):
            arguments[f"p{k}"] = arguments[f"s{k}"] = x
        for name, v in zip(self.loop.outputs, self.node.outputs):
            shape = (source.programs,) if name in self.loop.counted else getattr(v.type, "shape", ())  # fmt: skip
            arguments[name] = torch.empty(shape, dtype=v.type.dtype, device=device)
        if ERROR in source.signature:
            arguments[ERROR] = torch.zeros(1, dtype=torch.int32, device=device)
        if triton_loops.STEPS in source.signature:
            arguments[triton_loops.STEPS] = torch.empty(source.programs, dtype=torch.int64, device=device)  # fmt: skip
        if not self._start(arguments):
            return None
        if ERROR in arguments and (code := arguments[ERROR].item()):
            self._failures += 1
            self.reasons.append(f"the kernel of {self.name} failed with code {code}")
            return None
        return self._results(arguments)

    def _results(self, arguments: dict[str, Any]) -> list[Any]:
        """The node's outputs; numbers of the program that made the most steps."""
        last = arguments[triton_loops.STEPS].argmax() if self.loop.counted else None
        out = []
        for name, v in zip(self.loop.outputs, self.node.outputs):
            x = arguments[name]
            if name in self.loop.counted:
                x = x[last].reshape(getattr(v.type, "shape", ()))
            out.append(v.type.kind(x.item()) if isinstance(v.type, ScalarType) else x)
        return out


def is_virtual(x: torch.Tensor) -> bool:
    """Whether a tensor's values are not what its memory holds: negated ones, or zeros that have none."""
    return x.is_neg() or x._is_zerotensor()


def _plain(inputs: Sequence[Any]) -> bool:
    return all(
        x.is_contiguous() and not is_virtual(x) for x in inputs if isinstance(x, torch.Tensor)
    )
