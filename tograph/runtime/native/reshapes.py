"""Views with another size: dims are grouped and cut anew, where the elements of neighbouring ones follow each other.

Where they do not, the view is of a copy. One size that only the run knows may become part of a larger dim, or be cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Node, Value
from ..kernels.loop_ir import LONGEST, Open
from .values import Decline, Mem, Operand, Reg, numel, row_major, view_of

if TYPE_CHECKING:
    from .lower import Lowering


def reshape(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    """The operand of a view node that shows ``x`` with another size."""
    shape = tuple(node.outputs[0].type.shape)
    if isinstance(x, Reg) or (None not in shape and numel(shape) == 1):
        return [low.register(x)]
    x = low.memory(x)
    _check_remaining(low, x, node.args[1])
    opened = [d for d, (n, m) in enumerate(zip(x.size, node.args[0].type.shape)) if m is None or isinstance(n, Open)]  # fmt: skip
    if _merges(x, opened, shape):
        return [_across(low, x, shape, node.args[1])]
    if shape.count(None) != len(opened):
        return [_anew(low, x, shape, node.args[1])]
    size = _new_size(low, [x.size[d] for d in opened], shape, node.args[1])
    found = _regrouped(x, size)
    if found is not None:
        return [view_of(x, size, found)]
    x = low.contiguous(x)
    found = _regrouped(x, size)
    if found is None:
        raise Decline("a view across a size that is known only at run time")
    return [view_of(x, size, found)]


def _check_remaining(low: Lowering, x: Mem, given: Sequence[Any]) -> None:
    """Of no elements -1 is an error, also where it follows from the sizes that the graph knows."""
    opened = any(isinstance(n, Open) for n in x.size)
    if opened and any(type(n) is int and n == -1 for n in given):
        low.fail(low.code.do(f"icmp eq i64 {low.sizes.elements(x.size)}, 0"))


def _merges(x: Mem, opened: Sequence[int], shape: tuple) -> bool:
    """Whether a view makes one dimension of an open one and others, or the other way round."""
    if len(opened) != 1 or shape.count(None) != 1:
        return False
    (d,), e = opened, shape.index(None)
    return numel(x.size[:d]) != numel(shape[:e]) or numel(x.size[d + 1 :]) != numel(shape[e + 1 :])


def _across(low: Lowering, x: Mem, shape: tuple, given: Sequence[Any]) -> Mem:
    """Such a view: of elements that follow each other in eager PyTorch's order, which takes a copy where they do not here."""
    code = low.code
    rest = numel(tuple(n for n in x.size if not isinstance(n, Open)))
    known = numel(tuple(n for n in shape if n is not None))
    opened: list[Any] = [n for n in x.size if isinstance(n, Open)]
    if not opened:
        size = tuple(rest // known if n is None else n for n in shape)
        if isinstance(given[shape.index(None)], Value):
            low.sizes.agree(rest // known, given[shape.index(None)])
        return view_of(low.contiguous(x), size, row_major(size))
    (n,) = opened
    flat = low.row_by_row(x)
    total = code.multiply(low.sizes.text(n), rest)
    count = code.do(f"udiv i64 {total}, {known}")
    low.fail(code.do(f"icmp ne i64 {code.multiply(count, known)}, {total}"))
    e = shape.index(None)
    if isinstance(given[e], Value):
        low.sizes.agree(low.sizes.new(count, LONGEST), given[e])
    m = low.sizes.new(count, LONGEST if n.endless else max(n.bound * rest // known, 2))
    size = tuple(m if k is None else k for k in shape)
    return replace(x, pointer=flat.pointer, size=size, stride=row_major(size), owners=flat.owners, lead=None, place="", gaps=False)  # fmt: skip


def _anew(low: Lowering, x: Mem, shape: tuple, given: Sequence[Any]) -> Mem:
    """A view of the elements in eager PyTorch's order, where the sizes of several dimensions are only the run's."""
    code = low.code
    flat, total = low.row_by_row(x), low.sizes.elements(x.size)
    size = [low.sizes.known(low.register(low.operand(m))) if n is None and isinstance(m, Value) else n for n, m in zip(shape, given)]  # fmt: skip
    if size.count(None) > 1:
        raise Decline("a view of several sizes that are known only at run time")
    if None in size:
        known = low.sizes.elements(tuple(n for n in size if n is not None))
        low.fail(code.do(f"icmp eq i64 {known}, 0"))
        count = code.do(f"udiv i64 {total}, {known}")
        size[size.index(None)] = low.sizes.new(count, LONGEST)
    low.fail(code.do(f"icmp ne i64 {low.sizes.elements(tuple(size))}, {total}"))
    return replace(x, pointer=flat.pointer, size=tuple(size), stride=row_major(size), owners=flat.owners, lead=None, place="", gaps=False)  # fmt: skip


def _new_size(low: Lowering, unknown: Sequence, shape: tuple, given: Sequence[Any]) -> tuple:
    """The size of a reshaped tensor: those that the graph does not know are those of the source, in order."""
    opened = iter(unknown)
    out: list[Any] = []
    for known, wanted in zip(shape, given, strict=True):
        n = known if known is not None else next(opened, None)
        if n is None:
            raise Decline("a view of a size that is known only at run time")
        if known is None and isinstance(wanted, Value):
            low.sizes.agree(n, wanted)
        out.append(n)
    rest = list(opened)
    if rest:
        # What the source has open and the result has not must be a number that the graph knows.
        raise Decline("a view of a size that is known only at run time")
    return tuple(out)


def _regrouped(x: Mem, size: Sequence) -> tuple[int, ...] | None:
    """The strides that show ``x`` with another size, or None where that takes a copy.

    Open sizes stay dims of their own; between them sizes are grouped where the elements of neighbouring dims follow each other.
    """
    olds, news = _segments(x.size, x.stride), _segments(size, size)
    if len(olds) != len(news) or any(numel([n for n, _ in a]) != numel([n for n, _ in b]) for a, b in zip(olds, news)):  # fmt: skip
        return None
    opened = [s for n, s in zip(x.size, x.stride) if isinstance(n, Open)]
    out: list[int] = []
    for place, (old, new) in enumerate(zip(olds, news)):
        found = _strides_of(old, [n for n, _ in new])
        if found is None:
            return None
        out += found + opened[place : place + 1]
    return tuple(out)


def _segments(size: Sequence, values: Sequence) -> list[list[tuple[int, int]]]:
    """The dims between open sizes, as (size, value)."""
    out: list[list[tuple[int, int]]] = [[]]
    for n, v in zip(size, values):
        if isinstance(n, Open):
            out.append([])
        else:
            out[-1].append((n, v))
    return out


def _strides_of(old: list[tuple[int, int]], new: list[int]) -> list[int] | None:
    """Strides for the sizes ``new`` of the elements that ``old`` (size, stride) describes, if there are such."""
    rest = [(n, s) for n, s in old if n != 1]
    out = [0] * len(new)
    at = len(new) - 1
    while rest:
        n, step = rest.pop()
        count, stride = n, step  # a run of dims whose elements follow each other
        while rest and rest[-1][1] == stride * n:
            n, stride = rest.pop()
            count *= n
        made = 1
        while made < count and at >= 0:
            out[at] = step * made
            made *= new[at]
            at -= 1
        if made != count:
            return None
    return [s if n != 1 else _packed_step(new, out, i) for i, (n, s) in enumerate(zip(new, out))]


def _packed_step(size: list[int], stride: list[int], i: int) -> int:
    """The stride of a dim of one element: what a packed tensor has."""
    return next((size[d] * stride[d] for d in range(i + 1, len(size)) if size[d] != 1), 1)
