"""Views of tensors in memory: the same elements with other sizes and strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Node, Value
from ..kernels.loop_ir import Open, bound
from . import complex_parts
from .code import REGISTER
from .indices import index_of, place_of, slice_of
from .reshapes import reshape
from .values import Decline, Fill, Mem, Operand, Reg, laid_out, numel, view_of

if TYPE_CHECKING:
    from .lower import Lowering


STRIDED = "aten.as_strided.default"


def lower(low: Lowering, node: Node) -> None:
    """Bind the outputs of a view node."""
    source = low.operand(node.args[0])
    for v, x in zip(node.outputs, VIEWS.get(node.op, _clone)(low, node, source)):
        shape = tuple(v.type.shape)
        if isinstance(x, Mem) and None not in shape and numel(shape) == 1 and x.dtype in REGISTER:
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


def _moved(low: Lowering, x: Mem, offset: str) -> str:
    return low.code.element(x.dtype, x.pointer, offset)


def _permute(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    rank = len(x.size)
    if isinstance(x, Reg) or not rank:
        return [x]
    if node.op == "aten.permute.default":
        order = [d % rank for d in node.args[1]]
    else:
        order = list(range(rank))
        a, b = (node.args[1] % rank, node.args[2] % rank) if len(node.args) > 1 else (0, rank - 1)
        order[a], order[b] = order[b], order[a]
    x = low.memory(x)
    return [view_of(x, [x.size[d] for d in order], [x.stride[d] for d in order])]


def _unsqueeze(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    if isinstance(x, Reg):
        return [x]
    x = low.memory(x)
    d = node.args[1] % (len(x.size) + 1)
    step = bound(x.size[d]) * x.stride[d] if d < len(x.size) else 1
    return [view_of(x, (*x.size[:d], 1, *x.size[d:]), (*x.stride[:d], step, *x.stride[d:]))]


def _squeeze(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    if isinstance(x, Reg):
        return [x]
    x = low.memory(x)
    rank = len(x.size)
    given = node.args[1] if len(node.args) > 1 else list(range(rank))
    dims = {d % max(rank, 1) for d in (given if isinstance(given, (list, tuple)) else [given])}
    kept = [d for d in range(rank) if not (d in dims and x.size[d] == 1)]
    return [view_of(x, [x.size[d] for d in kept], [x.stride[d] for d in kept])]


def _expand(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    shape, given = tuple(node.outputs[0].type.shape), node.args[1]
    x = low.memory(x)
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
    return [view_of(x, size, stride)]


def _select(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    x = low.memory(x)
    d = node.args[1] % len(x.size)
    at = low.code.multiply(index_of(low, node.args[2], x.size[d]), x.stride[d])
    made = view_of(x, x.size[:d] + x.size[d + 1 :], x.stride[:d] + x.stride[d + 1 :], _moved(low, x, at))  # fmt: skip
    first = x.lead is not None and x.stride[d] >= x.lead[0]
    return [replace(made, gaps=x.gaps or (first and _inside(x, d)))]


def _slice(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    x = low.memory(x)
    args = list(node.args[1:]) + [0, None, None, 1][len(node.args) - 1 :]
    d = args[0] % len(x.size)
    start, length = _cut(low, node, x.size[d], d, *args[1:])
    pointer = _moved(low, x, low.code.multiply(start, x.stride[d]))
    size = (*x.size[:d], length, *x.size[d + 1 :])
    made = view_of(x, size, (*x.stride[:d], x.stride[d] * args[3], *x.stride[d + 1 :]), pointer)
    return [replace(made, gaps=x.gaps or (length != x.size[d] and _inside(x, d)))]


def _cut(low: Lowering, node: Node, n: Any, d: int, start: Any, stop: Any, step: Any) -> tuple[str, Any]:  # fmt: skip
    """(the first element, the number of elements) of a slice; its type may tell the second one."""
    length = node.outputs[0].type.shape[d]
    if length is None or not any(isinstance(a, Value) for a in (start, stop)) or not isinstance(step, int):  # fmt: skip
        return slice_of(low, n, start, stop, step)
    return place_of(low, n, 0 if start is None else start, length, step), low.sizes.fixed(length)


def _inside(x: Mem, d: int) -> bool:
    """Whether eager PyTorch's tensor has another dimension outside of this one."""
    steps = [x.step(s) for s, n in zip(x.stride, x.size) if bound(n) > 1]
    return any(s > x.step(x.stride[d]) for s in steps)


