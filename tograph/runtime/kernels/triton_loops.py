"""A whole ``While`` as one Triton kernel: the loop runs inside of it, and nothing comes back to the host per iteration.

Tensors from outside of the loop that are broadcast to the shape of its state (``spread``) are vectors too, read at the element that each place has.

Two forms, by the sizes of the state:

``whole``   All state fits into one program: numbers, tensors of one element, and vectors of one size up to ``MOST``.
            Everything may be used: reductions, branches, inner loops, products with a captured matrix.
``blocks``  The state is large and elementwise. Each program runs the loop for its own block of elements and ends when its own
            elements do: see ``loop_blocks``. Where that an ended block would stay as it is cannot be proved (``settled``), it is seen by the kernel: it runs its block once more, and where that changes
            anything, it sets the error code, and the loop has to be run another way. Numbers are right in the program
            that made the most steps; each writes its own with its number of steps. Where numbers are told what the body asks of its elements (``late``), blocks that made
            as many may have heard different answers in the last one: those of a block that was to go on are what all elements answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.types import ScalarType
from . import triton_ops, triton_text
from .loop_blocks import independent
from .loop_choices import chosen
from .loop_formulas import dtype_of, size_of
from .loop_graphs import STEPS, Graphs
from .loop_ir import FLOATS, ITEM_SIZES, Unsupported
from .loop_numbers import OVERFLOW
from .settled import settled
from .tiles import offset, power_of_two
from .triton_ops import TYPES
from .triton_text import ERROR, HEADER, Source

MOST = 4096  # elements of a vector that one program holds
BLOCK = 256  # elements of a program in the form ``blocks``
UNSETTLED = 3  # the error code of a block that went on changing
MOST_NODES = 300
GOING = "going_"  # the variable that tells whether elements were to go on after the last iteration
ACTIVE = "active"  # the parameter of a plan's kernels that tells whether they are to do anything


@dataclass(frozen=True)
class Shape:
    """How the form ``blocks`` is shared out: elements and warps of a program."""

    block: int
    warps: int


@dataclass(frozen=True)
class LoopSource:
    """A loop as a kernel. ``source``: its text; ``form``: "whole" or "blocks"; ``outputs``: a name for each output of the node.

    In the form ``blocks`` the buffers of ``counted`` have one cell for each program, and the largest of ``STEPS`` tells whose is right.
    """

    source: Source
    form: str
    outputs: tuple[str, ...]
    counted: frozenset[str]


def render(
    node: Node,
    name: str,
    pointers: bool = False,
    safe: Set[Node] = frozenset(),
    shape: Shape | None = None,
) -> LoopSource:
    """The kernel of a ``While`` node; Unsupported says why it has none.

    ``pointers``: numbers come from memory. ``safe``: nodes on numbers that surely do not fail. ``shape``: of the form ``blocks``.
    """
    first = _Loop(node, name, False, pointers, safe, shape)
    source = first.source()
    return _Loop(node, name, True, pointers, safe, shape).source() if first.fails else source


def segment(
    nodes: Sequence[Node], outputs: Sequence[Value], name: str, safe: Set[Node] = frozenset()
) -> tuple[Source, list[Value]]:
    """(a kernel of nodes on numbers and tensors of one element, its inputs): p0, p1, ... are inputs, o0, o1, ... outputs."""
    first = _Segment(nodes, outputs, name, False, safe)
    source = first.source()
    if first.fails:
        source = _Segment(nodes, outputs, name, True, safe).source()
    return source, first.inputs


class _Loop(Graphs):
    """The kernel of a ``While`` node."""

    def __init__(
        self,
        node: Node,
        name: str,
        guarded: bool,
        pointers: bool,
        safe: Set[Node],
        shape: Shape | None = None,
    ):
        super().__init__(guarded, pointers, safe)
        self.node, self.name = node, name
        self.carried = node.kwargs["carried"]
        self.n = self._space()
        self.form = "whole" if self.n <= MOST else "blocks"
        self.shape = shape if self.form == "blocks" else None
        blocks = self.shape.block if self.shape else BLOCK
        self.block = power_of_two(self.n) if self.form == "whole" else blocks
        self.partial = self.n % self.block != 0
        if self.form == "blocks":
            node, _, self.safe = chosen(node, safe)
            self.node = node
            self.blocks = independent(node)
            self.settles = settled(node, self.blocks)
            if self.blocks.mixed and not self.settles:
                raise Unsupported("elements that depend on the counted numbers")
            if self.blocks.late and not self.settles:  # its numbers know that it has ended
                raise Unsupported("elements that may change when their block has ended")

    # ---- sizes

    def _space(self) -> int:
        """The size of the vectors: 1 where there are numbers only."""
        if sum(1 for _ in _nodes(self.node)) > MOST_NODES:
            raise Unsupported("a loop with a large body")
        matrices = {n.args[0] for n in self.node.regions["body"].nodes if n.op == "aten.mv.default"}
        captured = dict(zip(self.node.regions["body"].inputs, self.node.args))
        outside = {captured.get(m) for m in matrices}
        values = self._values(outside)
        sizes = {size_of(v) for v in values} - {1}
        if 0 in sizes:
            raise Unsupported("an empty tensor")
        most = max(sizes, default=1)
        if len(sizes) > 1:
            self.spread = self._broadcast(values, most)
            if not self.spread:
                raise Unsupported(f"vectors of different sizes: {sorted(sizes)}")
        return most

    def _broadcast(self, values: Sequence[Value], most: int) -> frozenset[Value]:
        """The values that are broadcast to the shape of the largest ones; none where that is not all there is to the smaller ones."""
        shapes = {v.type.shape for v in values if size_of(v) == most}
        smaller = frozenset(v for v in values if 1 < size_of(v) < most)
        full = shapes.pop()
        fits = all(len(v.type.shape) <= len(full) and all(m in (1, n) for m, n in zip(reversed(v.type.shape), reversed(full))) for v in smaller)  # fmt: skip
        if shapes or not fits or not smaller.isdisjoint(self.node.outputs):
            return frozenset()
        self.full = full
        return smaller

    def _values(self, matrices: set) -> list[Value]:
        """All values but the captured matrices of products."""
        inner = {v for n in _nodes(self.node) if n.op == "aten.mv.default" for v in n.args[:1]}
        used = [a for a in self.node.args if isinstance(a, Value) and a not in matrices]
        used += self.node.outputs
        for n in _nodes(self.node):
            used += [v for v in (*n.inputs, *n.outputs) if v not in inner]
        return used

    # ---- the kernel

    def source(self) -> LoopSource:
        node = self.node
        signature: dict[str, str] = {}
        self._switch(signature)
        if self.n > 1:
            self.line(f"i = {self._first_point()}tl.arange(0, XBLOCK)")
            if self.partial:
                self.line(f"mask = i < {self.n}")
        for k, a in enumerate(node.args):
            if isinstance(a, Value):
                self._input(k, a, signature)
        if self.guarded:
            self.line("code = tl.full([], 0, tl.int32)")
        state = self._run()
        outputs, counted = self._outputs(state, signature)
        if self.guarded:
            signature[ERROR] = "*i32"
            self.line(f"tl.store({ERROR}, code, code != 0)")
        constants = {"XBLOCK": self.block} if self.n > 1 else {}
        where = f"# {node.location[0]}:{node.location[1]} While\n" if node.location else ""
        text = self._module(signature, constants, where)
        programs = -(-self.n // self.block) if self.form == "blocks" else 1
        matrix = max((size_of(m) for m in self.matrices), default=0)
        # few elements in each thread: all live at once
        warps = min(max(self.block // 128, matrix // 512, 1), 16)
        warps = self.shape.warps if self.shape else power_of_two(warps)
        source = Source(self.name, text, signature, constants, programs, warps)
        return LoopSource(source, self.form, outputs, counted)

    def _first_point(self) -> str:
        """Where the block of a program begins, with 64 bits where positions need them."""
        if self.form == "whole":
            return ""
        wide = ".to(tl.int64)" if self.n + self.block > 1 << 31 else ""
        return f"tl.program_id(0){wide} * XBLOCK + "

    def _switch(self, signature: dict[str, str]) -> None:
        """In a plan no loop goes on where the cell ``ACTIVE`` is false: kernels are started once on memory without content."""
        if self.pointers:
            signature[ACTIVE] = "*i1"
            self.line(f"go = tl.load({ACTIVE}) != 0")

    def _module(self, signature: dict[str, str], constants: dict[str, int], comment: str) -> str:
        parameters = triton_text.parameters(signature, constants)
        helpers = "".join(f"\n\n@triton.jit\n{triton_ops.HELPERS[h]}" for h in self.helpers)
        head = f"\n\n{comment}@triton.jit\ndef {self.name}({parameters}):\n"
        return HEADER + helpers + head + "\n".join(self.lines) + "\n"

    def _input(self, k: int, a: Value, signature: dict[str, str]) -> None:
        if a in self.names:
            return
        name = f"x{k}"
        if isinstance(a.type, ScalarType) and self.pointers:
            signature[f"s{k}"] = triton_ops.NUMBER_POINTERS[dtype_of(a)]
            self.line(f"{name} = {self._load(f's{k}', a)}")
        elif isinstance(a.type, ScalarType):
            signature[f"s{k}"] = triton_ops.NUMBERS[dtype_of(a)]
            self.line(f"{name} = s{k}" + (" != 0" if a.type.kind is bool else f".to({TYPES[dtype_of(a)]})"))  # fmt: skip
        else:
            signature[f"p{k}"] = f"*{triton_ops.SIGNATURE[dtype_of(a)]}"
            if (size_of(a) not in (1, self.n) and a not in self.spread) or (
                len(a.type.shape) == 2 and self._only_matrix(k)
            ):
                self.matrices[a] = name
                self._matrix(name, k, a)
            else:
                self.line(f"{name} = {self._load(f'p{k}', a)}")
        self.names[a] = name

    def _load(self, pointer: str, a: Value) -> str:
        place = f"{pointer} + {self._element(a)}" if self.is_vector(a) else pointer
        mask = ", mask, other=0" if self.is_vector(a) and self.partial else ""
        return f"tl.load({place}{mask})" + (" != 0" if dtype_of(a) == "bool" else "")

    def _element(self, a: Value) -> str:
        """Where in its memory the element of a vector is."""
        if a not in self.spread:
            return "i"
        shape = a.type.shape
        inner = [math.prod(shape[d + 1 :]) if n > 1 else 0 for d, n in enumerate(shape)]
        return offset(self.full, [0] * (len(self.full) - len(shape)) + inner)

    def _run(self) -> list[str]:
        """Write the loop; the variables of its state."""
        node = self.node
        state = self._loop(node, counted=self.form == "blocks")
        if self.form == "blocks" and not self.settles:
            self._settled(state)
        return state

    def _settled(self, state: list[str]) -> None:
        """Fail where a block that ended for its own elements would still change."""
        node, body = self.node, self.node.regions["body"]
        numbers = self._limit(state)
        # the numbers would let the loop go on: the elements have ended it
        self.line(f"if {numbers}:")
        self.indent += 1
        outputs = self._graph(body, [*state, *self._texts(node.args[self.carried :], body.inputs[self.carried :])])  # fmt: skip
        for old, new, v in zip(state, outputs, body.inputs):
            if self.is_vector(v):
                mask = " & mask" if self.partial else ""
                bits = f".to(tl.int{8 * ITEM_SIZES[dtype_of(v)]}, bitcast=True)" if dtype_of(v) in FLOATS else ""  # fmt: skip
                differs = self.fresh()
                self.line(f"{differs} = ({old}{bits} != {new}{bits}){mask}")
                self._fail(f"tl.max({differs}.to(tl.int32), 0) > 0", UNSETTLED)
        self.indent -= 1

    def _limit(self, state: list[str]) -> str:
        """The condition with every ``any`` true: what the numbers alone say."""
        cond = self.node.regions["cond"]
        before, self.always = self.always, True
        try:
            return self._condition(cond, state, self.node.args[self.carried :])
        finally:
            self.always = before

    def _outputs(self, state: list[str], signature: dict[str, str]) -> tuple[tuple[str, ...], frozenset[str]]:  # fmt: skip
        names, counted = [], set()
        for j, (text, v) in enumerate(zip(state, self.node.outputs)):
            name = f"o{j}"
            names.append(name)
            signature[name] = f"*{triton_ops.SIGNATURE[dtype_of(v)]}"
            if self.is_vector(v):
                self.line(f"tl.store({name} + i, {text}" + (", mask)" if self.partial else ")"))
            elif self.form == "blocks":
                counted.add(name)
                self.line(f"tl.store({name} + tl.program_id(0), {text})")
            else:
                self.line(f"tl.store({name}, {text})")
        if counted:
            signature[STEPS] = "*i64"
            self.line(f"tl.store({STEPS} + tl.program_id(0), {self._rank()})")
        return tuple(names), frozenset(counted)

    # ---- what the elements have answered in the last iteration

    def _begun(self) -> None:
        if self.blocks.late:
            self.line(f"{GOING} = tl.full([], 1, tl.int64)")

    def _answered(self) -> None:
        if self.blocks.late:
            answer = self.names[self.blocks.asked[0].outputs[0]]
            goes = answer if self.blocks.wanted else f"({answer} == 0)"
            self.line(f"{GOING} = {goes}.to(tl.int64)")

    def _rank(self) -> str:
        """Twice the iterations of a program, and one where its elements were to go on after the last one: among those that made the most, such a one has the numbers of all."""
        return f"2 * {STEPS}_ + {GOING}" if self.blocks.late else f"{STEPS}_"


class _Segment(_Loop):
    """Straight-line nodes, with branches and loops in them, on values of one element."""

    def __init__(self, nodes: Sequence[Node], outputs: Sequence[Value], name: str, guarded: bool, safe: Set[Node]):  # fmt: skip
        self.nodes, self.wanted = nodes, outputs
        made = {v for n in nodes for v in n.outputs}
        self.inputs = list(dict.fromkeys(v for n in nodes for v in n.inputs if v not in made))
        inner = [v for n in nodes for m in _nodes(n) for v in (*m.inputs, *m.outputs)]
        if any(size_of(v) != 1 for v in (*self.inputs, *made, *inner)):
            raise Unsupported("a value of more than one element")
        graph = Graph(name)
        node = Node("While", (), {"carried": 0}, [], regions={"cond": graph, "body": graph})
        super().__init__(node, name, guarded, True, safe)

    def source(self) -> Source:
        signature: dict[str, str] = {}
        if any(n.op == "While" for node in self.nodes for n in (node, *_nodes(node))):
            self._switch(signature)
        for k, v in enumerate(self.inputs):
            signature[f"p{k}"] = f"*{triton_ops.SIGNATURE[dtype_of(v)]}"
            self.line(f"x{k} = {self._load(f'p{k}', v)}")
            self.names[v] = f"x{k}"
        if self.guarded:
            self.line("code = tl.full([], 0, tl.int32)")
        for n in self.nodes:
            self._node(n)
        for j, v in enumerate(self.wanted):
            signature[f"o{j}"] = f"*{triton_ops.SIGNATURE[dtype_of(v)]}"
            self.line(f"tl.store(o{j}, {self.names[v]})")
        if self.guarded:
            signature[ERROR] = "*i32"
            self.line(f"tl.store({ERROR}, tl.maximum(code, tl.load({ERROR})), code != 0)")
        return Source(self.name, self._module(signature, {}, ""), signature, {}, 1, 1)


def _nodes(node: Node) -> Iterator[Node]:
    """All nodes of a node's graphs, inner ones too."""
    for graph in node.regions.values():
        yield from all_nodes(graph)


__all__ = [
    "ACTIVE",
    "OVERFLOW",
    "STEPS",
    "UNSETTLED",
    "LoopSource",
    "Shape",
    "render",
    "segment",
    "size_of",
]
