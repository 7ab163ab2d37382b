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
from functools import partial
from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.ordering import node_effects
from ..graph.types import ObjectType, ScalarType, Type
from ..kernels.jit import host
from . import (
    ahead,
    boundary,
    calls,
    chosen,
    complex_parts,
    control,
    draws,
    followed,
    groups,
    joined,
    lapack,
    list_items,
    lists,
    loop_nodes,
    matmul,
    moves,
    nests,
    recursion,
    scatters,
    sorting,
    straight,
    tall,
    telling,
    text_code,
    transposes,
)
from .callees import Call
from .code import UNROLLING
from .form import Layout
from .groups import Group
from .leaving import Indices
from .parts import Parts
from .storage import Storage
from .values import Decline, Listed, Mem, Operand, strides

DONE, DECLINED, INTERRUPTED = 0, 1, 2
ATTRIBUTES = """attributes #0 = {{ nounwind "prefer-vector-width"="{}" }}
attributes #1 = {{ nounwind memory(none) willreturn }}
!0 = distinct !{{!0, !1, !2}}
!1 = !{{!"llvm.loop.vectorize.enable", i1 false}}
!2 = !{{!"llvm.loop.unroll.disable"}}
{}"""
_SILENT = frozenset(["tg.assign", "tg.assert", "tg.raise", "tg.print"])
_KNOWN = frozenset(
    [
        *complex_parts.RULES,
        *recursion.RULES,
        *boundary.RULES,
        "tg.read",
        "tg.identity",
        "tg.written",
        calls.FILL,
        *calls.SEEDS,
        "tg.constant",
        "tg.choose",
        *_SILENT,
    ]
)


