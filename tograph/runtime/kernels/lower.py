"""Fusion as a pass: regions of a graph become ``tg.kernel`` nodes, each a ``Fused``.

A ``Fused`` is called with the region's inputs. It builds its kernel for the sizes and strides that it is first called with
and keeps one for each combination; where there is no kernel (no compiler, sizes of 0, a form that the loop IR does not
have) it runs the region's own ops. A kernel that reports an error has written only its own fresh outputs: the region runs
again op by op, and raises what eager PyTorch raises. Tensors whose values are not what their memory holds (a negative bit, zeros without memory, a layout without strides) and
calls under a dispatch mode run op by op.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..graph import ops
from ..graph.ir import Graph, Node, Value, all_nodes, as_word, map_values
from ..graph.ops import OpaqueObject
from ..graph.rewrite import copied
from ..graph.types import ScalarType, TensorType
from ..inference.infer import infer, meta_of
from ..inference.shapes import Meta, contiguous
from . import jit
from .build import Region, build
from .device import LoopOnDevice, device_of, is_gpu, is_virtual, region_caller
from .kernel import Kernel, KernelFailed, make, scalar_bits, target
from .loop_ir import Unsupported
from .regions import MIN_POINTS, fuse, transparent
from .views import ITEM

MAX_VARIANTS = 16  # kernels of one region; what comes later runs op by op
Build = Callable[[Graph], Any]  # a graph to a program with ``run``
_modes_active = torch._C._len_torch_dispatch_stack


class Fused:
    """A fused region that can be called. ``kernels``: those that were built, by sizes and strides."""

    def __init__(
        self, name: str, region: Region, graph: Graph, build: Build, min_points: int = MIN_POINTS
    ):
        self.name, self.region, self.graph, self.min_points = name, region, graph, min_points
        self._build = build
        self.variants: dict[Any, Callable[..., Any] | None] = {}
        self.on_device = is_gpu(device_of(region.outputs))
        self.kernels: list[Any] = []
        self.reasons: list[str] = []
        self._unfused: Callable[..., Any] | None = None
        self._tensors = [i for i, v in enumerate(region.inputs) if isinstance(v.type, TensorType)]
        self._open = [i for i in self._tensors if None in region.inputs[i].type.shape]

    def __call__(self, *inputs: Any) -> Any:
        if _modes_active() or any(is_virtual(inputs[i]) for i in self._tensors):
            return self.unfused(*inputs)
        try:
            key = (
                *[inputs[i].stride() for i in self._tensors],
                *[inputs[i].shape for i in self._open],
            )
        except RuntimeError:  # a layout without strides
            return self.unfused(*inputs)
        if key not in self.variants:
            self.variants[key] = self._specialise(inputs)
        run = self.variants[key]
        return self.unfused(*inputs) if run is None else run(inputs)

    def unfused(self, *inputs: Any) -> Any:
        """The region op by op."""
        if self._unfused is None:
            self._unfused = self._build(self.graph).run
        outputs = self._unfused(*inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def metas(self, inputs: Sequence[Any]) -> dict[Value, Meta]:
        """Sizes and strides of all tensors of the region."""
        known: dict[Value, Meta] = {
            v: meta_of(x) for v, x in zip(self.region.inputs, inputs) if isinstance(x, torch.Tensor)
        }

        def of(v: Value) -> Any:
            return v.type.kind(1) if isinstance(v.type, ScalarType) else known[v]

        for node in self.region.nodes:
            found = metas_of(node, map_values(of, node.args), map_values(of, node.kwargs))
            known.update(zip(node.outputs, found, strict=True))
        return known

    def _specialise(self, inputs: Sequence[Any]) -> Callable[..., Any] | None:
        try:
            return self._variant(inputs)
        except Unsupported as reason:
            self.reasons.append(str(reason))
        except RuntimeError as error:
            self.reasons.append(str(error))
            jit.warn_once(
                f"tograph: kernel {self.name} could not be compiled and runs op by op: {error}"
            )
        return None

    def _variant(self, inputs: Sequence[Any]) -> Callable[..., Any] | None:
        if len(self.variants) >= MAX_VARIANTS:
            return None
        metas = self.metas(inputs)
        if self.on_device:
            kernels, run = region_caller(self.region, metas, self._next_name(), self.unfused)
            self.kernels += kernels
            return run
        if target() is None:
            return None
        if max(math.prod(m.size) for m in metas.values()) < self.min_points:
            raise Unsupported("a small region")
        kernel = make(build(self.region, metas, self._next_name()))
        if kernel is None:
            return None
        kernel.address  # compile now: an error belongs here  # noqa: B018
        self.kernels.append(kernel)
        return _caller(self, kernel, metas)

    def _next_name(self) -> str:
        number = len(self.kernels)
        return f"{self.name}_{number}" if number else self.name

    def __repr__(self) -> str:
        return f"<fused region {self.name}: {len(self.region.nodes)} nodes>"


def metas_of(node: Node, args: tuple, kwargs: dict) -> list[Meta]:
    if node.op == "tg.identity":
        return [args[0]]
    if node.op == "tg.constant":
        kind = node.outputs[0].type
        return [contiguous(kind.dtype, kind.shape, torch.device(kind.device))]
    op, args = ("aten.select.int", (*args[:2], 0)) if node.op == ITEM else (node.op, args)
    found = infer(ops.overload(op), args, kwargs)
    return found if isinstance(found, list) else [found]


def _caller(fused: Fused, kernel: Kernel, metas: dict[Value, Meta]) -> Callable[..., Any]:
    """A function from the region's inputs to its outputs, fresh ones."""
    made = [metas[v] for v in fused.region.outputs]
    packed = [m.stride == contiguous(m.dtype, m.size, m.device).stride for m in made]
    read = [int(b.name[1:]) for b in kernel.loops.buffers if not b.written]
    scalars = [(int(s.name[1:]), s.dtype) for s in kernel.loops.scalars]
    single, call, unfused = len(made) == 1, kernel.call, fused.unfused
    empty, strided = torch.empty, torch.empty_strided

    def run(inputs: Sequence[Any]) -> Any:
        outputs = [
            empty(m.size, dtype=m.dtype) if flat else strided(m.size, m.stride, dtype=m.dtype)
            for m, flat in zip(made, packed)
        ]
        slots = [inputs[i].data_ptr() for i in read]
        slots += [x.data_ptr() for x in outputs]
        try:
            for i, dtype in scalars:
                slots.append(_checked_bits(inputs[i], dtype))
            call(slots)
        except (KernelFailed, OverflowError):
            return unfused(*inputs)
        return outputs[0] if single else outputs

    return run


