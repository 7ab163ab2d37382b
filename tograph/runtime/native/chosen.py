"""Ops that take the elements where a mask is true: their number is known only at run time, and is at most that of the mask.

One sweep over the mask writes what is taken one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from ..graph.ir import Node, Value
from ..kernels.loop_ir import Open, bound
from . import walks
from .values import Decline, Mem, Reg, numel

if TYPE_CHECKING:
    from .lower import Lowering

USUAL = 1 << 12  # elements of a mask where work is estimated

INDEX, SELECT, NONZERO = "aten.index.Tensor", "aten.masked_select.default", "aten.nonzero.default"


def fits(node: Node) -> bool:
    """Whether a node is one of these: indexing by one mask, in front or behind whole dims."""
    if node.op == INDEX:
        given = [i for i in node.args[1] if i is not None]
        return len(given) == 1 and is_mask(given[0])
    return node.op in (SELECT, NONZERO)


def is_mask(v: Value) -> bool:
    return v.type.dtype is torch.bool


def lower(low: Lowering, node: Node) -> None:
    v = node.outputs[0]
    low.dests.pop(v, None)
    low.bind(v, _nonzero(low, node) if node.op == NONZERO else _taken(low, node))


def _taken(low: Lowering, node: Node) -> Mem:
    x, mask, first = _operands(low, node)
    rank = len(mask.size)
    before, after = x.size[:first], x.size[first + rank :]
    for n, m in zip(x.size[first : first + rank], mask.size, strict=True):
        low.sizes.require(n, m)
    mask = walks.flat(low, mask)
    if before and isinstance(mask.size[0], Open) and mask.size[0].endless:
        raise Decline("a mask over inner dims whose size has no bound")
    place = low.new(x.dtype, (*before, _most(mask), *after))
    code = low.code
    cell = code.cell("i64")
    whole = numel((*before, *after)) == 1 and rank == 1
    with each(low, mask, cell, whole) as (i, k):
        index = unraveled(low, i, x.size[first : first + rank])
        with walks.over(low, (*before, *after)) as inner:
            lead, rest = inner[:first], inner[first:]
            source = walks.offset(code, [*lead, *index, *rest], x.stride)
            target = walks.offset(code, [*lead, k, *rest], place.stride)
            code.store(x.dtype, code.load(x.dtype, x.pointer, source), place.pointer, target)
    low.work += min(bound(mask.size[0]), USUAL) * (1 + numel(before) * numel(after) * 0.5)
    return _closed(low, mask, place, first, cell)


def _operands(low: Lowering, node: Node) -> tuple[Mem, Mem, int]:
    """(the tensor, the mask, the first dim that it is over)."""
    x = low.memory(low.operand(node.args[0]))
    if node.op == SELECT:
        mask, first = low.operand(node.args[1]), 0
        if mask.size != x.size:
            raise Decline("a mask that is broadcast")
    else:
        first = next(i for i, given in enumerate(node.args[1]) if given is not None)
        mask = low.operand(node.args[1][first])
    if not mask.size:
        raise Decline("a mask without dims")
    return x, low.memory(mask), first


def _nonzero(low: Lowering, node: Node) -> Mem:
    x = low.memory(low.operand(node.args[0]))
    rank = len(x.size)
    if not rank:
        raise Decline("the nonzero elements of a number")
    flat = walks.flat(low, x)
    place = low.new("i64", (_most(flat), rank))
    cell = low.code.cell("i64")
    with each(low, flat, cell, rank == 1) as (i, k):
        for d, at in enumerate(unraveled(low, i, x.size)):
            target = low.code.add(low.code.multiply(k, rank), str(d))
            low.code.store("i64", at, place.pointer, target)
    low.work += min(bound(flat.size[0]), USUAL) * (1 + rank)
    return _closed(low, flat, place, 0, cell)


def _most(mask: Mem) -> int | Open:
    """As many elements as there can be; a size of 1 would be a number."""
    n = mask.size[0]
    return n if isinstance(n, Open) else max(n, 2)


@contextmanager
def each(low: Lowering, mask: Mem, cell: str, cheap: bool = False) -> Iterator[tuple[str, str]]:
    """Around what is done with each element that is true: (its position, its number). ``cell`` counts them.

    What is ``cheap`` is done with all, those that are not true in the place of the next one: no processor foresees a mask.
    """
    code = low.code
    code.line(f"store i64 0, ptr {cell}")
    with walks.counted(code, low.sizes.text(mask.size[0])) as i:
        got = code.load(mask.dtype, mask.pointer, code.multiply(i, mask.stride[0]))
        truth = walks.truth(code, Reg(got, mask.dtype))
        with nullcontext() if cheap else walks.where(code, truth):
            number = code.do(f"load i64, ptr {cell}")
            yield i, number
            one = code.do(f"zext i1 {truth} to i64") if cheap else "1"
            code.line(f"store i64 {code.do(f'add nuw nsw i64 {number}, {one}')}, ptr {cell}")


def unraveled(low: Lowering, i: str, size: Sequence[int]) -> list[str]:
    """The index of element number ``i``."""
    code, out = low.code, []
    for n in map(low.sizes.text, reversed(size[1:])):
        out.append(code.do(f"urem i64 {i}, {n}"))
        i = code.do(f"udiv i64 {i}, {n}")
    return [i, *reversed(out)]


def _closed(low: Lowering, mask: Mem, place: Mem, d: int, cell: str) -> Mem:
    """The result, of as many as were counted in dim ``d``."""
    n = low.sizes.new(low.code.do(f"load i64, ptr {cell}"), bound(mask.size[0]))
    return replace(place, size=(*place.size[:d], n, *place.size[d + 1 :]))