class Lowering(Storage):
    """Writes the function of one graph. ``functions``: the loop nests, each a function of its own."""

    def __init__(self, graph: Graph, in_place: bool = True, private: Collection[Value] = (), strided: Collection[Value | Type] = (),
                 layout: Layout = (), indices: Indices | None = None, in_order: bool = False):  # fmt: skip
        super().__init__(graph, in_place, in_order)
        self.private = frozenset(private)  # results that only other programs read
        self.indices = indices or {}  # results of which others tell whether they are the caller's
        self.layout = dict(layout)  # strides of inputs that are not contiguous
        self.strided = strided  # carried tensors that are not contiguous in eager PyTorch, and types of such items
        self.surprises: set[Value | Type] = set()  # others of which that is found while lowering
        self.kernels: list[nests.Nest] = []
        self.named: dict[str, str] = {}  # the functions of loop nests by their text
        self.calls: Counter[str] = Counter()  # and how often each is called
        self.asked: list[Call] = []  # what torch runs
        self.leaving = frozenset(graph.outputs)
        # Results that leave as torch made them: the number of the call, and of the result among those of the call.
        self.own: dict[Value, tuple[int, int]] = {}
        self.native_ops = 0
        self.rewrites = lists.changes(graph)
        self.used = groups.used(graph)
        self.joint: joined.Joint | None = None  # the products that are being joined
        self.started: followed.Started | None = None  # the loop nest that threads ran last
        self.parts = Parts(self)
        self.inside = 0  # loops around what is being written
        self.callers: frozenset[str] = frozenset()  # pointers to the caller's memory for results
        self.moving: set[Value] = set()  # what the bodies of loops get anew in each iteration
        self.steps: dict[Node, int] = {}  # what takes items out of lists, one after the other
        self.coming: list[ahead.Item] = []  # the items that come next
        self.branching = False  # whether branches stay branches
        self.callees: dict[Any, str] = {}  # functions that call themselves, by name
        self.depth = "1"  # how many of their calls nest in the next one
        self.lowest = ""  # down to which address the stack may grow, in their code

    def run(self) -> str:
        """The text of the module."""
        code, graph = self.code, self.graph
        self.check(graph)
        self.base = code.do(f"load ptr, ptr {self.slot(len(graph.inputs) + len(graph.outputs))}")
        swept = code.later()
        for i, v in enumerate(graph.inputs):
            self.bind(v, boundary.take(self, i, v))
        places = {i: boundary.place(self, i, v) for i, v in enumerate(graph.outputs)}
        dests = {i: place for i, place in places.items() if place is not None}
        self.callers = frozenset(place.pointer for place in dests.values())
        results = self.region(graph, None, dests)
        boundary.require_contiguous(self, results)
        for v, x in zip(graph.outputs, results):
            if v not in self.private:
                self.fail(boundary.unexpected(self, v, x, dict(zip(graph.outputs, results))))
        results = boundary.apart_from_each_other(self, results)
        for i, (v, x) in enumerate(zip(graph.outputs, results)):
            if v not in self.own:
                boundary.deliver(self, i, v, x, dests.get(i))
        self._write_variables()
        if not calls.worth(self):
            op = self.asked[0].node.op
            raise Decline(f"{op} has no native form, and too few other ops have")
        code.fill(swept, "\n  ".join(filter(None, [self.buffers.sweep(), text_code.reset(self)])))
        code.line(self.buffers.sweep())
        code.line(text_code.reset(self))
        code.line(f"ret i32 {DONE}")
        code.label("declined")
        code.line(f"ret i32 {text_code.declined(self, DECLINED, INTERRUPTED)}")
        return self._module()

    def _write_variables(self) -> None:
        """Write what was assigned to variables; all that is read of them comes before the first write."""
        late = {v: x for v, x in self.written.items() if not self.direct.stands_in(v, x)}
        apart = {v: self.direct.apart(x) for v, x in late.items()}
        for v, x in apart.items():
            self.copy(x, boundary.variable(self, v))

    def _module(self) -> str:
        body = "\n".join(line for line in self.code.lines if line)
        head = f"define i32 @run(ptr noalias %params) #0 {{\n{body}\n}}\n"
        functions = nests.kept_apart(self.functions, self.calls)
        texts = [head, *functions, *self.globals.values()]
        attributes = ATTRIBUTES.format(8 * host().vector_bytes, UNROLLING)
        return "\n".join([*texts, *self.code.declares.values(), attributes])

    def check(self, graph: Graph) -> None:
        """Decline at the first value that native code cannot hold."""
        for v in graph.inputs:
            self._check_value(v)
        for node in graph.nodes:
            if not _known(node):
                raise Decline(f"{node.op} runs on the host")
            for v in node.outputs:
                if v in self.used:
                    self._check_value(v)
            for region in node.regions.values():
                self.check(region)

    def _check_value(self, v: Value) -> None:
        kind = v.type
        if list_items.listed(kind):
            list_items.depth(kind.element)
        elif isinstance(kind, (ScalarType, ObjectType)) or None in getattr(kind, "shape", ()):
            return  # sizes that only a run knows are looked at where they are made
        else:
            self.tensor(v)

    # ---- regions

    def region(
        self, graph: Graph, args: Sequence[Operand] | None, dests: dict[int, Mem]
    ) -> list[Operand]:
        """Write the nodes of ``graph``; its outputs, whose memory the caller must release."""
        for v, x in zip(graph.inputs, args or ()):
            self.bind(v, x)
        given = dict(zip(graph.inputs, args or ()))
        for i, v in enumerate(graph.outputs):
            free = i in dests and v not in self.dests and v.node is not None
            if free and (
                not isinstance(dests[i], Listed) or lists.may_take(graph, v, dests[i], given)
            ):
                self.dests[v] = dests[i]
        if args is None:
            self._through_views(graph)
        self._spread(graph)
        outside, self.found = self.found, dict(self.found)
        parts = groups.schedule(graph)
        last = _last_uses(graph, parts)
        needed = _needed(graph, parts)
        pushes = lists.pushes(graph)
        planned = self.parts.planned(graph, parts, set(pushes))
        shared = _shared(graph, parts, planned)
        for i, group in enumerate(parts):
            self.direct.enter(group, last.get(i, ()))
            for v in [v for n in group.nodes for v in n.outputs if v in pushes]:
                lists.make_room(self, v, pushes[v])
            self.parts.prepare(group, planned, shared)
            self.group(group, needed)
            self.parts.settle()
            for v in last.get(i, ()):
                self.unbind(v)
        self.found = outside
        results = [self.operand(v) for v in graph.outputs]
        for x in results:
            self.arena.hold(x.owners)
        for v in (*graph.outputs, *(graph.inputs if args is not None else ())):
            self.unbind(v)
        return results

    def _through_views(self, graph: Graph) -> None:
        """Where a result with another size goes there goes the tensor that it is taken of."""
        for v in dict.fromkeys(graph.outputs):
            dest = self.dests.get(v)
            while isinstance(dest, Mem) and v.node is not None and v.node.op in groups.RESHAPES:
                (base, *_) = v.node.args
                if (
                    base.node is None
                    or base in self.dests
                    or None in base.type.shape
                    or base.type.dtype != v.type.dtype
                ):
                    break
                del self.dests[v]
                size = tuple(base.type.shape)
                dest = self.dests[base] = replace(dest, size=size, stride=strides(size))
                v = base

    def _spread(self, graph: Graph) -> None:
        """Where an update goes there goes the update before it: both are made in one place."""
        found = groups.overwrites(graph)
        self.overwrites |= {v.node for v in found}
        self.updates |= found.keys()
        for v in reversed(found):
            base, dest = found[v][0], self.dests.get(v)
            if dest is not None and base in found:
                self.dests.setdefault(base, dest)

    def group(self, group: Group, needed: set[Value]) -> None:
        """Write the nodes of a group. ``needed``: what other groups read of it."""
        if group.kind == "loop":
            if not all(self.sizes.inferred(node) for node in group.nodes):
                self._one_by_one(group, needed)
                return
            self.native_ops += len(group.nodes)
            if len(group.nodes) == 1 and (
                matmul.column_sums(self, group.nodes[0]) or transposes.clone(self, group.nodes[0])
            ):
                return
            loop_nodes.lower(self, group.nodes, needed)
            return
        if group.kind == "products" and len(group.nodes) > 1 and joined.worth(group.nodes):
            self.native_ops += len(group.nodes)
            with joined.together(self):
                # Sums come last: products beside them tell which rows are zeros.
                for node in sorted(group.nodes, key=lambda n: n.op == joined.SUM):
                    self.alone(node, needed)
            return
        for node in group.nodes:
            self.native_ops += node.op.startswith("aten.")
            if group.kind != "scalar":
                self.alone(node, needed)
            else:
                straight.lower(self, node)

    def _one_by_one(self, group: Group, needed: set[Value]) -> None:
        """A loop nest one of whose nodes gives a tensor of a size that only the op tells."""
        if len(group.nodes) == 1:
            calls.lower(self, group.nodes[0])
            return
        for node in group.nodes:
            self.group(replace(group, nodes=[node]), needed | set(node.outputs))

    def alone(self, node: Node, needed: set[Value]) -> None:
        """A node that has a form of its own."""
        matmul.check(node)
        if node.regions:
            control.lower(self, node)
        elif node.op == "tg.raise":
            self.fail("true")
        elif node.op == "tg.print":
            telling.show(self, node)
        elif groups.on_lists(node):
            lists.lower(self, node)
        elif form := _sweep(node):
            form(self, node)
        elif node.op in moves.MOVES:
            moves.lower(self, node, not needed.isdisjoint(node.outputs))
        elif tall.fits(self, node):
            self.sizes.infer(node)
            matmul.either(self, node, True, partial(tall.lower, self, node))
        elif matmul.deep(self, node):
            self.sizes.infer(node)
            matmul.either(self, node, True, partial(matmul.lower, self, node))
        elif matmul.folds(node) or any(
            isinstance(x := self.operand(v), Mem) and x.open for v in node.inputs
        ):
            self.sizes.infer(node)
            matmul.either(self, node, False, partial(matmul.nest, self, node))
        else:
            self.sizes.infer(node)
            matmul.lower(self, node)