def _split(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    x = low.memory(x)
    d = (node.args[2] if len(node.args) > 2 else 0) % len(x.size)
    if isinstance(node.args[1], (list, tuple)) and any(v.type.shape[d] is None for v in node.outputs):  # fmt: skip
        return _split_by(low, x, d, node.args[1])
    _counted(x, d)
    out, start = [], 0
    for v in node.outputs:
        n = v.type.shape[d]
        if n is None:
            raise Decline("parts of sizes that are known only at run time")
        size = (*x.size[:d], low.sizes.fixed(n), *x.size[d + 1 :])
        made = view_of(
            x, size, x.stride, _moved(low, x, low.code.multiply(str(start), x.stride[d]))
        )
        out.append(replace(made, gaps=x.gaps or _inside(x, d)))
        start += n
    return out


def _split_by(low: Lowering, x: Mem, d: int, counts: Sequence[Any]) -> list[Operand]:
    """Parts of as many elements as the run says; they have to be all that there are."""
    code, whole = low.code, low.sizes.text(x.size[d])
    out, start = list[Operand](), "0"
    for n in counts:
        count = low.register(low.operand(n)).text
        low.fail(
            code.do(f"icmp ugt i64 {count}, {whole}")
        )  # no sum of these is too large for a word
        size = low.sizes.new(count, bound(x.size[d])) if isinstance(n, Value) else low.sizes.fixed(n)  # fmt: skip
        made = view_of(x, (*x.size[:d], size, *x.size[d + 1 :]), x.stride, _moved(low, x, code.multiply(start, x.stride[d])))  # fmt: skip
        out.append(replace(made, gaps=x.gaps or _inside(x, d)))
        start = code.add(start, count)
    low.fail(code.do(f"icmp ne i64 {start}, {whole}"))
    return out


def _counted(x: Mem, d: int) -> None:
    """A dimension that is cut into a number of parts must have a size that the graph knows."""
    if isinstance(x.size[d], Open):
        raise Decline("parts of a size that is known only at run time")


def _unbind(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    x = low.memory(x)
    d = (node.args[1] if len(node.args) > 1 else 0) % len(x.size)
    _counted(x, d)
    size, stride = x.size[:d] + x.size[d + 1 :], x.stride[:d] + x.stride[d + 1 :]
    return [
        view_of(x, size, stride, _moved(low, x, low.code.multiply(str(i), x.stride[d])))
        for i in range(x.size[d])
    ]


def _clone(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    """A copy that only reshapes look at: they copy themselves where it takes one."""
    if isinstance(x, Mem) and x.open and x.packed:
        return [laid_out(x.pointer, x.dtype, x.size, x.owners)]
    return [replace(x, alias="false", dense=x.contiguous) if isinstance(x, Mem) else x]


def _diagonal(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    x = low.memory(x)
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
    return [view_of(x, size, stride, _moved(low, x, str(start)))]


def _unfold(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    x = low.memory(x)
    if not x.size:  # a number is a row of one
        x = view_of(x, (1,), (1,))
    d, length, step = node.args[1] % len(x.size), *node.args[2:]
    if isinstance(x.size[d], Open) or not isinstance(length, int) or not isinstance(step, int):
        raise Decline("windows of a size that is known only at run time")
    size = (*x.size[:d], (x.size[d] - length) // step + 1, *x.size[d + 1 :], length)
    stride = (*x.stride[:d], x.stride[d] * step, *x.stride[d + 1 :], x.stride[d])
    return [view_of(x, size, stride)]


def of_memory(low: Lowering, node: Node) -> bool:
    """Whether ``as_strided`` shows elements of a tensor that lies in a row, and no others."""
    size, stride, offset = _strided(node)
    numbers, x = (*size, *stride, offset), low.operand(node.args[0])
    if not all(type(n) is int and n >= 0 for n in numbers) or 0 in size:
        return False
    last = offset + sum((n - 1) * s for n, s in zip(size, stride))
    return isinstance(x, (Mem, Fill)) and x.plain and last < numel(x.size)


def _strided(node: Node) -> tuple[Any, Any, Any]:
    size, stride, offset = (*node.args[1:], None)[:3]
    return size, stride, offset or 0


def _as_strided(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    size, stride, offset = _strided(node)
    x = low.memory(x)
    return [view_of(x, size, stride, _moved(low, x, str(offset)))]


def _same(low: Lowering, node: Node, x: Operand) -> list[Operand]:
    return [x]


Rule = Callable[..., list]
VIEWS: dict[str, Rule] = {
    "aten.view.default": reshape,
    "aten._unsafe_view.default": reshape,
    "aten.reshape.default": reshape,
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
    STRIDED: _as_strided,
    "aten.alias.default": _same,
    "aten.detach.default": _same,
    "aten.view_as_real.default": complex_parts.as_real,
}
