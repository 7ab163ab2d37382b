"""Ops that move elements to other places: joining, and functional updates of a part of a tensor.

Each writes its parts into the memory of its result. An update copies its base first.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir import Node
from .values import Decline, Mem
from .views import index_of


def lower(low, node: Node) -> None:
    """Write the node and bind its result."""
    target = low.target(node.outputs[0])
    MOVES[node.op](low, node, target)
    low.bind(node.outputs[0], target)


def _part(low, x: Mem, size, stride, offset: str) -> Mem:
    return Mem(low.code.element(x.dtype, x.pointer, offset), x.dtype, tuple(size), tuple(stride), x.owners)  # fmt: skip


def _stack(low, node: Node, out: Mem) -> None:
    d = (node.args[1] if len(node.args) > 1 else 0) % len(out.size)
    size, stride = out.size[:d] + out.size[d + 1 :], out.stride[:d] + out.stride[d + 1 :]
    for i, a in enumerate(node.args[0]):
        low.copy(low.operand(a), _part(low, out, size, stride, str(i * out.stride[d])))


def _cat(low, node: Node, out: Mem) -> None:
    d = (node.args[1] if len(node.args) > 1 else 0) % len(out.size)
    at = 0
    for a in node.args[0]:
        x = low.operand(a)
        if x.dtype != out.dtype or len(x.size) != len(out.size):
            raise Decline("a concatenation that converts")
        low.copy(x, _part(low, out, x.size, out.stride, str(at * out.stride[d])))
        at += x.size[d]


def _select_scatter(low, node: Node, out: Mem) -> None:
    base, source, d, at = node.args
    d %= len(out.size)
    place = low.code.multiply(index_of(low, at, out.size[d]), out.stride[d])
    low.copy(low.operand(base), out)
    size, stride = out.size[:d] + out.size[d + 1 :], out.stride[:d] + out.stride[d + 1 :]
    low.copy(low.operand(source), _part(low, out, size, stride, place))


def _slice_scatter(low, node: Node, out: Mem) -> None:
    base, source = node.args[:2]
    d, start, stop, step = (*node.args[2:], *(0, None, None, 1)[len(node.args) - 2 :])
    if not all(x is None or isinstance(x, int) for x in (start, stop, step)):
        raise Decline("a slice with bounds that are known only at run time")
    d %= len(out.size)
    n = out.size[d]
    start, _, step = slice(start, stop, step).indices(n)
    low.copy(low.operand(base), out)
    x = low.operand(source)
    stride = (*out.stride[:d], out.stride[d] * step, *out.stride[d + 1 :])
    low.copy(x, _part(low, out, x.size, stride, str(start * out.stride[d])))


def _copy(low, node: Node, out: Mem) -> None:
    x = low.operand(node.args[1])
    if x.size != out.size or x.dtype != out.dtype:
        raise Decline("a copy that converts")
    low.copy(x, out)


MOVES: dict[str, Callable] = {
    "aten.stack.default": _stack,
    "aten.cat.default": _cat,
    "aten.select_scatter.default": _select_scatter,
    "aten.slice_scatter.default": _slice_scatter,
    "aten.copy.default": _copy,
}