def _known(node: Node) -> bool:
    """Whether native code may have a form for an op; torch runs those of ``aten`` that have none."""
    other = node.op in _KNOWN or node.op in lists.RULES
    return other or bool(node.regions) or node.op.startswith(("aten.", "py."))


def _sweep(node: Node) -> Callable[[Lowering, Node], None] | None:
    """What writes a node whose positions only the data tell, that draws, a sum that runs with products, or a call of torch."""
    if groups.has_complex(node) or node.op in calls.SEEDS:
        return calls.lower
    if node.op in groups.SCATTERS:
        return scatters.lower
    if node.op in groups.COUNTS:
        return scatters.count
    if node.op == joined.SUM:
        return matmul.rows_summed
    if chosen.fits(node):
        return chosen.lower
    if node.op in draws.RULES:
        return draws.lower
    if node.op in lapack.RULES:
        return lapack.lower
    if node.op in sorting.OPS:
        return sorting.lower
    return None if groups.known(node) else calls.lower


def _shared(graph: Graph, parts: list[Group], planned: Collection[Value]) -> set[Value]:
    """The ``planned`` parts of concatenations that something else outside of their group needs, too."""
    home = {v: i for i, group in enumerate(parts) for n in group.nodes for v in n.outputs}
    found = set(graph.outputs)
    for i, group in enumerate(parts):
        for n in group.nodes:
            if n.op != groups.CAT:
                found.update(v for v in n.inputs if v in planned and home.get(v) != i)
    return found


def _needed(graph: Graph, parts: list[Group]) -> set[Value]:
    """The values that something outside of the group that makes them uses, and in loop nests those of nodes that may fail, of which nothing is used."""
    home = {v: i for i, group in enumerate(parts) for n in group.nodes for v in n.outputs}
    uses = [(v, i) for i, group in enumerate(parts) for n in group.nodes for v in n.inputs]
    found = {v for v, i in uses if home.get(v, i) != i} | {v for v in graph.outputs if v in home}
    used = {v for v, _ in uses} | found
    for node in (n for group in parts if group.kind == "loop" for n in group.nodes):
        if used.isdisjoint(node.outputs) and node_effects(node).may_fail:
            found.update(node.outputs[:1])
    return found


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