def _checked_bits(value: Any, dtype: str) -> int:
    bits = scalar_bits(value, dtype)
    if not -(1 << 63) <= bits < 1 << 63:
        raise OverflowError("an int of more than 64 bits")
    return bits


# ---- the pass


def lower(graph: Graph, build: Build) -> tuple[Graph, list[Any]]:
    """A copy of a graph in which regions are ``tg.kernel`` nodes, with all of them, inner graphs' too.

    ``build`` makes the program of a region that has no kernel.
    """
    if target() is None and not _uses_gpu(graph):
        return graph, []
    count = itertools.count()
    found: list[Any] = []
    return _lower(graph, graph.name, build, count, found), found


def _lower(graph: Graph, name: str, build: Build, count: Any, found: list[Any]) -> Graph:
    regions = fuse(graph)
    out = Graph(graph.name)
    out.inputs, out.input_names = graph.inputs, graph.input_names
    values: dict[Value, Value] = {}
    made: dict[Node, Node] = {}
    steps = schedule(graph, regions)
    for step in steps:
        if isinstance(step, Region):
            fused = Fused(
                f"{as_word(name)}_kernel{next(count)}", step, _subgraph(step, name), build
            )
            found.append(fused)
            args = (OpaqueObject(fused, fused.name), *(values.get(v, v) for v in step.inputs))
            new = Node("tg.kernel", args, {}, [v.type for v in step.outputs], location=step.nodes[-1].location)  # fmt: skip
            old_outputs = step.outputs
        elif (loop := _loop_kernel(step, name, build, count)) is not None:
            found.append(loop)
            given = [values.get(v, v) for v in dict.fromkeys(step.inputs)]
            new = Node("tg.kernel", (OpaqueObject(loop, loop.name), *given), {}, [v.type for v in step.outputs], location=step.location)  # fmt: skip
            old_outputs = step.outputs
            made[step] = new
        else:
            inner = {k: _lower(g, name, build, count, found) for k, g in step.regions.items()}
            new = _copy(step, values, inner)
            old_outputs = step.outputs
            made[step] = new
        new.control_inputs = [made[n] for n in getattr(step, "control_inputs", []) if n in made]
        values.update(zip(old_outputs, new.outputs, strict=True))
        out.nodes.append(new)
    out.outputs = [values.get(v, v) for v in graph.outputs]
    return out


