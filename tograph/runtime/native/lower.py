"""A graph as one LLVM function: ``i32 @run(ptr params)``.

``params`` is an array of 8-byte slots: the inputs (data pointers; numbers as int64, double or 0/1), the outputs (data
pointers of new tensors; numbers are stored into the slot), the written resources' places, and the arena. The function
returns 0, or DECLINED when the host must run the graph (something failed, or a result is one of the arguments), or
INTERRUPTED with a Python exception set.

Invariants. Numbers and one-element tensors live in registers, other tensors in the arena at static offsets. Nothing
outside is written before the last instruction that may decline, so the host can run the graph from the same inputs and
raises what it raises. What a variable becomes is computed in its own memory where nothing reads the old value any more
(``direct``), else copied there at the end. Loops poll for signals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..ir import Graph, Node, Value
from ..kernels.build import Region, build
from ..kernels.gathers import GATHERS, settled
from ..kernels.jit import host
from ..kernels.loop_ir import LONGEST, Kernel, Open, Unsupported
from ..kernels.pointwise import ROWS
from ..kernels.products import PRODUCTS
from ..kernels.reductions import CREATORS, REDUCERS, creator_value
from ..shapes import Meta
from ..types import DTYPE_NAMES, ListType, ObjectType, ScalarType, TensorType
from . import (
    buffers,
    calls,
    chosen,
    control,
    direct,
    extents,
    groups,
    lists,
    matmul,
    moves,
    nests,
    scatters,
    tall,
    telling,
    transposes,
    views,
)
from .arena import Arena
from .code import REGISTER, SIZE, UNROLLING, Code, literal, memory
from .form import Layout
from .groups import Group, one_element
from .loops import Place, emit
from .numbers import Numbers
from .sizes import Sizes
from .values import (
    Decline,
    Fill,
    Listed,
    Mem,
    Noncontiguous,
    Operand,
    Reg,
    Room,
    endless,
    in_a_row,
    laid_out,
    numel,
    row_major,
    strides,
    wide,
    with_alias,
)

DONE, DECLINED, INTERRUPTED = 0, 1, 2
ATTRIBUTES = """attributes #0 = {{ nounwind "prefer-vector-width"="{}" }}
attributes #1 = {{ nounwind memory(none) willreturn }}
!0 = distinct !{{!0, !1, !2}}
!1 = !{{!"llvm.loop.vectorize.enable", i1 false}}
!2 = !{{!"llvm.loop.unroll.disable"}}
{}"""
_CPU = torch.device("cpu")


class Lowering:
    """Writes the function of one graph. ``functions``: the loop nests, each a function of its own."""

    def __init__(self, graph: Graph, in_place: bool = True, private: Collection[Value] = (), strided: Collection[Value] = (),
                 layout: Layout = ()):  # fmt: skip
        self.graph, self.code = graph, Code()
        self.functions: list[str] = []
        self._known: dict[str, str] = {}  # functions by what follows their name
        self.kernels: list[nests.Nest] = []
        self.arena = Arena()
        # at 0: where the table of calls is, and that of the buffers
        self.arena.hold(frozenset([self.arena.allocate(16)[0]]))
        self.buffers = buffers.Plan(self)
        self.private = frozenset(private)  # results that only other programs read
        self.layout = dict(layout)
        self.strided = strided  # carried tensors that are not contiguous in eager PyTorch
        self.surprises: set[Value] = set()  # others of which that is found while lowering
        self.direct = direct.Writes(self, in_place)
        self.env: dict[Value, Operand] = {}
        self.dests: dict[Value, Mem | Room] = {}
        self.written: dict[Value, Operand] = {}  # resources that were assigned: what they hold now
        self.numbers = Numbers(self.code, self.fail)
        self.sizes = Sizes(self)
        self.code.spans = self.sizes.span
        self.globals: dict[str, str] = {}
        self.asked: list[calls.Call] = []  # what torch runs
        self.native_ops = 0
        # indices and lengths that were computed and checked before this place
        self.found: dict[tuple, Any] = {}
        self.named: dict[str, str] = {}  # the functions of loop nests by their text
        self.calls: Counter[str] = Counter()  # and how often each is called
        self.overwrites: set[Node] = set()  # updates that may be made in the memory of their base
        self.updates: set[Value] = set()  # their results
        self.reserved: dict[Node, Mem] = {}  # where what a node pushes is computed
        self.rewrites = lists.changes(graph)
        self.used = groups.used(graph)
        self.work = 0.0
        self.inside = 0  # loops around what is being written
        self.branching = False  # whether branches stay branches

    # ---- the whole function

    def run(self) -> str:
        """The text of the module."""
        code, graph = self.code, self.graph
        self.check(graph)
        self.base = code.do(f"load ptr, ptr {self.slot(len(graph.inputs) + len(graph.outputs))}")
        swept = code.later()
        for i, v in enumerate(graph.inputs):
            self.bind(v, self._input(i, v))
        dests = {i: d for i, v in enumerate(graph.outputs) if (d := self._output(i, v)) is not None}
        results = self.region(graph, None, dests)
        self._require_contiguous(results)
        for v, x in zip(graph.outputs, results):
            if v not in self.private:
                self.fail(x.alias)
        results = self._apart_from_each_other(results)
        for i, (v, x) in enumerate(zip(graph.outputs, results)):
            self._deliver(i, v, x, dests.get(i))
        late = {v: x for v, x in self.written.items() if not self.direct.stands_in(v, x)}
        for v, x in late.items():
            late[v] = self.direct.apart(
                x
            )  # all that is read of variables comes before the first write
        for v, x in late.items():
            self.copy(x, self.env_input(v))
        if not calls.worth(self):
            op = self.asked[0].node.op
            raise Decline(f"{op} has no native form, and too few other ops have")
        code.fill(swept, self.buffers.sweep())
        code.line(self.buffers.sweep())
        code.line(f"ret i32 {DONE}")
        code.label("declined")
        code.line(f"ret i32 {DECLINED}")
        return self._module()

    def _module(self) -> str:
        body = "\n".join(line for line in self.code.lines if line)
        head = f"define i32 @run(ptr noalias %params) #0 {{\n{body}\n}}\n"
        declares = dict(self.code.declares)
        functions = nests.kept_apart(self.functions, self.calls)
        texts = [head, *functions, *self.globals.values()]
        attributes = ATTRIBUTES.format(8 * host().vector_bytes, UNROLLING)
        return "\n".join([*texts, *declares.values(), attributes])

    def slot(self, i: int) -> str:
        return self.code.do(f"getelementptr i64, ptr %params, i64 {i}")

    def _input(self, i: int, v: Value) -> Operand:
        kind = v.type
        if isinstance(kind, ScalarType):
            dtype = DTYPE_NAMES[kind.dtype]
            return Reg(self.code.load(dtype, self.slot(i)), dtype)
        if lists.listed(kind):
            return self._list_input(i, kind)
        if _grows(v):
            return self._long_input(i, v)
        dtype, size = self.tensor(v)
        pointer = self.code.do(f"load ptr, ptr {self.slot(i)}")
        if numel(size) == 1:
            return Reg(self.code.load(dtype, pointer), dtype, size, "true")
        stride = self.layout.get(i, strides(size))
        return Mem(pointer, dtype, size, stride, self.direct.owners(v), alias="true")

    def _list_input(self, i: int, kind: Any) -> Listed:
        """A list: the slot points to its length and the addresses of what is in it."""
        code = self.code
        block = code.do(f"load ptr, ptr {self.slot(i)}")
        length, *pointers = (
            code.do(f"load {t}, ptr {code.do(f'getelementptr i64, ptr {block}, i64 {k}')}")
            for k, t in enumerate(["i64", *["ptr"] * lists.depth(kind.element)])
        )
        owners = frozenset([self.arena.pin()])
        held = Reg("", "list", None, "true")
        return replace(lists.over(self, kind, tuple(pointers), length, held), owners=owners)

    def _long_input(self, i: int, v: Value) -> Mem:
        """A tensor whose length only the run knows: the slot points to the length and the address."""
        kind = self.item(v.type)
        parts = self._list_input(i, ListType(kind))
        length = self.sizes.new(parts.length, LONGEST)
        size = tuple(length if n is None else n for n in v.type.shape)
        pointer = self.code.do(f"load ptr, ptr {parts.places[0]}")
        return with_alias(laid_out(pointer, DTYPE_NAMES[kind.dtype], size, parts.owners), "true")

    def item(self, kind: TensorType) -> TensorType:
        """The type of what a tensor of a size without a bound has at one place; such tensors are native where there are loops."""
        if not any(n.op == "While" for n in self.graph.nodes):  # the host's kernels are faster
            raise Decline(f"a value of type {kind}")
        part = lists.inside(kind)
        lists.item_bytes(part)
        return part

    def env_input(self, v: Value) -> Mem:
        """The memory of an input, for a resource that is written."""
        dtype, size = self.tensor(v)
        pointer = self.code.do(f"load ptr, ptr {self.slot(self.graph.inputs.index(v))}")
        return Mem(pointer, dtype, size, strides(size))

    def _output(self, i: int, v: Value) -> Mem | None:
        if one_element(v) or _grows(v):
            return None
        dtype, size = self.tensor(v)
        pointer = self.code.do(f"load ptr, ptr {self.slot(len(self.graph.inputs) + i)}")
        return Mem(pointer, dtype, size, strides(size))

    def _deliver(self, i: int, v: Value, x: Operand, dest: Mem | None) -> None:
        place = self.slot(len(self.graph.inputs) + i)
        if isinstance(x, Listed):
            self._hand_over(place, x)
        elif isinstance(v.type, ScalarType):
            self.code.store(x.dtype, x.text, place)
        elif dest is None:
            self.code.store(x.dtype, self.register(x).text, self.code.do(f"load ptr, ptr {place}"))
        elif x != dest:
            self.copy(x, dest)

    def _require_contiguous(self, results: list[Operand]) -> None:
        found = {
            v: x
            for v, x in zip(self.graph.outputs, results)
            if not x.settled and v not in self.private
        }
        if found:
            orders = {v: order for v, x in found.items() if (order := x.order)}
            raise Noncontiguous(orders if len(orders) == len(found) else {})

    def _apart_from_each_other(self, results: list[Operand]) -> list[Operand]:
        """The results, those that leave in buffers each in buffers of their own."""
        out, seen = [], set()
        for v, x in zip(self.graph.outputs, results):
            if _grows(v):
                x = x if isinstance(x, Listed) else self._rows(v, x)
                if x.fixed or x.begin != "0" or not x.owners.isdisjoint(seen) or len(x.owners) != len(x.places):  # fmt: skip
                    x = lists.copied(self, x)
                seen |= x.owners
                self.arena.hold(x.owners)
            out.append(x)
        return out

    def _rows(self, v: Value, x: Operand) -> Listed:
        """A tensor one size of which only the run knows, as the list of its parts along that dimension."""
        d = extents.unknown(v.type)
        x = extents.in_buffer(self, d, x)
        length = self.sizes.text(x.size[d])
        return Listed(lists.inside(v.type), (x.place,), "0", length, x.owners, x.alias)

    def _hand_over(self, place: str, x: Listed) -> None:
        """Tell the caller the length of a list, and which buffers leave."""
        code = self.code
        block = code.do(f"load ptr, ptr {place}")
        for k, (kind, text) in enumerate([("i64", x.length), *(("ptr", p) for p in x.places)]):
            code.line(
                f"store {kind} {text}, ptr {code.do(f'getelementptr i64, ptr {block}, i64 {k}')}"
            )

    def tensor(self, v: Value) -> tuple[str, tuple[int, ...]]:
        """(dtype, size) of a tensor that native code can hold."""
        kind = v.type
        if not isinstance(kind, TensorType):
            raise Decline(f"a value of type {kind}")
        dtype = DTYPE_NAMES[kind.dtype]
        size = self.sizes.of.get(v, kind.shape)
        if kind.device != "cpu" or None in size or dtype not in SIZE:
            raise Decline(f"a value of type {kind}")
        return dtype, tuple(map(self.sizes.fixed, size))

    def check(self, graph: Graph) -> None:
        """Decline at the first value that native code cannot hold."""
        for v in graph.inputs:
            self._check_value(v)
        for node in graph.nodes:
            known = (
                node.op.startswith(("aten.", "py."))
                or node.regions
                or node.op in _KNOWN
                or node.op in lists.RULES
            )
            if not known:
                raise Decline(f"{node.op} runs on the host")
            for v in node.outputs:
                if v in self.used:
                    self._check_value(v)
            for region in node.regions.values():
                self.check(region)

    def _check_value(self, v: Value) -> None:
        kind = v.type
        if lists.listed(kind):
            lists.depth(kind.element)
        elif not isinstance(kind, (ScalarType, ObjectType)) and None not in getattr(
            kind, "shape", ()
        ):
            self.tensor(v)  # sizes that only a run knows are looked at where they are made

    # ---- failing

    def fail(self, condition: str) -> None:
        """Decline where ``condition`` is true."""
        if condition == "false":
            return
        if self.direct.begun:
            raise direct.Late
        ok = self.code.fresh("ok")
        self.code.line(f"br i1 {condition}, label %declined, label %{ok}, !prof !9")
        self.globals["prof"] = '!9 = !{!"branch_weights", i32 1, i32 1000000}'
        self.code.label(ok)

    # ---- regions

    def region(
        self, graph: Graph, args: Sequence[Operand] | None, dests: dict[int, Mem]
    ) -> list[Operand]:
        """Write the nodes of ``graph``; its outputs, whose memory the caller must release."""
        for v, x in zip(graph.inputs, args or ()):
            self.bind(v, x)
        for i, v in enumerate(graph.outputs):
            if i in dests and v not in self.dests and v.node is not None:
                self.dests[v] = dests[i]
        self._spread(graph)
        outside, self.found = self.found, dict(self.found)
        parts = groups.schedule(graph)
        last = _last_uses(graph, parts)
        needed = _needed(graph, parts)
        pushes = lists.pushes(graph)
        for i, group in enumerate(parts):
            self.direct.enter(group, last.get(i, ()))
            for v in [v for n in group.nodes for v in n.outputs if v in pushes]:
                lists.make_room(self, v, pushes[v])
            self.group(group, needed)
            for v in last.get(i, ()):
                self.unbind(v)
        self.found = outside
        results = [self.operand(v) for v in graph.outputs]
        for x in results:
            self.arena.hold(x.owners)
        for v in (*graph.outputs, *(graph.inputs if args is not None else ())):
            self.unbind(v)
        return results

    def _spread(self, graph: Graph) -> None:
        """Where an update goes there goes the update before it: both are made in one place."""
        found = groups.overwrites(graph)
        self.overwrites |= {v.node for v in found}
        self.updates |= found.keys()
        for v in reversed(found):
            base, dest = found[v][0], self.dests.get(v)
            if dest is not None and base in found:
                self.dests.setdefault(base, dest)

    def bind(self, v: Value, x: Operand) -> None:
        self.arena.hold(x.owners)
        self.env[v] = x
        self.sizes.note(v, x.size or ())

    def unbind(self, v: Value) -> None:
        x = self.env.pop(v, None)
        if x is not None:
            self.arena.release(x.owners)
        self.sizes.of.pop(v, None)

    def release(self, xs: Sequence[Operand]) -> None:
        for x in xs:
            self.arena.release(x.owners)

    def operand(self, a: Any) -> Operand:
        """The operand of an argument: a value, or a Python number."""
        if isinstance(a, Value):
            return self.written.get(a, self.env[a])
        if isinstance(a, bool):
            return Reg(literal(a, "bool"), "bool")
        if isinstance(a, int):
            if not -(1 << 63) <= a < 1 << 63:
                raise Decline("an int of more than 64 bits")
            return Reg(literal(a, "i64"), "i64")
        if isinstance(a, float):
            return Reg(literal(a, "f64"), "f64")
        raise Decline(f"an argument of type {type(a).__name__}")

    def register(self, x: Operand) -> Reg:
        """A one-element operand in a register."""
        if isinstance(x, Reg):
            return x
        if isinstance(x, Fill):
            return Reg(self._filled(x), x.dtype, x.size)
        return Reg(self.code.load(x.dtype, x.pointer), x.dtype, x.size, x.alias)

    def _filled(self, x: Fill) -> str:
        value = self.inline(x.node)[x.node.outputs[0]]
        return value.text

    def new(self, dtype: str, size: tuple[int, ...]) -> Mem:
        """Memory in the arena that nobody holds yet; in a buffer, where only the run knows how much."""
        if wide(size):
            place, owner = self.buffers.new()
            nbytes = self.code.multiply(self.sizes.volume(size), SIZE[dtype])
            owners = frozenset([owner])
            return laid_out(self.buffers.room(place, "0", nbytes, owners), dtype, size, owners)
        if any(isinstance(n, Open) for n in size) and numel(size) * SIZE[dtype] > _PLANNED:
            place, owner = self.buffers.new()
            return self.placed(Room(place, frozenset([owner]), endless(size) or 0), dtype, size)
        owner, offset = self.arena.allocate(numel(size) * SIZE[dtype])
        pointer = self.code.do(f"getelementptr i8, ptr {self.base}, i64 {offset}")
        return laid_out(pointer, dtype, size, frozenset([owner]))

    def in_order(self, x: Mem, n: Open, rest: int) -> Mem:
        """``x``, whose one open size is ``n``, in memory without room for more, in eager PyTorch's order."""
        made = self.new(x.dtype, (n, rest))
        found = replace(made, size=x.size, stride=row_major(x.size), place="")
        self.copy(x, found)
        return found

    def placed(self, room: Room, dtype: str, size: tuple) -> Mem:
        """A new tensor in a buffer; what was there is lost."""
        first = room.dim
        rest = numel(size[:first] + size[first + 1 :]) * SIZE[dtype]
        if rest > _PLANNED or endless(size) not in (None, first) or strides(size)[first] * SIZE[dtype] != rest:  # fmt: skip
            raise Decline("a temporary whose size is known only at run time")
        nbytes = self.code.multiply(self.sizes.text(size[first]), rest)
        data = self.buffers.room(room.place, "0", nbytes, room.owners)
        return laid_out(data, dtype, size, room.owners, room.place)

    def target(self, v: Value) -> Mem:
        """Where the tensor ``v`` is to be computed."""
        dtype, size = self.tensor(v)
        dest = self.dests.pop(v, None)
        if isinstance(dest, Room):
            return self.placed(dest, dtype, size)
        return dest or self.new(dtype, size)

    def moved(self, x: Operand, dest: Mem | Room) -> Mem:
        """``x`` at ``dest``: copied there where it is not there already."""
        if isinstance(dest, Room):
            if isinstance(x, Mem) and x.place == dest.place:
                return x
            made = self.placed(dest, x.dtype, extents.unbounded(self, x.size, dest.dim))
        elif isinstance(x, Mem) and x.pointer == dest.pointer:
            return x
        else:
            made = dest
        self.copy(x, made)
        return replace(made, dense=x.settled)

    def memory(self, x: Operand) -> Mem:
        """``x`` in memory; a fill or a register is written to new memory, which the caller must hold."""
        if isinstance(x, Mem):
            return x
        made = self.new(x.dtype, x.size or ())
        self.copy(x, made)
        return made

    def contiguous(self, x: Operand) -> Mem:
        """``x`` in contiguous memory."""
        if isinstance(x, Mem) and x.contiguous:
            return x
        made = self.new(x.dtype, x.size or ())
        self.copy(x, made)
        return made

    def function(self, stem: str, text: str) -> str:
        """The name of a function without result, given from its parameters on; one text is one function."""
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = f"{stem}{len(self.functions)}"
            self.functions.append(f"define internal void @{name}{text}")
        return name

    # ---- groups

    def group(self, group: Group, needed: set[Value]) -> None:
        if group.kind == "loop":
            if not all(self.inferred(node) for node in group.nodes):
                self._one_by_one(group, needed)
                return
            self.native_ops += len(group.nodes)
            if len(group.nodes) == 1 and (
                matmul.column_sums(self, group.nodes[0]) or transposes.clone(self, group.nodes[0])
            ):
                return
            self.loop_group(group.nodes, needed)
            return
        for node in group.nodes:
            self.native_ops += node.op.startswith("aten.")
            if group.kind == "alone":
                self.alone(node, needed)
            else:
                self.straight(node)

    def inferred(self, node: Node) -> bool:
        """Whether the sizes of a node's results follow from those of its operands."""
        try:
            self.sizes.infer(node)
        except Decline:
            if all(
                isinstance(v.type, TensorType) and None not in v.type.shape for v in node.outputs
            ):
                raise
            return False
        return True

    def _one_by_one(self, group: Group, needed: set[Value]) -> None:
        """A loop nest one of whose nodes gives a tensor of a size that only the op tells."""
        if len(group.nodes) == 1:
            calls.lower(self, group.nodes[0])
            return
        for node in group.nodes:
            self.group(replace(group, nodes=[node]), needed | set(node.outputs))

    def alone(self, node: Node, needed: set[Value]) -> None:
        if node.regions:
            control.lower(self, node)
        elif node.op == "tg.raise":
            self.fail("true")
        elif node.op == "tg.print":
            telling.show(self, node)
        elif node.op.startswith(("tg.list_", "tg.optional_")):
            lists.lower(self, node)
        elif form := _sweep(node):
            form(self, node)
        elif node.op in moves.MOVES:
            moves.lower(self, node, not needed.isdisjoint(node.outputs))
        elif tall.fits(self, node):
            self.sizes.infer(node)
            tall.lower(self, node)
        elif matmul.deep(self, node):
            self.sizes.infer(node)
            matmul.lower(self, node)
        elif any(isinstance(x := self.operand(v), Mem) and x.open for v in node.inputs):
            self.sizes.infer(node)
            with matmul.by_rows(self, node):
                self.loop_group([node], set(node.outputs))
        else:
            self.sizes.infer(node)
            matmul.lower(self, node)

    def straight(self, node: Node) -> None:
        """A node of numbers, one-element tensors, views or fills."""
        self.work += 0.5
        out = node.outputs[0] if node.outputs else None
        if node.op == "tg.read":
            self.bind(out, self.read(node.args[0]))
        elif node.op == "tg.assign":
            self.assign(node)
        elif node.op == "tg.assert":
            self._assert(node)
        elif node.op == "tg.constant" and isinstance(node.args[0], (list, tuple)):
            self.bind(out, self._constant(out, node.args[0]))
        elif node.op in (
            "tg.identity",
            "tg.written",
        ):  # nobody differentiates this: what was there before has no part in it
            self.bind(out, self.operand(node.args[node.op == "tg.written"]))
        elif node.op == "tg.choose":
            self.bind(out, self._choice(node))
        elif node.op.startswith("py."):
            telling.text(self, node) if telling.is_text(node) else self.bind(
                out, self._number(node)
            )
        elif node.op in views.VIEWS or node.op == groups.CLONE:
            views.lower(self, node)
        elif self.inferred(node):
            self._computed(node)
        else:
            calls.lower(self, node)

    def _constant(self, v: Value, data: Any) -> Operand:
        """A constant tensor: a register, or memory of the module."""
        dtype, size = self.tensor(v)
        items = [data]
        for _ in size:
            items = [x for row in items for x in row]
        if len(items) == 1:
            return Reg(literal(items[0], dtype), dtype, size)
        kind = memory(dtype)
        if dtype in ("f16", "bf16"):
            raise Decline(f"a constant of type {dtype}")
        texts = [str(int(x)) if dtype == "bool" else literal(x, dtype) for x in items]
        name = f"@constant{len(self.globals)}"
        content = ", ".join(f"{kind} {text}" for text in texts)
        self.globals[name] = f"{name} = private constant [{len(items)} x {kind}] [{content}], align 64\n"  # fmt: skip
        return Mem(name, dtype, size, strides(size))

    def _assert(self, node: Node) -> None:
        """Where it does not hold the host raises."""
        holds = self.numbers.truth(self.register(self.operand(node.args[0])))
        self.fail(self.code.do(f"xor i1 {holds}, true"))

    def _number(self, node: Node) -> Operand:
        if node.op == "py.constant":
            return self.operand(node.args[0])
        if node.op == "py.size":
            size = self.operand(node.args[0]).size
            return Reg(self.sizes.text(size[node.args[1]]), "i64")
        args = [self.register(self.operand(a)) for a in node.args]
        return self.numbers.run(node.op, DTYPE_NAMES[node.outputs[0].type.dtype], args)

    def _choice(self, node: Node) -> Operand:
        """One of several values, by its number: of numbers and one-element tensors in registers, else of places in memory."""
        number = self.numbers.number(self.register(self.operand(node.args[0])), "i64")
        if not all(map(one_element, (*node.outputs, *node.inputs))):
            return self._chosen_place(number, node.args[1])
        found, *rest = [self.register(self.operand(a)) for a in node.args[1]]
        kind, text, alias = REGISTER[found.dtype], found.text, found.alias
        for i, x in enumerate(rest, 1):
            if x.dtype != found.dtype:
                raise Decline("a choice among numbers of different kinds")
            here = self.code.do(f"icmp eq i64 {number}, {i}")
            text = self.code.do(f"select i1 {here}, {kind} {x.text}, {kind} {text}")
            alias = self.code.do(f"select i1 {here}, i1 {x.alias}, i1 {alias}")
        return Reg(text, found.dtype, found.size, alias)

    def _chosen_place(self, number: str, values: Sequence[Value]) -> Mem:
        if not all(isinstance(v, Value) and isinstance(v.type, TensorType) for v in values):
            raise Decline("a choice among lists or constants")
        found, *rest = [self.memory(self.operand(a)) for a in values]
        pointer, alias, owners, dense = found.pointer, found.alias, found.owners, found.dense
        for i, x in enumerate(rest, 1):
            if (x.dtype, x.size, x.stride, x.place) != (
                found.dtype,
                found.size,
                found.stride,
                "",
            ) or found.place:
                raise Decline("a choice among tensors that are stored in different ways")
            here = self.code.do(f"icmp eq i64 {number}, {i}")
            pointer = self.code.do(f"select i1 {here}, ptr {x.pointer}, ptr {pointer}")
            alias = self.code.do(f"select i1 {here}, i1 {x.alias}, i1 {alias}")
            owners, dense = owners | x.owners, dense and x.dense
        return replace(found, pointer=pointer, alias=alias, owners=owners, dense=dense)

    def _computed(self, node: Node) -> None:
        out = node.outputs[0]
        if node.op in CREATORS and not one_element(out):
            dtype, size = self.tensor(out)
            if creator_value(node) is not None:
                self.loop_group([node], {out})
            else:
                self.bind(out, Fill(_alone(node), dtype, size))
        elif all(map(one_element, (*node.inputs, *node.outputs))) and groups.known(node):
            try:
                found = self.inline(node)
            except (Decline, Unsupported):
                calls.lower(self, node)
                return
            for v, x in found.items():
                self.bind(v, x)
        else:
            calls.lower(self, node)

    def read(self, resource: Value) -> Operand:
        if resource in self.written:
            return self.written[resource]
        return with_alias(self.env[resource], "false")

    def assign(self, node: Node) -> None:
        resource, value = node.args
        if resource not in self.graph.inputs or extents.opened(resource):
            raise Decline("a variable that is written inside of a branch or loop")
        x = self.operand(value)
        dtype, size = self.tensor(resource)
        if (x.dtype, x.size) != (dtype, size):
            raise Decline("an assignment that converts")
        if resource in self.written:
            self.arena.release(self.written[resource].owners)
        self.arena.hold(x.owners)
        self.written[resource] = x

    # ---- kernels

    def inline(self, node: Node) -> dict[Value, Reg]:
        """A node of one-element values as straight-line code; what is bound already is left out."""
        outputs = self._unsettled(node.outputs)
        kernel = self._kernel([node], outputs)
        region = Region([node], outputs)
        bind = {f"o{i}": Place("", True) for i in range(len(outputs))}
        for i, v in enumerate(region.inputs):
            x = self.register(self.operand(v))
            bind[f"p{i}"] = bind[f"s{i}"] = Place(x.text, True)
        found = emit(self.code, kernel, bind, self.fail)
        return {v: Reg(found[f"o{i}"], *self.tensor(v)) for i, v in enumerate(outputs)}

    def _unsettled(self, values: Sequence[Value]) -> list[Value]:
        """The values that are to be computed; those that are known already are bound."""
        rest = []
        for v in values:
            number = settled(v)
            if number is None:
                rest.append(v)
                continue
            dtype, size = self.tensor(v)
            self.bind(v, Reg(literal(number, dtype), dtype, size))
        return rest

    def _kernel(
        self, nodes: list[Node], outputs: Sequence[Value], placed: dict[Value, tuple] | None = None
    ) -> Kernel:
        """The loops of some nodes; Decline where there are none. ``placed``: strides of outputs that are not packed."""
        for n in nodes:
            if not any(n.op in table for table in _FORMS):
                raise Decline(f"{n.op} has no native form")
        region = Region(nodes, list(outputs))
        metas = {v: self._meta(v, self.operand(v)) for v in region.inputs if isinstance(v.type, TensorType)}  # fmt: skip
        for n in nodes:
            for v in n.outputs:
                size = self.tensor(v)[1]
                stride = (placed or {}).get(v, strides(size))
                metas[v] = Meta(v.type.dtype, size, self.sizes.strides(stride), 0, _CPU)
        name = f"k{len(self.kernels)}"
        try:
            kernel = build(region, metas, name)
        except Unsupported as error:
            raise Decline(f"{nodes[0].op}: {error}") from None
        nests.check(self, kernel)
        return kernel

    def _meta(self, v: Value, x: Operand) -> Meta:
        stride = x.stride if isinstance(x, Mem) else (0,) * len(x.size or ())
        return Meta(v.type.dtype, tuple(x.size or ()), self.sizes.strides(stride), 0, _CPU)

    def loop_group(self, nodes: list[Node], needed: set[Value]) -> None:
        """A loop nest; where its nodes do not fit into one, each gets its own."""
        outputs = self._unsettled([v for n in nodes for v in n.outputs if v in needed])
        if not outputs:
            return
        self._settle_fills(nodes)
        fills = self._fills(nodes)
        try:
            kernel = self._kernel([*fills, *nodes], outputs)
        except Decline:
            if len(nodes) == 1:
                calls.lower(self, nodes[0])
                return
            self._apart(nodes)
            return
        region = Region([*fills, *nodes], outputs)
        packed = all(n.op in PRODUCTS or n.op in GATHERS for n in nodes)
        dense = packed or all(self.operand(v).ordered for v in region.inputs)
        results: list[Operand] = []
        for v in outputs:
            dtype, size = self.tensor(v)
            place = self.direct.place(v, kernel, region) or self.target(v)
            results.append(place if numel(size) > 1 else self._cell(dtype, size))
        nests.call(self, kernel, region, results)
        for v, x in zip(outputs, results):
            if isinstance(x, Mem) and one_element(v):
                x = Reg(self.code.load(x.dtype, x.pointer), x.dtype, x.size)
            elif isinstance(x, Mem) and not dense and not in_a_row(x.size):
                x = replace(x, dense=False)
            self.bind(v, x)

    def _apart(self, nodes: list[Node]) -> None:
        """Each node in a nest of its own; what was to go to a place that others still read goes there last."""
        kept = {v: self.dests.pop(v) for n in nodes for v in n.outputs if v in self.dests}
        for n in nodes:
            self.loop_group([n], set(n.outputs))
        for v, dest in kept.items():
            x = self.env[v]
            made = replace(self.moved(x, dest), dense=x.dense)
            self.unbind(v)
            self.bind(v, made)

    def _cell(self, dtype: str, size: tuple[int, ...]) -> Mem:
        return Mem(self.code.cell("i64"), dtype, size, strides(size))

    def _settle_fills(self, nodes: list[Node]) -> None:
        """A tensor of numbers that has another name here, as the argument of a region, is written out."""
        for v in dict.fromkeys(v for n in nodes for v in n.inputs):
            x = self.env.get(v)
            if isinstance(x, Fill) and v not in x.node.outputs:
                made = self.memory(x)
                self.unbind(v)
                self.bind(v, made)

    def _fills(self, nodes: list[Node]) -> list[Node]:
        used = dict.fromkeys(v for n in nodes for v in n.inputs)
        found = [x.node for v in used if isinstance(x := self.env.get(v), Fill)]
        return list(dict.fromkeys(found))

    def _bytes(self, source: Mem, target: Mem) -> str:
        """How many bytes are copied, where elements follow each other in both places; else an empty text."""
        if source.contiguous and target.contiguous:
            return str(numel(source.size) * SIZE[source.dtype])
        opened = [d for d, n in enumerate(source.size) if isinstance(n, Open)]
        if len(opened) != 1 or not source.packed or source.stride != target.stride:
            return ""
        (d,) = opened
        rest = numel(source.size[:d] + source.size[d + 1 :])
        if source.stride[d] != rest:
            return ""
        return self.code.multiply(self.sizes.text(source.size[d]), rest * SIZE[source.dtype])

    def copy(self, source: Operand, target: Mem) -> None:
        """Write all elements of ``source`` to ``target``, which does not overlap it."""
        if isinstance(source, Mem) and (nbytes := self._bytes(source, target)):
            self.code.declare("llvm.memmove.p0.p0.i64", "void {}(ptr, ptr, i64, i1)")
            self.code.line(f"call void @llvm.memmove.p0.p0.i64(ptr {target.pointer}, ptr {source.pointer}, i64 {nbytes}, i1 false)")  # fmt: skip
            self.work += 0.05 * (int(nbytes) if nbytes.isdigit() else numel(source.size[1:]))
            return
        if isinstance(source, Reg):
            self.code.store(source.dtype, source.text, target.pointer)
            return
        if isinstance(source, Mem) and transposes.fits(source, target):
            transposes.copy(self, source, target)
            return
        node = source.node if isinstance(source, Fill) else None
        if node is not None:
            self.sizes.note(node.outputs[0], source.size)
        if node is None:
            value = Value(TensorType(_DTYPES[source.dtype], source.size))
            node = Node("aten.clone.default", (value,), types=[value.type])
            self.env[value] = source
        kernel = self._kernel([node], node.outputs, {node.outputs[0]: target.stride})
        nests.call(self, kernel, Region([node], list(node.outputs)), [target])
        for v in node.inputs:
            self.env.pop(v, None) if v.node is None and isinstance(source, Mem) else None


