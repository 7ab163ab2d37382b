"""Complex tensors in memory: their parts are taken of them, and one is made of two parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..graph.ir import Node, Value, all_nodes
from .nests import VECTORS
from .values import Decline, Mem, Operand, Reg, numel, with_alias

if TYPE_CHECKING:
    from .lower import Lowering

PARTS = {"c64": "f32", "c128": "f64"}


def part(low: Lowering, node: Node) -> Operand:
    """The real or imaginary part of a tensor, copied."""
    x, k = low.operand(node.args[0]), node.args[1]
    if not isinstance(x, Mem):
        raise Decline("a complex number in a register")
    dtype = PARTS[x.dtype]
    pointer = low.code.element(dtype, x.pointer, str(k))
    if numel(x.size) == 1:
        return Reg(low.code.load(dtype, pointer), dtype, x.size, x.alias)
    if _stays(low, node.args[0], x):
        found = _as_parts(x, pointer, x.size, tuple(2 * s for s in x.stride))
        return replace(found, alias=x.alias, dense=x.plain)
    # Side by side, as what is computed of them is: in eager PyTorch there is one tensor, without gaps.
    made = low.new(dtype, x.size)
    low.copy(_as_parts(x, pointer, x.size, tuple(2 * s for s in x.stride)), made)
    return replace(made, alias=x.alias, dense=x.plain)


def _stays(low: Lowering, v: Value, x: Mem) -> bool:
    """Whether loop nests read parts where they are, by vectors: of what torch has given, or of an argument that nothing writes, once and not in each iteration of a loop."""
    if low.inside or not x.plain or numel(x.size) < VECTORS:
        return False
    if v.node is not None:
        return v.node.op.startswith("aten._fft")
    if v not in low.graph.inputs:
        return False
    return not any(n.op == "tg.assign" and n.args[0] is v for n in all_nodes(low.graph))


def as_real(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    """A complex tensor as one of real numbers with one dim more."""
    return [in_pairs(low.memory(x))]


def in_pairs(x: Mem) -> Mem:
    """The numbers of a complex tensor, in one dim more."""
    return _as_parts(x, x.pointer, (*x.size, 2), (*(2 * s for s in x.stride), 1))


def _as_parts(x: Mem, pointer: str, size: tuple, stride: tuple) -> Mem:
    if x.lead is not None:
        raise Decline("a complex tensor whose size is known only at run time")
    return replace(x, pointer=pointer, dtype=PARTS[x.dtype], size=size, stride=stride, place="")


def whole(low: Lowering, node: Node) -> Operand:
    """A complex tensor of two parts; it counts as what they are taken of."""
    parts = [low.operand(a) for a in node.args]
    made = low.target(node.outputs[0])
    dtype = PARTS[made.dtype]
    for k, x in enumerate(parts):
        pointer = low.code.element(dtype, made.pointer, str(k))
        low.copy(x, replace(_as_parts(made, pointer, made.size, tuple(2 * s for s in made.stride)), owners=made.owners))  # fmt: skip
    low.work += 0.1 * numel(made.size)
    a, b = (x.alias for x in parts)
    alias = a if b in (a, "false") else b if a == "false" else low.code.do(f"or i1 {a}, {b}")
    return replace(made, alias=alias, dense=made.dense and all(x.settled for x in parts))


def fresh(low: Lowering, node: Node) -> Operand:
    """A value that is no view of an argument."""
    return with_alias(low.operand(node.args[0]), "false")


RULES = {"tg.part": part, "tg.complex": whole, "tg.fresh": fresh}
