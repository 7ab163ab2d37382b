"""From a graph on one GPU to its plan. ``Unsupported`` says which op, at which line, keeps it on the host.

Pointwise ops, reductions and gathers become the kernels of their fused regions, however small; Python numbers and branches on
single elements become kernels of one program; a ``While`` that fits becomes one kernel; the other ones, and branches
on tensors, become conditional nodes. What torch alone can do is called in its ``out`` form, into memory of the plan.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value, map_values
from ..graph.types import DTYPES, ScalarType, TensorType
from ..inference.shapes import contiguous
from ..kernels import triton_loops
from ..kernels.build import Region, build, expressible
from ..kernels.gathers import settled
from ..kernels.loop_ir import Kernel, Unsupported
from ..kernels.lower import metas_of, schedule
from ..kernels.regions import fuse, plain_type, transparent
from ..kernels.tiles import Tile, programs
from ..kernels.triton_source import render
from ..kernels.triton_text import ERROR, Source
from ..kernels.tuning import Choice, estimate
from ..kernels.views import VIEWS
from . import draws, library
from .activations import activated
from .bounded import Bounded, bounded
from .conditionals import Conditionals
from .doubts import doubts
from .dropouts import apart
from .loop_tuning import Trial, key_of
from .memory import Frame
from .nested_items import NESTED, SCATTER, direct
from .plan import (
    Call,
    Cell,
    Host,
    Place,
    Plan,
    Run,
    Step,
)
from .ranges import ANY, Interval, safe
from .read_through import opened, readable
from .resume import HOST_OPS
from .row_products import ahead
from .single_ops import SingleOps
from .speculation import speculated
from .steps import located
from .transfers import gathered, on_cpu

MOST_STEPS = 5000


def plan(
    graph: Graph,
    whole: bool = True,
    capacity: int | None = None,
    choose: Callable[[Kernel], Choice] = estimate,
    shapes: Callable[[str], triton_loops.Shape | None] = lambda key: None,
) -> Plan:
    """The plan of a graph on one GPU, with small tensors on the CPU or not. ``whole``: loops and branches that fit become kernels.

    ``capacity``: of lists in loops without a known bound. ``choose``: how a kernel is shared out among programs;
    ``shapes``: what is known of loops that run block by block (``loop_tuning``).
    """
    before = graph
    graph, device, back = gathered(graph)
    form = bounded(graph, device, capacity)
    form.from_host = frozenset(i for i, v in enumerate(before.inputs) if on_cpu(v))
    form.to_host = back
    if whole:
        form.graph = speculated(form.graph, device)
    form.graph = ahead(direct(opened(apart(form.graph))))
    starts = dict(zip(form.graph.inputs, _starts(form)))
    return _Planner(form, device, whole, safe(form.graph, starts), choose, shapes).run()


def _starts(form: Bounded) -> Iterator[Interval]:
    """What is known of the graph's inputs: the numbers of items, and sizes."""
    for part in form.inputs:
        for k, _ in enumerate(part.types):
            yield part.bounds.get(k, ANY)


