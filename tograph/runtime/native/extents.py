"""Tensors in memory one size of which only the run knows: with that dimension laid out first, where they may grow.

Programs take and give them in eager PyTorch's order (``in_order``). Where nothing grows, temporaries lie so too (``all_in_order``): then nothing is
turned, and rows along that dimension are rows in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Graph, all_nodes, all_values
from ..graph.types import ListType, OptionalType, TensorType, Type
from ..kernels.loop_ir import LONGEST, Open
from .values import Decline, Mem, Operand, Room, endless, laid_out

if TYPE_CHECKING:
    from .lower import Lowering


def several(kind: Type) -> bool:
    """Whether only the run knows more than one size of a tensor of this type. Such a tensor lies in memory row by row."""
    return isinstance(kind, TensorType) and kind.shape.count(None) > 1


def in_order(kind: Type) -> bool:
    """Whether a program takes and gives tensors of this type with several words: sizes and a place, where these lie row by row.

    Only the run knows several sizes, or one behind dimensions of more than one element.
    """
    if not isinstance(kind, TensorType) or None not in kind.shape:
        return False
    return several(kind) or not set(kind.shape[: kind.shape.index(None)]) <= {1}


def all_in_order(graph: Graph) -> bool:
    """Whether no tensor of such a type is carried by a loop or an item of a list, where it may grow."""
    if any(_holds(v.type) for v in all_values(graph)):
        return False
    loops = [r for n in all_nodes(graph) if n.op != "If" for r in n.regions.values()]
    return not any(in_order(v.type) for r in loops for v in all_values(r))


def _holds(kind: Type) -> bool:
    """Whether values of a type hold such a tensor."""
    return isinstance(kind, (ListType, OptionalType)) and (
        in_order(kind.element) or _holds(kind.element)
    )


def unknown(kind: TensorType) -> int:
    """The one dimension of such a tensor whose size only the run knows."""
    if kind.shape.count(None) != 1:
        raise Decline(f"a value of type {kind}")
    return kind.shape.index(None)


def unbounded(low: Lowering, size: Sequence[Any], d: int) -> tuple:
    """``size`` without a bound in dimension ``d``."""
    n = size[d]
    if not (isinstance(n, Open) and n.endless):
        n = low.sizes.new(low.sizes.text(n), LONGEST)
    return (*size[:d], n, *size[d + 1 :])


def in_buffer(low: Lowering, d: int, x: Operand) -> Mem:
    """``x``, whose size ``d`` only the run knows, at the start of a buffer."""
    if isinstance(x, Mem) and x.place and endless(x.size) == d:
        return x
    place, owner = low.buffers.new()
    return replace(low.moved(x, Room(place, frozenset([owner]), d)), alias=x.alias)


def where_it_is(low: Lowering, d: int, x: Operand) -> Mem:
    """``x`` in memory laid out for a dimension ``d`` without a bound."""
    if isinstance(x, Mem):
        size = unbounded(low, x.size, d)
        made = laid_out(x.pointer, x.dtype, size, x.owners)
        if all(s == t or n == 1 for n, s, t in zip(size, x.stride, made.stride)):
            return replace(made, dense=x.dense, alias=x.alias, gaps=x.gaps)
    return in_buffer(low, d, x)


def alone(low: Lowering, x: Mem) -> bool:
    """Whether nothing but one name stands for what is in a buffer."""
    return bool(x.owners) and all(low.arena.holders(o) == 1 for o in x.owners)
