"""From a graph on one GPU to its plan. ``Unsupported`` says which op, at which line, keeps it on the host.

Pointwise ops, reductions and gathers become the kernels of their fused regions, however small; Python numbers and branches on
single elements become kernels of one program; a ``While`` that fits becomes one kernel; the other ones, and branches
on tensors, become conditional nodes. What torch alone can do is called in its ``out`` form, into memory of the plan.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch

from ..ir import Graph, Node, Value, map_values, node_effects
from ..kernels import triton_loops, triton_random, triton_rows
from ..kernels.build import Region, build, expressible
from ..kernels.device import is_gpu
from ..kernels.loop_ir import Unsupported
from ..kernels.lower import metas_of, schedule
from ..kernels.regions import devices, fuse, plain_type, transparent
from ..kernels.split_rows import split
from ..kernels.tiles import tiles
from ..kernels.triton_source import ERROR, Source, render
from ..kernels.views import VIEWS
from ..shapes import Meta, contiguous
from ..types import BOOL, DTYPES, ObjectType, ScalarType, TensorType, Type
from . import draws, library
from .bounded import Bounded, bounded
from .memory import Frame
from .plan import (
    Call,
    Cell,
    Conditional,
    Copy,
    Host,
    Place,
    Plan,
    Run,
    Set,
    Step,
    Update,
    View,
    dtype_name,
)
from .resume import HOST_OPS

MOST_STEPS = 5000


def plan(graph: Graph, whole: bool = True, capacity: int | None = None) -> Plan:
    """The plan of a graph all of whose tensors are on one GPU. ``whole``: loops and branches that fit become kernels.

    ``capacity``: of lists in loops without a known bound.
    """
    found = sorted(devices(_all_values(graph)))
    if len(found) != 1 or not is_gpu(found[0]):
        raise Unsupported(f"tensors on {' and '.join(found) or 'no device'}: a plan is for one GPU")
    return _Planner(bounded(graph, found[0], capacity), found[0], whole).run()


class _Planner:
    def __init__(self, form: Bounded, device: str, whole: bool):
        self.graph, self.whole = form.graph, whole
        self.plan = Plan(self.graph.name, device, list(self.graph.inputs), [], form=form)
        self.where: dict[Value, Place] = {}
        self.metas: dict[Value, Meta] = {}
        self.bases: dict[Place, Place] = {}
        self.undefined: set[Place] = set()
        self.frame = Frame(self.graph, [])
        self.count, self.handles = itertools.count(), itertools.count()

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
        return made

    # ---- memory

    def place(self, a: Any, like: Type | None = None) -> Place:
        """Where a value is; constants get a cell."""
        while isinstance(a, Value) and a in self.where:
            a = self.where[a]
        if isinstance(a, (Value, Cell)):
            return a
        kind = like.dtype if like is not None else torch.as_tensor(a).dtype  # type: ignore[union-attr]
        for known, content in self.plan.constants.items():
            if isinstance(known, Cell) and known.kind.dtype == kind and repr(content) == repr(a):
                return known
        if not isinstance(a, (bool, int, float)):
            raise Unsupported(f"a constant {a!r} as a value")
        cell = Cell(f"c{len(self.plan.constants)}", TensorType(kind, (), self.plan.device), a)
        self.plan.constants[cell] = a
        return cell

    def _buffer(self, v: Value) -> Value:
        if v not in self.plan.buffers:
            if not isinstance(v.type, (TensorType, ScalarType)):
                raise Unsupported(f"a value of type {v.type}")
            shape = () if isinstance(v.type, ScalarType) else v.type.shape
            if shape is None or None in shape:
                raise Unsupported("a size that is known only at run time")
            self.plan.buffers[v] = None
            self.frame.owned.add(v)
            where = torch.device(self.plan.device)
            self.metas[v] = contiguous(v.type.dtype, shape, where)
        return v

    def _cell(self, like: Place) -> Cell:
        kind = like.kind if isinstance(like, Cell) else like.type
        shape = () if isinstance(kind, ScalarType) else kind.shape  # type: ignore[union-attr]
        return self._cell_of(kind.dtype, shape)  # type: ignore[union-attr]

    def _error(self) -> Cell:
        if self.plan.error is None:
            self.plan.error = Cell(ERROR, TensorType(torch.int32, (1,), self.plan.device), 0)
            self.plan.constants[self.plan.error] = 0
        return self.plan.error

    def meta(self, v: Value) -> Meta:
        """Size and strides of a tensor's memory, of another kind for a value that stands for it."""
        at = self.place(v)
        if isinstance(at, Cell):
            return contiguous(at.kind.dtype, at.kind.shape, torch.device(self.plan.device))
        return self.metas[at]

    # ---- steps

    def _graph(self, graph: Graph, owned: Sequence[Place] = ()) -> list[Step]:
        """The steps of a graph. ``owned``: memory from outside that it may write over."""
        parts = schedule(graph, fuse(graph, lambda group: True))
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
        if node.op in ("If", "Case") and not self.whole:
            return False
        if node.op in HOST_OPS:
            return False
        return node.op.startswith("py.") or node.op in ("If", "Case")

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
        source, inputs = triton_loops.segment(nodes, outputs, f"{self._word()}_step{next(self.count)}")  # fmt: skip
        places = {f"p{i}": self.place(v) for i, v in enumerate(inputs)}
        places |= {f"o{j}": self._buffer(v) for j, v in enumerate(outputs)}
        return [self._run(source, places, nodes[-1])]

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
        loops = build(region, metas, f"{self._word()}_kernel{next(self.count)}")
        places = {f"{p}{i}": self.place(v) for i, v in enumerate(region.inputs) for p in "ps"}
        places |= {f"o{i}": self._buffer(v) for i, v in enumerate(region.outputs)}
        parts = split(loops)
        for name, (dtype, size) in (parts.between if parts is not None else {}).items():
            places[name] = self._cell_of(DTYPES[dtype], (size,))
        both = [loops] if parts is None else [parts.partial, parts.finish]
        return [
            self._run(render(k, tiles(k)[0], pointers=True), places, region.nodes[-1]) for k in both
        ]

    def _run(self, source: Source, places: dict[str, Place], node: Node) -> Run:
        if ERROR in source.signature:
            places = places | {ERROR: self._error()}
        return Run(source, {n: places[n] for n in source.signature}, node.location)

    def _word(self) -> str:
        return "".join(c if c.isalnum() else "_" for c in self.graph.name)

    def _node(self, node: Node) -> list[Step]:
        if node.op in HOST_OPS:
            return [self._host(node)]
        if node.op in self.CONDITIONAL:
            return self._whole(node) or self.CONDITIONAL[node.op](self, node)
        if node.regions:
            raise Unsupported(_at(node, f"{node.op} runs on the host"))
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
                return self._kernels(Region([node], list(node.outputs)))
        return self._library(node)

    def _identity(self, node: Node) -> list[Step]:
        self.where[node.outputs[0]] = self.place(node.args[0])
        return []

    def _view(self, node: Node) -> View:
        source, out = self.place(node.args[0]), node.outputs[0]
        given = map_values(lambda v: self.meta(v), node.args)
        (self.metas[out],) = metas_of(node, given, node.kwargs)
        self.bases[out] = self.bases.get(source, source)
        args = (source, *node.args[1:])
        return View(node.op, args, node.kwargs, out, node.location)

    def _selection(self, node: Node) -> list[Step]:
        """``x[n]`` for a number of the device: a gather with an index of one element."""
        x, d, number = node.args
        index = Value(TensorType(torch.int64, (), self.plan.device))
        self.where[index] = self.place(number)
        d %= max(len(self.meta(x).size), 1)
        args = (x, [None] * d + [index])
        gather = Node("aten.index.Tensor", args, {}, [node.outputs[0].type], location=node.location)
        self.where[node.outputs[0]] = gather.outputs[0]
        return self._kernels(Region([gather], list(gather.outputs)))

    def _update(self, node: Node) -> list[Step] | None:
        """``x`` with item ``n`` replaced: the item is written where ``x`` is, if nobody reads that any more."""
        x, row, d, index = node.args
        at, out = self.place(x), node.outputs[0]
        steps: list[Step] = []
        if at in self.frame.owned and self.frame.ends(x):
            self.where[out] = at
        else:
            steps = self._copies([self._buffer(out)], [at], node)
        target = self.place(out)
        self.undefined.discard(target)
        size = self.meta(x).size
        given = index if isinstance(index, int) else None
        name = f"{self._word()}_item{next(self.count)}"
        source = triton_rows.render(name, self.meta(out), self.meta(row), d % len(size), given)
        places = {"x": target, "row": self.place(row), triton_rows.ACTIVE: self._always()}
        if given is None:
            places |= {"at": self.place(index)}
        made = self._run(source, places, node)
        return [*steps, Update(made.source, made.arguments, made.location)]

    def _always(self) -> Place:
        return self.place(True)

    def _parts(self, node: Node) -> list[Step]:
        """The parts of a split tensor, each a slice or an item of it."""
        x = node.args[0]
        by_item = node.op == "aten.unbind.int"
        d = (node.args[1:] if by_item else node.args[2:])[:1]
        dim = d[0] if d else 0
        parts: list[Step] = []
        start = 0
        for i, v in enumerate(node.outputs):
            width = 1 if by_item else v.type.shape[dim]  # type: ignore[union-attr]
            op, args = ("aten.select.int", (x, dim, i)) if by_item else ("aten.slice.Tensor", (x, dim, start, start + width))  # fmt: skip
            part = Node(op, args, {}, [v.type], location=node.location)
            self.where[v] = part.outputs[0]
            parts.append(self._view(part))
            start += width
        return parts

    # ---- one program

    def _whole(self, node: Node) -> list[Step]:
        """The node as one kernel, if it fits."""
        if node.regions and not self.whole:
            return []
        if node.op == "While":
            return self._loop_kernel(node)
        if node.op not in ("If", "Case") and not node.op.startswith("py."):
            return []
        try:
            return self._segment([node])
        except Unsupported:
            return []

    def _loop_kernel(self, node: Node) -> list[Step]:
        try:
            loop = triton_loops.render(node, f"{self._word()}_loop{next(self.count)}", pointers=True)  # fmt: skip
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
            return [self._run(loop.source, places, node)]
        steps = each[triton_loops.STEPS] = self._cell_of(torch.int64, (loop.source.programs,))
        last = self._cell_of(torch.int64, ())
        out: list[Step] = [self._run(loop.source, places | each, node)]
        out.append(Call("aten.argmax.default", (steps,), {}, [last], node.location))
        for n, v in zip(loop.outputs, node.outputs):
            if n in loop.counted:
                out.append(Call("aten.take.default", (each[n], last), {}, [v], node.location))
        return out

    def _programs(self, v: Value, programs: int) -> Cell:
        return self._cell_of(v.type.dtype, (programs,))  # type: ignore[union-attr]

    def _cell_of(self, dtype: torch.dtype, shape: tuple[int, ...]) -> Cell:
        cell = Cell(f"t{next(self.count)}", TensorType(dtype, shape, self.plan.device))
        self.plan.buffers[cell] = None
        return cell

    # ---- conditional nodes

    def _while(self, node: Node) -> list[Step]:
        carried = node.kwargs["carried"]
        cond, body = node.regions["cond"], node.regions["body"]
        state = [self._buffer(v) for v in node.outputs]
        start = self._copies(state, [self.place(a, v.type) for a, v in zip(node.args, state)], node)
        rest = [self.place(a, v.type) for a, v in zip(node.args[carried:], cond.inputs[carried:])]
        for graph in (cond, body):
            self.where |= zip(graph.inputs, [*state, *rest], strict=True)
        first = self._graph(cond)
        test = self._truth(cond.outputs[0], node)
        first, pred = [*first, *test[0]], test[1]
        inside = self._graph(body, state)
        inside += self._copies(state, [self.place(v) for v in body.outputs], node)
        handle = next(self.handles)
        inside += [*self._graph(cond), *test[0], Set(handle, pred, node.location)]
        return [*start, *first, Conditional("while", handle, pred, [inside], node.location)]

    def _truth(self, value: Any, node: Node) -> tuple[list[Step], Place]:
        """(steps that make it, a bool cell) of a condition."""
        at = self.place(value)
        if dtype_name(at) == "bool":
            return [], at
        assert isinstance(at, Value)
        kind = TensorType(torch.bool, (), self.plan.device)
        op, args = ("py.bool", (at,)) if isinstance(at.type, ScalarType) else ("aten.ne.Scalar", (at, 0))  # fmt: skip
        made = Node(op, args, {}, [BOOL if op == "py.bool" else kind], location=node.location)
        return self._node(made), self.place(made.outputs[0])

    def _copies(self, targets: Sequence[Place], sources: Sequence[Place], node: Node) -> list[Step]:
        """Copies as if all at once: what is overwritten before it is read goes through other memory."""
        pairs = [(a, b) for a, b in zip(targets, sources, strict=True) if a is not b and b not in self.undefined]  # fmt: skip
        written = {a for a, _ in pairs}
        moved: list[tuple[Place, Place]] = []
        for i, (a, b) in enumerate(pairs):
            if b in written or self.bases.get(b) in written:
                between = self._cell(a)
                moved.append((between, b))
                pairs[i] = (a, between)
        return [Copy(p, node.location) for p in (moved, pairs) if p]

    def _if(self, node: Node) -> list[Step]:
        return self._branches(node, "if", [node.regions["then"], node.regions["orelse"]])

    def _case(self, node: Node) -> list[Step]:
        return self._branches(node, "switch", list(node.regions.values()))

    def _branches(self, node: Node, kind: str, graphs: list[Graph]) -> list[Step]:
        outs = [self._buffer(v) for v in node.outputs]
        bodies = []
        for graph in graphs:
            self.where |= zip(graph.inputs, [self.place(a, v.type) for a, v in zip(node.args[1:], graph.inputs)])  # fmt: skip
            body = self._graph(graph)
            body += self._copies(outs, [self.place(v) for v in graph.outputs], node)
            bodies.append(body)
        test: list[Step] = []
        cell = self.place(node.args[0])
        if kind == "if":
            test, cell = self._truth(node.args[0], node)
        return [*test, Conditional(kind, next(self.handles), cell, bodies, node.location)]

    CONDITIONAL: dict[str, Any] = {"While": _while, "If": _if, "Case": _case}
    SPECIAL: dict[str, Any] = {
        "tg.identity": _identity,
        "aten.select.int": _selection,
        "aten.select_scatter.default": _update,
        "aten.split.Tensor": _parts,
        "aten.split_with_sizes.default": _parts,
        "aten.unbind.int": _parts,
    }

    def _host(self, node: Node) -> Host:
        args, kwargs = map_values(self.place, node.args), map_values(self.place, node.kwargs)
        for v in node.outputs:
            if not isinstance(v.type, ObjectType):
                self._buffer(v)
        return Host(node.op, args, kwargs, node.outputs, node.location)

    # ---- random numbers

    def _random(self, node: Node) -> list[Step]:
        """A kernel that draws, and one that moves the offset on."""
        try:
            draw = draws.draw_of(node)
        except Unsupported as why:
            raise Unsupported(_at(node, str(why))) from why
        outputs = [self._buffer(v) for v in node.outputs]
        count, most = math.prod(self.meta(outputs[0]).size), draws.blocks(self.plan.device)
        name = f"{self._word()}_random{next(self.count)}"
        kind = "i64" if draw.kind == "integers" else "fp32"
        seed, offset = self._generator()
        places = dict(zip(draw.arguments[-len(outputs) :], outputs)) | {"seed": seed, "offset": offset}  # fmt: skip
        steps: list[Step] = []
        if draw.kind == "dropout":
            places["x"], steps = self._dense(node.args[0], node)
        source = triton_random.render(name, draw, count, most, kind)
        after = triton_random.advance(f"{name}_next", triton_random.words(count, most))
        moved = {"offset": offset, triton_rows.ACTIVE: self._always()}
        return [*steps, self._run(source, places, node), Update(after, moved, node.location)]

    def _generator(self) -> tuple[Cell, Cell]:
        """The cells of the seed and of the offset."""
        if self.plan.generator is None:
            self.plan.generator = self._cell_of(torch.int64, ()), self._cell_of(torch.int64, ())
        return self.plan.generator

    def _dense(self, x: Value, node: Node) -> tuple[Place, list[Step]]:
        """A value in contiguous memory."""
        meta = self.meta(x)
        if meta.stride == contiguous(*meta[:2], torch.device("cpu")).stride:
            return self.place(x), []
        cell = self._cell_of(meta.dtype, tuple(meta.size))
        return cell, [Copy([(cell, self.place(x))], node.location)]

    # ---- library calls

    def _library(self, node: Node) -> list[Step]:
        effects = node_effects(node)
        if effects.random:
            return self._random(node)
        if not node.op.startswith(("aten.", "op.")) or node.control_inputs:
            raise Unsupported(_at(node, f"{node.op} runs on the host"))
        if any(isinstance(v.type, ScalarType) for v in node.inputs):
            raise Unsupported(_at(node, f"{node.op} takes a number that is known only at run time"))
        args, kwargs = map_values(self.place, node.args), map_values(self.place, node.kwargs)
        outputs = [self._buffer(v) for v in node.outputs]
        return [Call(node.op, args, kwargs, outputs, node.location)]


def _at(node: Node, text: str) -> str:
    return f"{node.location[0]}:{node.location[1]}: {text}" if node.location else text


def part_writes(part: Node | Region) -> bool:
    """Whether a step may write over memory that a later one was to read, or is seen outside."""
    return isinstance(part, Node) and (
        part.op == "aten.select_scatter.default" or bool(part.regions)
    )


def _all_values(graph: Graph) -> list[Value]:
    found = list(graph.inputs)
    for n in graph.nodes:
        found += n.outputs
        for g in n.regions.values():
            found += _all_values(g)
    return found