class _Planner(Conditionals, SingleOps):
    """``whole``: whether loops and branches that fit become kernels; ``safe``: nodes that surely do not fail."""

    def __init__(
        self,
        form: Bounded,
        device: str,
        whole: bool,
        safe: set[Node],
        choose: Callable[[Kernel], Choice],
        shapes: Callable[[str], triton_loops.Shape | None],
    ):
        super().__init__(form, device, safe)
        self.whole, self.choose, self.shapes = whole, choose, shapes
        self.moves = {}

    def run(self) -> Plan:
        made = self.plan
        for v in self.graph.inputs:
            self._buffer(v)
        made.steps = self._graph(self.graph)
        made.outputs = [self.place(v) for v in self.graph.outputs]
        calls = any(isinstance(s, Host) and s.op == "tg.py_call" for s, _ in made.walk())
        if calls and (made.form.written or made.generator):
            raise Unsupported(
                "a Python function that may see a variable or the random generator before a plan has set it"
            )
        made.steps, made.drawn = draws.counted(made.steps, self.moves)
        made.doubts = doubts(made)
        return made

    # ---- steps

    def _graph(self, graph: Graph, owned: Sequence[Place] = ()) -> list[Step]:
        """The steps of a graph. ``owned``: memory from outside that it may write over."""
        readable(graph, self.safe)
        parts = activated(graph, schedule(graph, fuse(graph, lambda group: True)))
        before, self.frame = self.frame, Frame(graph, parts, owned)
        steps: list[Step] = []
        numbers: list[Node] = []
        for i, part in enumerate(parts):
            if len(steps) > MOST_STEPS:
                raise Unsupported("a graph with many steps")
            if isinstance(part, Node) and self._scalar(part):
                numbers.append(part)
                continue
            made = {v for n in numbers for v in n.outputs}
            if numbers and (part_writes(part) or not made.isdisjoint(part.inputs)):
                steps += self._numbers(numbers)
                numbers = []
            self.frame.step = i
            steps += self._region(part) if isinstance(part, Region) else self._node(part)
        steps += self._numbers(numbers)
        self.frame = before
        return steps

    def _scalar(self, node: Node) -> bool:
        """Whether a node may be part of a kernel of one program."""
        if node.op in ALTERNATIVES and not self.whole:
            return False
        if node.op in HOST_OPS:
            return False
        return node.op in ALTERNATIVES or _of_numbers(node)

    def _numbers(self, nodes: list[Node]) -> list[Step]:
        """Nodes on numbers as one kernel, or as few as there can be."""
        if len(nodes) == 1:
            return self._node(nodes[0])
        half = len(nodes) // 2
        if not nodes:
            return []
        try:
            return self._segment(nodes)
        except Unsupported:
            return [*self._numbers(nodes[:half]), *self._numbers(nodes[half:])]

    def _segment(self, nodes: Sequence[Node]) -> list[Step]:
        outputs = [v for n in nodes for v in n.outputs]
        source, inputs = triton_loops.segment(nodes, outputs, self.name("step"), self.safe)  # fmt: skip
        places = {f"p{i}": self.place(v) for i, v in enumerate(inputs)}
        outs = {f"o{j}": self._buffer(v) for j, v in enumerate(outputs)}
        made = self._run(source, places | outs, nodes[-1], outs)
        return [replace(made, inplace=dict.fromkeys(outs, frozenset(places)))]  # of one warp

    def _region(self, region: Region) -> list[Step]:
        try:
            return self._kernels(region)
        except Unsupported:
            if len(region.nodes) == 1:
                return self._library(region.nodes[0])
        return [s for n in region.nodes for s in self._node(n)]

    def _kernels(self, region: Region) -> list[Step]:
        metas = {v: self.meta(v) for v in region.inputs if isinstance(v.type, TensorType)}

        def of(v: Value) -> Any:
            return v.type.kind(1) if isinstance(v.type, ScalarType) else metas[v]

        for n in region.nodes:
            metas |= zip(n.outputs, metas_of(n, map_values(of, n.args), map_values(of, n.kwargs)))
        for v in region.outputs:  # the memory of a plan is contiguous
            metas[v] = contiguous(metas[v].dtype, metas[v].size, metas[v].device)
        loops = build(region, metas, self.name("kernel"))
        places = {f"{p}{i}": self.place(v) for i, v in enumerate(region.inputs) for p in "ps"}
        places |= {f"o{i}": self._buffer(v) for i, v in enumerate(region.outputs)}
        found = self.choose(loops)
        for name, (dtype, size) in found.option.between.items():
            places[name] = self._cell_of(DTYPES[dtype], (size,))
        made = [self._kernel(k, tile, places, region.nodes[-1]) for k, tile in found.option.parts]
        return [replace(step, choice=str(found)) for step in made]

    def _kernel(self, loops: Kernel, tile: Tile, places: dict[str, Place], node: Node) -> Run:
        made = self._run(render(loops, tile, pointers=True), places, node)
        written = frozenset(b.name for b in loops.buffers if b.written)
        if any(e.op == "check_index" for e in loops.body):
            self.plan.asserted = self.plan.asserted or node.location
        return replace(
            made, writes=written, inplace=in_place(loops, tile), decides=loops.deciding()
        )

    def _run(self, source: Source, places: dict[str, Place], node: Node, writes: Iterable[str] = ()) -> Run:  # fmt: skip
        if ERROR in source.signature:
            places = places | {ERROR: self._error()}
        if triton_loops.ACTIVE in source.signature:
            places = places | {triton_loops.ACTIVE: self._always()}
        return Run(source, {n: places[n] for n in source.signature}, node.location, frozenset(writes))  # fmt: skip

    def _node(self, node: Node) -> list[Step]:
        if node.op in HOST_OPS:
            return [self._host(node)]
        if node.op in self.CONDITIONAL:
            return self._whole(node) or self.CONDITIONAL[node.op](self, node)
        if node.regions:
            raise Unsupported(located(node.location, f"{node.op} runs on the host"))
        if node.op == "aten.empty.memory_format":
            self.undefined.add(self._buffer(node.outputs[0]))
            return []
        if (content := library.constant(node)) is not None:
            self.plan.constants[self._buffer(node.outputs[0])] = content
            self.frame.owned.discard(node.outputs[0])
            return []
        if node.op in VIEWS and transparent(node) and node.op != "tg.identity":
            return [self._view(node)]
        if node.op in self.SPECIAL and (found := self.SPECIAL[node.op](self, node)) is not None:
            return found
        if found := self._whole(node):
            return found
        if expressible(node.op) and all(plain_type(v.type) for v in (*node.inputs, *node.outputs)):
            # Such as a division, which may fail and is in no region for that.
            with contextlib.suppress(Unsupported):
                return self._alone(node)
        return self._library(node)

    def _alone(self, node: Node) -> list[Step]:
        """The kernel of one node. What an output always is needs none."""
        known = {v: content for v in node.outputs if (content := settled(v)) is not None}
        made = self._kernels(Region([node], [v for v in node.outputs if v not in known]))
        for v, content in known.items():
            self.plan.constants[self._buffer(v)] = content
            self.frame.owned.discard(v)
        return made

    # ---- one program

    def _whole(self, node: Node) -> list[Step]:
        """The node as one kernel, if it fits."""
        if node.regions and not self.whole:
            return []
        if node.op == "While":
            return self._loop_kernel(node)
        if node.op not in ALTERNATIVES and not _of_numbers(node):
            return []
        try:
            return self._segment([node])
        except Unsupported:
            return []

    def _loop_kernel(self, node: Node) -> list[Step]:
        try:
            loop = self._shaped(node, self.name("loop"))
        except Unsupported:
            return []
        used = [a for a in node.args if isinstance(a, Value)]
        strided = any(isinstance(v.type, TensorType) and self.meta(v).stride != contiguous(*self.meta(v)[:2], torch.device("cpu")).stride for v in used)  # fmt: skip
        if strided:
            return []
        places = {f"{p}{k}": self.place(a) for k, a in enumerate(node.args) if isinstance(a, Value) for p in "ps"}  # fmt: skip
        places |= {n: self._buffer(v) for n, v in zip(loop.outputs, node.outputs)}
        each = {n: self._programs(v, loop.source.programs) for n, v in zip(loop.outputs, node.outputs) if n in loop.counted}  # fmt: skip
        if not each:
            return [self._run(loop.source, places, node, loop.outputs)]
        steps = each[triton_loops.STEPS] = self._cell_of(torch.int64, (loop.source.programs,))
        last = self._cell_of(torch.int64, ())
        out: list[Step] = [
            self._run(loop.source, places | each, node, [*loop.outputs, triton_loops.STEPS])
        ]
        wanted = [(n, v) for n, v in zip(loop.outputs, node.outputs) if n in loop.counted and self.frame.reads(v)]  # fmt: skip
        if wanted:
            out.append(Call("aten.argmax.default", (steps,), {}, [last], node.location))
        for n, v in wanted:
            out.append(Call("aten.take.default", (each[n], last), {}, [v], node.location))
        return out

    def _shaped(self, node: Node, name: str) -> triton_loops.LoopSource:
        """The kernel of a loop, in the shape that is known to be best; a trial where that can be measured."""

        def render(shape: triton_loops.Shape | None) -> triton_loops.LoopSource:
            return triton_loops.render(node, name, True, self.safe, shape)

        loop = render(None)
        if loop.form != "blocks":
            return loop
        key = key_of(loop, [a for a in node.args if isinstance(a, Value)])
        self.plan.trials[name] = Trial(key, render)
        known = self.shapes(key)
        return loop if known is None else render(known)

    def _programs(self, v: Value, programs: int) -> Cell:
        return self._cell_of(v.type.dtype, (programs,))


def _of_numbers(node: Node) -> bool:
    """Whether a node computes a Python number from numbers."""
    chosen = node.op == "tg.choose" and isinstance(node.outputs[0].type, ScalarType)
    return chosen or node.op.startswith("py.")


def in_place(loops: Kernel, tile: Tile) -> dict[str, frozenset[str]]:
    """For each buffer that is written those that are read only where that one is written, by the same program, before."""
    if loops.row and not tile.whole:
        return {}
    names = [b.name for b in loops.buffers if not b.written]
    loads = [e for e in loops.body if e.op == "load"]
    one = programs(loops, tile) == 1 and tile.warps == 1  # all is read before anything is written
    found = {}
    for store in loops.stores:
        same = {n for n in names if all(e.address == store.address for e in loads if e.name == n)}
        found[store.buffer] = frozenset({*names, *(s.name for s in loops.scalars)} if one else same)
    return found


def part_writes(part: Node | Region) -> bool:
    """Whether a step may write over memory that a later one was to read, or is seen outside.

    What waits may fail, or print in a branch: that comes ahead of what the host does.
    """
    return isinstance(part, Node) and (
        part.op in (SCATTER, NESTED) or bool(part.regions) or part.op in HOST_OPS
    )