def _uses_gpu(graph: Graph) -> bool:
    values = [*graph.inputs, *(v for n in all_nodes(graph) for v in n.outputs)]
    return any(isinstance(v.type, TensorType) and is_gpu(v.type.device) for v in values)


def _loop_kernel(node: Node, name: str, build: Build, number: Any) -> LoopOnDevice | None:
    """The kernel of a loop all of whose tensors are on one GPU; None where there is none."""
    if node.op != "While" or not is_gpu(device_of(_values(node))):
        return None
    try:
        return LoopOnDevice(f"{as_word(name)}_loop{next(number)}", node, _alone(node, name), build)
    except Unsupported:
        return None


def _values(node: Node) -> list[Value]:
    inner = [v for g in node.regions.values() for n in g.nodes for v in _values(n)]
    return [*node.inputs, *node.outputs, *inner]


def _alone(node: Node, name: str) -> Graph:
    """A graph of a node alone; its inputs are the values among the node's arguments, each once."""
    graph = Graph(name)
    values = {v: Value(v.type) for v in node.inputs}
    graph.inputs = list(values.values())
    made = _copy(node, values, {k: copied(g) for k, g in node.regions.items()})
    graph.nodes, graph.outputs = [made], list(made.outputs)
    return graph


def _copy(node: Node, values: dict[Value, Value], inner: dict[str, Graph]) -> Node:
    def substitute(v: Value) -> Value:
        return values.get(v, v)

    return Node(
        node.op, map_values(substitute, node.args), map_values(substitute, node.kwargs),
        [v.type for v in node.outputs], regions=inner, location=node.location, grad=node.grad,
    )  # fmt: skip


def _subgraph(region: Region, name: str) -> Graph:
    """The region as a graph of its own, on fresh values."""
    graph = Graph(name)
    values = {v: Value(v.type) for v in region.inputs}
    graph.inputs = list(values.values())
    for node in region.nodes:
        new = _copy(node, values, {})
        values.update(zip(node.outputs, new.outputs, strict=True))
        graph.nodes.append(new)
    graph.outputs = [values[v] for v in region.outputs]
    return graph


def schedule(graph: Graph, regions: Sequence[Region]) -> list[Node | Region]:
    """Nodes and regions in an order in which every step comes after what it needs, near program order.

    A set of regions that need each other in a circle loses its last region, until there is none.
    """
    regions = list(regions)
    while True:
        order, stuck = _topological(graph, regions)
        if not stuck:
            return order
        regions.remove(max(stuck, key=regions.index))


def _topological(graph: Graph, regions: Sequence[Region]) -> tuple[list, list[Region]]:
    owner: dict[Node, Node | Region] = {}
    for r in regions:
        owner.update((n, r) for n in r.nodes if n not in r.copies)
    for n in graph.nodes:
        owner.setdefault(n, n)
    order: dict[Any, None] = {}
    active: set[Any] = set()
    stuck: list[Region] = []
    for n in graph.nodes:
        _visit(owner[n], owner, order, active, stuck)
    return _live(graph, list(order)), stuck


def _needs(step: Any) -> list[Node]:
    if isinstance(step, Node):
        return [v.node for v in step.inputs if v.node is not None] + step.control_inputs
    return [v.node for v in step.inputs if v.node is not None]


def _visit(start: Any, owner: dict, order: dict, active: set, stuck: list[Region]) -> None:
    stack = [(start, False)]
    while stack:
        step, ready = stack.pop()
        if ready:
            active.discard(step)
            order[step] = None
            continue
        if step in order:
            continue
        if step in active:
            if isinstance(step, Region):
                stuck.append(step)
            continue
        active.add(step)
        stack.append((step, True))
        for n in reversed(_needs(step)):
            if owner[n] not in order:
                if owner[n] in active:
                    stuck.extend(s for s in active if isinstance(s, Region))
                else:
                    stack.append((owner[n], False))


def _live(graph: Graph, order: list) -> list:
    """The steps without the views and constants that only regions read."""
    used = set(graph.outputs)
    keep = []
    for step in reversed(order):
        if (
            isinstance(step, Region)
            or not transparent(step)
            or any(v in used for v in step.outputs)
        ):
            keep.append(step)
            used.update(step.inputs)
    return keep[::-1]
