"""Views of tensors in memory: the same elements with other sizes and strides."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import Node, Value
from .code import literal
from .values import Decline, Mem, Operand, Reg, numel, strides


def lower(low, node: Node) -> None:
    """Bind the outputs of a view node."""
    source = low.operand(node.args[0])
    for v, x in zip(node.outputs, VIEWS[node.op](low, node, source)):
        size = tuple(v.type.shape)
        if isinstance(x, Mem) and numel(size) == 1:
            x = low.register(x)
        if isinstance(x, Reg):
            x = Reg(x.text, x.dtype, size, x.alias)
        if x.size != size:
            raise Decline(f"{node.op} of an unexpected size")
        low.bind(v, x)


def _mem(low, x: Operand) -> Mem:
    return low.memory(x)


def _make(x: Mem, size, stride, pointer: str | None = None) -> Mem:
    """A view of ``x``."""
    return Mem(pointer or x.pointer, x.dtype, tuple(size), tuple(stride), x.owners, x.dense, x.alias)  # fmt: skip


def _moved(low, x: Mem, offset: str) -> str:
    return low.code.element(x.dtype, x.pointer, offset)


def _reshape(low, node: Node, x: Operand) -> list[Operand]:
    size = tuple(node.outputs[0].type.shape)
    if isinstance(x, Reg) or numel(size) == 1:
        return [low.register(x)]
    x = _mem(low, x)
    if not x.contiguous:
        x = low.contiguous(x)
    return [_make(x, size, strides(size))]


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
    step = x.size[d] * x.stride[d] if d < len(x.size) else 1
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
    size = tuple(node.outputs[0].type.shape)
    x = _mem(low, x)
    lead = len(size) - len(x.size)
    stride = [0] * lead + [s if x.size[i] == size[lead + i] else 0 for i, s in enumerate(x.stride)]
    return [_make(x, size, stride)]


def index_of(low, at, n: int) -> str:
    """An index into a dim of ``n``, counted from the end when negative; out of range fails."""
    if isinstance(at, int):
        if not -n <= at < n:
            raise Decline("an index that is out of range")
        return str(at % n)
    text = low.numbers.number(low.register(low.operand(at)), "i64")
    code = low.code
    wrapped = code.do(f"add i64 {text}, {n}")
    text = code.do(f"select i1 {code.do(f'icmp slt i64 {text}, 0')}, i64 {wrapped}, i64 {text}")
    low.fail(code.do(f"icmp uge i64 {text}, {n}"))
    return text


def _select(low, node: Node, x: Operand) -> list[Operand]:
    x = _mem(low, x)
    d = node.args[1] % len(x.size)
    at = low.code.multiply(index_of(low, node.args[2], x.size[d]), x.stride[d])
    pointer = _moved(low, x, at)
    return [_make(x, x.size[:d] + x.size[d + 1 :], x.stride[:d] + x.stride[d + 1 :], pointer)]


def _slice(low, node: Node, x: Operand) -> list[Operand]:
    x = _mem(low, x)
    args = list(node.args[1:]) + [0, None, None, 1][len(node.args) - 1 :]
    d, start, step = args[0] % len(x.size), args[1], args[3]
    if isinstance(start, Value) or isinstance(step, Value):
        raise Decline("a slice with bounds that are known only at run time")
    n = x.size[d]
    start = 0 if start is None else min(max(start + n if start < 0 else start, 0), n)
    size = node.outputs[0].type.shape
    stride = (*x.stride[:d], x.stride[d] * step, *x.stride[d + 1 :])
    return [_make(x, size, stride, _moved(low, x, literal(start * x.stride[d], "i64")))]


def _split(low, node: Node, x: Operand) -> list[Operand]:
    x = _mem(low, x)
    d = (node.args[2] if len(node.args) > 2 else 0) % len(x.size)
    out, start = [], 0
    for v in node.outputs:
        size = tuple(v.type.shape)
        out.append(_make(x, size, x.stride, _moved(low, x, str(start * x.stride[d]))))
        start += size[d]
    return out


def _unbind(low, node: Node, x: Operand) -> list[Operand]:
    x = _mem(low, x)
    d = (node.args[1] if len(node.args) > 1 else 0) % len(x.size)
    size, stride = x.size[:d] + x.size[d + 1 :], x.stride[:d] + x.stride[d + 1 :]
    return [_make(x, size, stride, _moved(low, x, str(i * x.stride[d]))) for i in range(x.size[d])]


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
    "aten.unbind.int": _unbind,
    "aten.alias.default": _same,
    "aten.detach.default": _same,
}
