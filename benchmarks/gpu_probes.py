"""The first parts of ``benchmarks/gpu.py``, on which all others stand: what is installed, whether kernels start, whether conditional nodes work."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from tograph.runtime.gpu import capture
from tograph.runtime.kernels import driver, images, triton_jit
from tograph.runtime.kernels.triton_text import HEADER, Source

PROBE = "the probe of conditional nodes"
FUSED = "the probe of kernels that set handles"
DOUBLE = Source("double", HEADER + """

@triton.jit
def double(x, o, XBLOCK: tl.constexpr):
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(o + i, tl.load(x + i) * 2)
""", {"x": "*fp32", "o": "*fp32"}, {"XBLOCK": 128}, 8, 1)  # fmt: skip


def probes(bench: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """The first parts, on which all others stand; on a CPU only what there is to read."""
    yield "versions", functools.partial(versions, bench)
    if not bench.gpu:
        return
    yield "kernels start by Triton", functools.partial(starts, bench, "kernels start by Triton", _by_triton)  # fmt: skip
    yield "kernels start from images", functools.partial(starts, bench, "kernels start from images", images.start)  # fmt: skip
    yield "parameters of kernels", functools.partial(parameters, bench)
    yield "the setter of handles loads", functools.partial(setters, bench)
    yield PROBE, lambda: bench.row(name=PROBE, **said(capture.plainly(str(bench.device))))  # fmt: skip
    yield FUSED, lambda: bench.row(name=FUSED, **said(capture.fuses(str(bench.device))))


def said(why: str) -> dict[str, Any]:
    return {"holds": "NO", "found": why[:200]} if why else {"holds": "yes"}


def close(got: Sequence[Any], want: Sequence[Any]) -> str:
    """What differs; empty where nothing does."""
    for a, b in zip(got, want, strict=True):
        x, y = torch.as_tensor(a), torch.as_tensor(b)
        if x.shape != y.shape or not torch.allclose(x.cpu().double(), y.cpu().double(), rtol=1e-4, atol=1e-5, equal_nan=True):  # fmt: skip
            return f"{x.flatten()[:3].tolist()} for {y.flatten()[:3].tolist()}"
    return ""


def versions(bench: Any) -> None:
    for name in ("torch", "triton", "cuda-bindings"):
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "not installed"
        bench.row(name=name, found=found)
    bench.row(name="CUDA of torch", found=str(torch.version.cuda))
    bench.row(name="kernels from images", **said(driver.loadable()))
    bench.row(name="conditional nodes", **said(driver.available(driver.SWITCH)))
    if bench.gpu:
        bench.row(name="driver", found=".".join(map(str, driver.version())))
        bench.row(name="capability", found=str(torch.cuda.get_device_capability(bench.device)))
        bench.row(name="Triton's launcher", **said(triton_jit.launcher()))


def _by_triton(source: Source, arguments: dict[str, Any]) -> None:
    triton_jit.launch(source, [arguments[n] for n in source.signature])


def starts(bench: Any, name: str, start: Callable) -> None:
    x, out = torch.arange(1024.0, device=bench.device), torch.zeros(1024, device=bench.device)
    start(DOUBLE, {"x": x, "o": out})
    bench.row(name=name, **said(close([out], [x * 2])))


def parameters(bench: Any) -> None:
    """Triton's kernels take what their signature says, then two pointers to scratch memory."""
    binary = triton_jit.compiled(DOUBLE, images.architecture(bench.device.index or 0))
    made = driver.Function(binary.asm["cubin"], DOUBLE.name, binary.shared)
    sizes, wanted = driver.parameter_sizes(made.handle), [8] * (len(DOUBLE.signature) + 2)
    bench.row(name="parameters of kernels", **said("" if sizes == wanted else f"sizes {sizes} for {wanted}"))  # fmt: skip


def setters(bench: Any) -> None:
    """The driver knows the function that sets a handle, in PTX that it assembles."""
    driver.prepare(bench.device)
    bench.row(name="the setter of handles loads", holds="yes")
