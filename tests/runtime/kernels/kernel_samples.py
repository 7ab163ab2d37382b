"""Graphs, values and comparisons for the tests of kernels."""

from __future__ import annotations

import math

import torch

import tograph  # noqa: F401  imports the layers in their order
from tograph.runtime.execution import host
from tograph.runtime.graph import interp, ops
from tograph.runtime.graph.ir import Graph, Node, Value, map_values
from tograph.runtime.inference.infer import infer, meta_of, tensor_type
from tograph.runtime.kernels.build import Region
from tograph.runtime.kernels.lower import Fused

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 1e-45, 1.1754944e-38, 3.4e38, -3.4e38, 1.0, -1.0, 0.5,
           -0.5, 1.5, 2.5, -2.5, 3.0, 88.0, -88.0, 103.0, -103.0, 1e-8, 1e5, -1e5, 0.625, 0.9, 20.0, 4.0]  # fmt: skip


def op_graph(calls, inputs) -> Graph:
    """A graph of op calls; an argument that is one of ``inputs`` (by identity) is that input."""
    graph = Graph("ops")
    values = {id(x): Value(tensor_type(meta_of(x))) for x in inputs}
    metas = {values[id(x)]: meta_of(x) for x in inputs}
    graph.inputs = [values[id(x)] for x in inputs]

    def swap(tree):
        if isinstance(tree, torch.Tensor):
            return values[id(tree)]
        if isinstance(tree, (list, tuple)):
            return type(tree)(map(swap, tree))
        return tree

    for op, args, kwargs in calls:
        args = swap(tuple(args))
        found = infer(ops.overload(op), map_values(metas.__getitem__, args), kwargs)
        found = found if isinstance(found, list) else [found]
        node = Node(op, args, kwargs, [tensor_type(m) for m in found])
        metas.update(zip(node.outputs, found))
        graph.nodes.append(node)
        graph.outputs += node.outputs
    return graph


def fused(graph: Graph) -> Fused:
    """The whole graph as one region, however small."""
    region = Region(list(graph.nodes), list(dict.fromkeys(graph.outputs)))
    return Fused("k", region, graph, host.build, 0)


def run_both(graph: Graph, inputs):
    """(outputs of the kernel, outputs of the reference interpreter); AssertionError where there is no kernel."""
    region = fused(graph)
    got = region(*inputs)
    assert region.kernels, f"no kernel: {region.reasons}"
    got = got if isinstance(got, (list, tuple)) else [got]
    return list(got), interp.run(graph, inputs)


def ulps(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """The distance in units of the last place of ``want``'s dtype; 0 for equal values and for two NaN."""
    same = (got == want) | (got.isnan() & want.isnan())
    want64, got64 = want.double(), got.double()
    info = torch.finfo(want.dtype)
    step = torch.frexp(want64.abs().clamp(min=info.smallest_normal))[1] - 1
    unit = torch.exp2(step.double()) * info.eps
    distance = (got64 - want64).abs() / unit
    distance = torch.where(distance.isnan(), math.inf, distance)
    return torch.where(same, 0.0, distance)


def floats(dtype: torch.dtype, n: int = 1237, seed: int = 0) -> torch.Tensor:
    """Ordinary and special values."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, generator=generator, dtype=torch.float64) * 3
    x[::7] *= 20
    x[: len(SPECIAL)] = torch.tensor(SPECIAL, dtype=torch.float64)
    return x.to(dtype)


def integers(dtype: torch.dtype, n: int = 1237, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    info = torch.iinfo(dtype)
    x = torch.randint(max(info.min, -1000), min(info.max, 1000) + 1, (n,), generator=generator)
    x = x.to(dtype)
    x[:6] = torch.tensor([info.min, info.max, 0, 1, 2, 3], dtype=dtype)
    return x


def sample(dtype: torch.dtype, n: int = 1237, seed: int = 0) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.arange(n) * (seed + 3) % 5 < 2
    return floats(dtype, n, seed) if dtype.is_floating_point else integers(dtype, n, seed)
