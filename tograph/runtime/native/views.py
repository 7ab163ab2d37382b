"""Views of tensors in memory: the same elements with other sizes and strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..ir import Node, Value
from ..kernels.loop_ir import LONGEST, Open, bound
from .values import Decline, Mem, Operand, Reg, alike, laid_out, numel, row_major

LAST = (1 << 63) - 1  # the end of a slice that has none


def lower(low, node: Node) -> None:
    """Bind the outputs of a view node."""
    source = low.operand(node.args[0])
    for v, x in zip(node.outputs, VIEWS.get(node.op, _clone)(low, node, source)):
        shape = tuple(v.type.shape)
        if isinstance(x, Mem) and None not in shape and numel(shape) == 1:
            x = low.register(x)
        if isinstance(x, Reg):
            x = Reg(x.text, x.dtype, tuple(n or 1 for n in shape), x.alias)
        if len(x.size) != len(shape):
            raise Decline(f"{node.op} of an unexpected size")
        for found, known in zip(x.size, shape):
            if known is not None:
                low.sizes.require(found, known)
        if isinstance(x, Mem) and None not in shape:
            x = replace(x, size=tuple(map(low.sizes.fixed, shape)))
        low.bind(v, x)


def _mem(low, x: Operand) -> Mem:
    return low.memory(x)


def _make(x: Mem, size, stride, pointer: str | None = None) -> Mem:
    """A view of ``x``."""
    return replace(x, pointer=pointer or x.pointer, size=tuple(size), stride=tuple(stride), place="")  # fmt: skip


def _moved(low, x: Mem, offset: str) -> str:
    return low.code.element(x.dtype, x.pointer, offset)


def _reshape(low, node: Node, x: Operand) -> list[Operand]:
    shape = tuple(node.outputs[0].type.shape)
    if isinstance(x, Reg) or (None not in shape and numel(shape) == 1):
        return [low.register(x)]
    x = _mem(low, x)
    opened = [d for d, (n, m) in enumerate(zip(x.size, node.args[0].type.shape)) if m is None or isinstance(n, Open)]  # fmt: skip
    if _merges(x, opened, shape):
        return [_across(low, x, shape, node.args[1])]
    size = _new_size(low, [x.size[d] for d in opened], shape, node.args[1])
    found = _regrouped(x, size)
    if found is not None:
        return [_make(x, size, found)]
    x = low.contiguous(x)
    found = _regrouped(x, size)
    if found is None:
        raise Decline("a view across a size that is known only at run time")
    return [_make(x, size, found)]


def _merges(x: Mem, opened: Sequence[int], shape: tuple) -> bool:
    """Whether a view makes one dimension of an open one and others, or the other way round."""
    if len(opened) != 1 or shape.count(None) != 1:
        return False
    (d,), e = opened, shape.index(None)
    return numel(x.size[:d]) != numel(shape[:e]) or numel(x.size[d + 1 :]) != numel(shape[e + 1 :])


def _across(low, x: Mem, shape: tuple, given: Sequence[Any]) -> Mem:
    """Such a view: of elements that follow each other in eager PyTorch's order, which takes a copy where they do not here."""
    code, row = low.code, row_major(x.size)
    rest = numel(tuple(n for n in x.size if not isinstance(n, Open)))
    known = numel(tuple(n for n in shape if n is not None))
    opened = [n for n in x.size if isinstance(n, Open)]
    if not opened:
        size = tuple(rest // known if n is None else n for n in shape)
        if isinstance(given[shape.index(None)], Value):
            low.sizes.agree(rest // known, given[shape.index(None)])
        return _make(low.contiguous(x), size, row_major(size))
    (n,) = opened
    flat = x if alike(x.size, x.stride, row) else low.in_order(x, n, rest)
    total = code.multiply(low.sizes.text(n), rest)
    count = code.do(f"udiv i64 {total}, {known}")
    low.fail(code.do(f"icmp ne i64 {code.multiply(count, known)}, {total}"))
    e = shape.index(None)
    if isinstance(given[e], Value):
        low.sizes.agree(low.sizes.new(count, LONGEST), given[e])
    m = low.sizes.new(count, LONGEST if n.endless else max(n.bound * rest // known, 2))
    size = tuple(m if k is None else k for k in shape)
    return replace(x, pointer=flat.pointer, size=size, stride=row_major(size), owners=flat.owners, lead=None, place="", gaps=False)  # fmt: skip


def _new_size(low, unknown: Sequence, shape: tuple, given: Sequence[Any]) -> tuple:
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


def _permute(low, node: Node, x: Operand) -> list[Operand]:
    rank = len(x.size)
    if node.op == "aten.permute.default":
        order = [d % rank for d in node.args[1]]
    else:
        order = list(range(rank))
        a, b = (node.args[1] % rank, node.args[2] % rank) if len(node.args) > 1 else (0, rank - 1)
        if rank:
            order[a], order[b] = order[b], order[a]
    if isinstance(x, Reg):
        return [x]
    x = _mem(low, x)
    return [_make(x, [x.size[d] for d in order], [x.stride[d] for d in order])]


def _unsqueeze(low, node: Node, x: Operand) -> list[Operand]:
    if isinstance(x, Reg):
        return [x]
    x = _mem(low, x)
    d = node.args[1] % (len(x.size) + 1)
    step = bound(x.size[d]) * x.stride[d] if d < len(x.size) else 1
    return [_make(x, (*x.size[:d], 1, *x.size[d:]), (*x.stride[:d], step, *x.stride[d:]))]


def _squeeze(low, node: Node, x: Operand) -> list[Operand]:
    if isinstance(x, Reg):
        return [x]
    x = _mem(low, x)
    rank = len(x.size)
    given = node.args[1] if len(node.args) > 1 else list(range(rank))
    dims = {d % rank for d in (given if isinstance(given, (list, tuple)) else [given])}
    kept = [d for d in range(rank) if not (d in dims and x.size[d] == 1)]
    return [_make(x, [x.size[d] for d in kept], [x.stride[d] for d in kept])]


def _expand(low, node: Node, x: Operand) -> list[Operand]:
    shape, given = tuple(node.outputs[0].type.shape), node.args[1]
    x = _mem(low, x)
    lead = len(shape) - len(x.size)
    size: list[Any] = []
    stride: list[int] = []
    for d, (n, wanted) in enumerate(zip(shape, given, strict=True)):
        old = x.size[d - lead] if d >= lead else 1
        if old != 1 and isinstance(wanted, Value):
            low.sizes.agree(old, wanted)
        elif old != 1 and n is not None:
            low.sizes.require(old, n)
        elif n is None:
            n = old if isinstance(wanted, int) else low.sizes.known(low.register(low.operand(wanted)))  # fmt: skip
        size.append(low.sizes.fixed(n) if old == 1 else old)
        stride.append(x.stride[d - lead] if old != 1 else 0)
    return [_make(x, size, stride)]


def index_of(low, at, n: int | Open) -> str:
    """An index into a dim of ``n``, counted from the end when negative; out of range fails."""
    if isinstance(at, int) and not isinstance(n, Open):
        if not -n <= at < n:
            raise Decline("an index that is out of range")
        return str(at % n)
    count = low.sizes.text(n)
    given = low.numbers.number(low.register(low.operand(at)), "i64")
    if (given, count) in low.found:
        return low.found[given, count]
    code = low.code
    wrapped = code.do(f"add i64 {given}, {count}")
    text = code.do(f"select i1 {code.do(f'icmp slt i64 {given}, 0')}, i64 {wrapped}, i64 {given}")
    low.fail(code.do(f"icmp uge i64 {text}, {count}"))
    low.found[given, count] = text
    return text


def _select(low, node: Node, x: Operand) -> list[Operand]:
    x = _mem(low, x)
    d = node.args[1] % len(x.size)
    at = low.code.multiply(index_of(low, node.args[2], x.size[d]), x.stride[d])
    made = _make(x, x.size[:d] + x.size[d + 1 :], x.stride[:d] + x.stride[d + 1 :], _moved(low, x, at))  # fmt: skip
    first = x.lead is not None and x.stride[d] >= x.lead[0]
    return [replace(made, gaps=x.gaps or (first and _inside(x, d)))]


def _slice(low, node: Node, x: Operand) -> list[Operand]:
    x = _mem(low, x)
    args = list(node.args[1:]) + [0, None, None, 1][len(node.args) - 1 :]
    d = args[0] % len(x.size)
    start, length = slice_of(low, x.size[d], *args[1:])
    pointer = _moved(low, x, low.code.multiply(start, x.stride[d]))
    size = (*x.size[:d], length, *x.size[d + 1 :])
    made = _make(x, size, (*x.stride[:d], x.stride[d] * args[3], *x.stride[d + 1 :]), pointer)
    return [replace(made, gaps=x.gaps or (length != x.size[d] and _inside(x, d)))]


def _inside(x: Mem, d: int) -> bool:
    """Whether eager PyTorch's tensor has another dimension outside of this one."""
    steps = [x.step(s) for s, n in zip(x.stride, x.size) if bound(n) > 1]
    return any(s > x.step(x.stride[d]) for s in steps)


def slice_of(low, n: int | Open, start: Any, stop: Any, step: Any) -> tuple[str, int | Open]:
    """(the first element, the number of elements) of a slice of a dim of ``n``."""
    if isinstance(step, Value):
        raise Decline("a step that is known only at run time")
    start = 0 if start is None else start
    if not isinstance(n, Open) and not isinstance(start, Value) and not isinstance(stop, Value):
        first, last, _ = slice(start, stop, step).indices(n)
        return str(first), len(range(first, last, step))
    key = (
        n,
        *(low.register(low.operand(a)).text for a in (start, LAST if stop is None else stop)),
        step,
    )
    if key not in low.found:
        low.found[key] = _slice_of(low, n, start, LAST if stop is None else stop, step)
    return low.found[key]


def _slice_of(low, n: int | Open, start: Any, stop: Any, step: int) -> tuple[str, int | Open]:
    code = low.code
    first, last = _clamped(low, start, n), _clamped(low, stop, n)
    if first == "0" and step == 1 and isinstance(n, Open) and last == low.sizes.text(n):
        return first, n
    length = code.do(f"sub nsw i64 {last}, {first}")
    if first != "0":
        code.declare("llvm.smax.i64", "i64 {}(i64, i64)")
        length = code.do(f"call i64 @llvm.smax.i64(i64 {length}, i64 0)")
    if step != 1:
        length = code.do(f"udiv i64 {code.do(f'add nsw i64 {length}, {step - 1}')}, {step}")
    most = _most(n, start, stop, step)
    if most != 1:
        return first, low.sizes.new(length, most)
    # One element at the end of an open dimension: it is broadcast as one, and without it the host has the empty tensor.
    low.fail(code.do(f"icmp ne i64 {length}, 1"))
    return first, 1


def _most(n: int | Open, start: Any, stop: Any, step: int) -> int:
    """The most elements that a slice has: parts of a dimension without a bound have one where both ends are counted from one side."""
    first = start if type(start) is int else None
    end = stop if type(stop) is int else None
    found = [bound(n)]
    if first is not None and first < 0 and end == LAST:
        found.append(-first)
    elif first is not None and end is not None and (first < 0) == (end < 0):
        found.append(max(end - first, 0))
    elif end is not None and end >= 0:
        found.append(end)
    most = min(found)
    return most if most >= LONGEST else -(-most // step)


def _clamped(low, at: Any, n: int | Open) -> str:
    """A bound of a slice: counted from the end when negative, and then brought into 0..n."""
    if at == 0 and not isinstance(at, Value):
        return "0"
    if isinstance(at, int) and at > 0 and not isinstance(n, Open):
        return str(min(at, n))
    code, count = low.code, low.sizes.text(n)
    if isinstance(at, int) and at >= bound(n):
        return count
    text = low.numbers.number(low.register(low.operand(at)), "i64")
    wrapped = code.do(f"add i64 {text}, {count}")
    text = code.do(f"select i1 {code.do(f'icmp slt i64 {text}, 0')}, i64 {wrapped}, i64 {text}")
    for name, limit in (("smax", "0"), ("smin", count)):
        code.declare(f"llvm.{name}.i64", "i64 {}(i64, i64)")
        text = code.do(f"call i64 @llvm.{name}.i64(i64 {text}, i64 {limit})")
    return text


def _split(low, node: Node, x: Operand) -> list[Operand]:
    x = _mem(low, x)
    d = (node.args[2] if len(node.args) > 2 else 0) % len(x.size)
    _counted(x, d)
    out, start = [], 0
    for v in node.outputs:
        n = v.type.shape[d]
        size = (*x.size[:d], low.sizes.fixed(n), *x.size[d + 1 :])
        made = _make(x, size, x.stride, _moved(low, x, low.code.multiply(str(start), x.stride[d])))
        out.append(replace(made, gaps=x.gaps or _inside(x, d)))
        start += n
    return out


def _counted(x: Mem, d: int) -> None:
    """A dimension that is cut into a number of parts must have a size that the graph knows."""
    if isinstance(x.size[d], Open):
        raise Decline("parts of a size that is known only at run time")


def _unbind(low, node: Node, x: Operand) -> list[Operand]:
    x = _mem(low, x)
    d = (node.args[1] if len(node.args) > 1 else 0) % len(x.size)
    _counted(x, d)
    size, stride = x.size[:d] + x.size[d + 1 :], x.stride[:d] + x.stride[d + 1 :]
    return [
        _make(x, size, stride, _moved(low, x, low.code.multiply(str(i), x.stride[d])))
        for i in range(x.size[d])
    ]


def _clone(low, node: Node, x: Operand) -> list[Operand]:
    """A copy that only reshapes look at: they copy themselves where it takes one."""
    if isinstance(x, Mem) and x.open and x.packed:
        return [laid_out(x.pointer, x.dtype, x.size, x.owners)]
    return [replace(x, alias="false", dense=x.contiguous) if isinstance(x, Mem) else x]


def _diagonal(low, node: Node, x: Operand) -> list[Operand]:
    x = _mem(low, x)
    offset, a, b = (*node.args[1:], *(0, 0, 1)[len(node.args) - 1 :])
    rank = len(x.size)
    a, b = a % rank, b % rank
    rows, columns = x.size[a], x.size[b]
    if isinstance(rows, Open) or isinstance(columns, Open):
        raise Decline("a diagonal of a size that is known only at run time")
    down, right = max(-offset, 0), max(offset, 0)
    length = min(rows - down, columns - right)
    start = down * x.stride[a] + right * x.stride[b]
    kept = [d for d in range(rank) if d not in (a, b)]
    size = (*(x.size[d] for d in kept), length)
    stride = (*(x.stride[d] for d in kept), x.stride[a] + x.stride[b])
    return [_make(x, size, stride, _moved(low, x, str(start)))]


def _unfold(low, node: Node, x: Operand) -> list[Operand]:
    x = _mem(low, x)
    d, length, step = node.args[1] % len(x.size), *node.args[2:]
    if isinstance(x.size[d], Open) or not isinstance(length, int) or not isinstance(step, int):
        raise Decline("windows of a size that is known only at run time")
    size = (*x.size[:d], (x.size[d] - length) // step + 1, *x.size[d + 1 :], length)
    stride = (*x.stride[:d], x.stride[d] * step, *x.stride[d + 1 :], x.stride[d])
    return [_make(x, size, stride)]


def _same(low, node: Node, x: Operand) -> list[Operand]:
    return [x]


Rule = Callable[..., list]
VIEWS: dict[str, Rule] = {
    "aten.view.default": _reshape,
    "aten._unsafe_view.default": _reshape,
    "aten.reshape.default": _reshape,
    "aten.permute.default": _permute,
    "aten.transpose.int": _permute,
    "aten.t.default": _permute,
    "aten.unsqueeze.default": _unsqueeze,
    "aten.squeeze.default": _squeeze,
    "aten.squeeze.dim": _squeeze,
    "aten.squeeze.dims": _squeeze,
    "aten.expand.default": _expand,
    "aten.select.int": _select,
    "aten.slice.Tensor": _slice,
    "aten.split.Tensor": _split,
    "aten.split_with_sizes.default": _split,
    "aten.unsafe_split.Tensor": _split,
    "aten.unsafe_split_with_sizes.default": _split,
    "aten.unbind.int": _unbind,
    "aten.diagonal.default": _diagonal,
    "aten.unfold.default": _unfold,
    "aten.alias.default": _same,
    "aten.detach.default": _same,
}
