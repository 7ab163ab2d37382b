"""Kernels of graphs as Triton source, run by its interpreter."""

from __future__ import annotations

from typing import Any

import torch

from tests.runtime.kernels.kernel_samples import fused
from tests.runtime.kernels.triton_worker import interpret
from tograph.runtime.graph.ir import Graph
from tograph.runtime.kernels.build import build
from tograph.runtime.kernels.loop_ir import Kernel
from tograph.runtime.kernels.tiles import Tile, tiles
from tograph.runtime.kernels.triton_source import render
from tograph.runtime.kernels.triton_text import ERROR


def loops_alone(graph: Graph, inputs) -> Kernel:
    """The loop IR of a graph as one kernel: tensors of any size, of which none is made."""
    region = fused(graph)
    return build(region.region, region.metas(inputs), "k")


def loops_of(graph: Graph, inputs) -> tuple[Kernel, list[torch.Tensor]]:
    """The loop IR of a graph as one kernel, and fresh memory for its outputs."""
    region = fused(graph)
    metas = region.metas(inputs)
    made = [metas[v] for v in region.region.outputs]
    outputs = [torch.empty_strided(m.size, m.stride, dtype=m.dtype) for m in made]
    return build(region.region, metas, "k"), outputs


def run(loops: Kernel, tensors, tile: Tile | None = None) -> tuple[dict[str, torch.Tensor], int]:
    """(buffers after the run, error code) for the kernel's arguments by name."""
    source = render(loops, tile or tiles(loops)[0])
    arguments = dict(tensors)
    if ERROR in source.signature:
        arguments[ERROR] = torch.zeros(1, dtype=torch.int32)
    after = interpret(source, {name: arguments[name] for name in source.signature})
    return after, int(after[ERROR]) if ERROR in after else 0


def run_triton(graph: Graph, inputs, tile: Tile | None = None) -> list[torch.Tensor]:
    """The outputs of a graph, computed by one kernel in the interpreter."""
    loops, outputs = loops_of(graph, inputs)
    whole = {f"p{i}": flat(x) if isinstance(x, torch.Tensor) else x for i, x in enumerate(inputs)}
    whole |= {f"s{i}": x for i, x in enumerate(inputs) if not isinstance(x, torch.Tensor)}
    whole |= {f"o{i}": flat(x) for i, x in enumerate(outputs)}
    after, _ = run(loops, whole, tile)
    return [torch.as_strided(after[f"o{i}"], x.size(), x.stride()) for i, x in enumerate(outputs)]


def flat(x: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor, from its first element on."""
    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride()))
    return torch.as_strided(x, (extent,), (1,)).clone()


def flats(arguments: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """``flat`` of each. Parameters of a kernel that are the same memory are one tensor, which is what the interpreter then works on."""
    made: dict[Any, torch.Tensor] = {}
    found = {}
    for name, x in arguments.items():
        before = flat(x)
        key = (x.data_ptr(), x.dtype, before.shape) if before.numel() else name
        found[name] = made.setdefault(key, before)
    return found