def _alone(node: Node) -> Node:
    """A node that makes a tensor of numbers, without the tensor that it is like and the sizes: they may be gone when it is used."""
    made = Node(node.op, location=node.location)
    made.outputs = node.outputs
    return made


_FORMS = (ROWS, REDUCERS, CREATORS, GATHERS, PRODUCTS)
_DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


_PLANNED = (
    1 << 28
)  # bytes that a tensor whose size only the run knows may take in the plan of memory
_SILENT = frozenset(["tg.assign", "tg.assert", "tg.raise", "tg.print"])
_KNOWN = frozenset(["tg.read", "tg.identity", "tg.written", "tg.constant", "tg.choose", *_SILENT])


def _grows(v: Value) -> bool:
    """Whether a result leaves in a buffer: a list, or a tensor whose length only the run knows."""
    return lists.paired(v.type)


def _sweep(node: Node) -> Callable[[Lowering, Node], None] | None:
    """What writes a node whose positions only the data tell, or a call of torch."""
    if node.op in groups.SCATTERS:
        return scatters.lower
    if node.op in groups.COUNTS:
        return scatters.count
    if chosen.fits(node):
        return chosen.lower
    return None if groups.known(node) else calls.lower


def _needed(graph: Graph, groups: list[Group]) -> set[Value]:
    """The values that something outside of the group that makes them uses."""
    home = {v: i for i, group in enumerate(groups) for n in group.nodes for v in n.outputs}
    found = {
        v for i, group in enumerate(groups) for n in group.nodes for v in n.inputs
        if home.get(v, i) != i
    }  # fmt: skip
    return found | {v for v in graph.outputs if v in home}


def _last_uses(graph: Graph, parts: list[Group]) -> dict[int, list[Value]]:
    """The values made in ``graph`` whose last use is in a group, by the group's number."""
    made = {v for n in graph.nodes for v in n.outputs} - set(graph.outputs)
    last: dict[Value, int] = {}
    for i, group in enumerate(parts):
        for n in group.nodes:
            for v in (*n.inputs, *n.outputs):
                if v in made:
                    last[v] = i
    out: dict[int, list[Value]] = {}
    for v, i in last.items():
        out.setdefault(i, []).append(v)
    return out


__all__ = ["DECLINED", "DONE", "INTERRUPTED", "Lowering"]
