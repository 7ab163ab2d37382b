"""Ops that move elements to other places: joining, and functional updates of a part of a tensor.

Each writes its parts into the memory of its result. An update copies its base first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..graph.ir import Node
from ..inference.memory_formats import RANKS, suggests_channels_last
from ..kernels.loop_ir import LONGEST, bound
from ..kernels.planning import usual
from .callees import without_gaps
from .code import SIZE
from .extents import alone
from .groups import CAT, UPDATES
from .indices import index_of, slice_of
from .parts import Part
from .scalar_parts import cast
from .values import NO_OWNERS, Decline, Fill, Mem, Operand, Room, endless, in_a_row, laid_out, numel

if TYPE_CHECKING:
    from .lower import Lowering

COPIED = 1 << 18  # bytes that an update of a part may copy: the host program writes in place


def lower(low: Lowering, node: Node, needed: bool) -> None:
    """Write the node and bind its result; of an update that nothing needs only the checks."""
    out = node.outputs[0]
    if node.op in UPDATES and not needed:
        _CHECKS[node.op](low, node)
        return
    if node.op == CAT and None in out.type.shape:
        low.sizes.note(out, _joined_size(low, node))
    elif node.op == _STACK and None in out.type.shape:
        low.sizes.note(out, _stacked_size(low, node))
    elif node.op in UPDATES:
        low.sizes.note(out, low.operand(node.args[0]).size)
    low.bind(out, MOVES[node.op](low, node))
    low.parts.finish(node)


def place(low: Lowering, node: Node) -> Mem:
    """Where an update is made: where its base is if that may be, else in a copy of the base.

    What the update checks has to stand before.
    """
    base = low.operand(node.args[0])
    found = _base_place(low, node)
    if found is not None:
        return replace(found, dense=found.dense and base.dense)
    found = low.direct.update(node)
    if found is None:
        found = low.target(node.outputs[0])
        nbytes = math.prod(map(usual, found.size)) * SIZE[found.dtype]
        if nbytes > COPIED and not isinstance(base, Fill):  # which is written either way
            raise Decline(f"an update of a part that copies {nbytes} bytes")
        low.copy(base, found)
    # A part that is written keeps the gaps of what it is a part of.
    gaps = node.op in UPDATES and isinstance(base, Mem) and not base.open and not without_gaps(base.size, base.stride)  # fmt: skip
    return found if base.ordered and not gaps else replace(found, dense=in_a_row(found.size))


def _base_place(low: Lowering, node: Node) -> Mem | None:
    """The memory of an update's base, when the update may be made there."""
    if node not in low.overwrites or not isinstance(x := low.operand(node.args[0]), Mem):
        return None
    dest = low.dests.get(node.outputs[0])
    if dest is not None:
        if isinstance(dest, Room):
            return low.dests.pop(node.outputs[0]) and x if dest.place == x.place else None
        return low.dests.pop(node.outputs[0]) if dest.pointer == x.pointer else None
    return x if (x.contiguous or x.place) and alone(low, x) else None


def _part(low: Lowering, x: Mem, size, stride, offset: str) -> Mem:
    return Mem(low.code.element(x.dtype, x.pointer, offset), x.dtype, tuple(size), tuple(stride), x.owners)  # fmt: skip


def _stack(low: Lowering, node: Node) -> Mem:
    _stacked_size(low, node)
    out = low.target(node.outputs[0])
    d = (node.args[1] if len(node.args) > 1 else 0) % len(out.size)
    size, stride = out.size[:d] + out.size[d + 1 :], out.stride[:d] + out.stride[d + 1 :]
    for i, a in enumerate(node.args[0]):
        at = low.code.multiply(str(i), out.stride[d])
        low.copy(_as(low, low.operand(a), out.dtype), _part(low, out, size, stride, at))
    return _joined(low, node, out)


def _joined(low: Lowering, node: Node, out: Mem) -> Mem:
    """What ``out`` is when its parts are there: where all of them are images in the order of their pixels, so is eager PyTorch's tensor, and a padded one."""
    parts = [low.operand(a) for a in node.args[0]]
    images = len(out.size) in RANKS.values() or len(parts[0].size) in RANKS.values()
    turned = images and not all(x.ordered for x in parts) and all(map(_may_be_turned, parts))
    return replace(out, dense=in_a_row(out.size)) if turned else out


def _may_be_turned(x: Operand) -> bool:
    """Whether a part does not lie in a row in eager PyTorch, as far as it is known, or is a number that was padded with."""
    if isinstance(x, Mem) and x.dense and not x.open:
        return suggests_channels_last(x.size, x.stride)
    return isinstance(x, Fill) or not x.ordered


def _as(low: Lowering, x: Operand, dtype: str) -> Operand:
    """A part of a stack with its element of the result's dtype; of more elements, only what has that dtype."""
    if x.dtype == dtype or numel(x.size) != 1:
        return x
    one = low.register(x)
    return replace(one, text=cast(low.code, one.text, one.dtype, dtype), dtype=dtype)


def _stacked_size(low: Lowering, node: Node) -> tuple:
    """The size of a stack, whose tensors have one size; the code declines where only the run knows that they have not."""
    first, *rest = [low.operand(a).size for a in node.args[0]]
    for size in rest:
        for n, m in zip(first, size):
            low.sizes.require(n, m)
    d = (node.args[1] if len(node.args) > 1 else 0) % (len(first) + 1)
    return (*first[:d], len(node.args[0]), *first[d:])


def _joined_size(low: Lowering, node: Node) -> tuple:
    """The size of a concatenation with parts whose length is known only at run time."""
    sizes = [low.operand(a).size for a in node.args[0]]
    d = (node.args[1] if len(node.args) > 1 else 0) % len(sizes[0])
    total, most = "0", 0
    for size in sizes:
        total = low.code.add(total, low.sizes.text(size[d]))
        most += bound(size[d])
    return (*sizes[0][:d], low.sizes.new(total, min(most, LONGEST)), *sizes[0][d + 1 :])


def _longer(low: Lowering, node: Node, d: int) -> Mem | None:
    """The memory of the first part with room for all, when the others may be appended there."""
    base = low.operand(node.args[0][0])
    if node not in low.overwrites or not isinstance(base, Mem) or not base.place:
        return None
    v = node.outputs[0]
    dest = low.dests.get(v)
    if endless(base.size) != d or (dest.place != base.place if isinstance(dest, Room) else not alone(low, base)):  # fmt: skip
        return None
    low.dests.pop(v, None)
    dtype, size = low.tensor(v)
    item = numel(size[:d] + size[d + 1 :]) * SIZE[dtype]
    used, need = (low.code.multiply(low.sizes.text(n), item) for n in (base.size[d], size[d]))
    data = low.buffers.room(base.place, used, need, NO_OWNERS)
    return laid_out(data, dtype, size, base.owners, base.place)


def _cat(low: Lowering, node: Node) -> Mem:
    d = (node.args[1] if len(node.args) > 1 else 0) % len(low.tensor(node.outputs[0])[1])
    out = _longer(low, node, d)
    first, at = 0, "0"
    if out is not None:
        first, at = 1, low.sizes.text(low.operand(node.args[0][0]).size[d])
    out = out or low.parts.take(node) or low.target(node.outputs[0])
    for number, a in enumerate(node.args[0][first:], first):
        x = low.operand(a)
        if x.dtype != out.dtype or len(x.size) != len(out.size):
            raise Decline("a concatenation that converts")
        for i, (n, m) in enumerate(zip(x.size, out.size)):
            if i != d:
                low.sizes.require(n, m)
        if Part(node, number) not in low.parts.stored:
            low.copy(x, _part(low, out, x.size, out.stride, low.code.multiply(at, out.stride[d])))
        at = low.code.add(at, low.sizes.text(x.size[d]))
    return _joined(low, node, out)


def _selected(low: Lowering, node: Node) -> tuple[int, str]:
    """(the dim, the index in it) of the part that is updated."""
    base, _, d, at = node.args
    size = low.operand(base).size
    return d % len(size), index_of(low, at, size[d])


def _select_scatter(low: Lowering, node: Node) -> Mem:
    source = node.args[1]
    d, index = _selected(low, node)
    out = place(low, node)
    at = low.code.multiply(index, out.stride[d])
    size, stride = out.size[:d] + out.size[d + 1 :], out.stride[:d] + out.stride[d + 1 :]
    low.copy(low.operand(source), _part(low, out, size, stride, at))
    return out


def _sliced(low: Lowering, node: Node) -> tuple[int, str, int]:
    """(the dim, the first index, the step) of the part that is updated."""
    base, source = node.args[:2]
    d, start, stop, step = (*node.args[2:], *(0, None, None, 1)[len(node.args) - 2 :])
    full, x = low.operand(base).size, low.operand(source)
    d %= len(full)
    first, length = slice_of(low, full[d], start, stop, step)
    for i, (n, m) in enumerate(zip(x.size, full)):
        low.sizes.require(n, length if i == d else m)
    return d, first, step


def _slice_scatter(low: Lowering, node: Node) -> Mem:
    x = low.operand(node.args[1])
    d, first, step = _sliced(low, node)
    out = place(low, node)
    stride = (*out.stride[:d], out.stride[d] * step, *out.stride[d + 1 :])
    low.copy(x, _part(low, out, x.size, stride, low.code.multiply(first, out.stride[d])))
    return out


_STACK = "aten.stack.default"
_CHECKS = {"aten.select_scatter.default": _selected, "aten.slice_scatter.default": _sliced}
MOVES: dict[str, Callable[..., Mem]] = {
    "aten.stack.default": _stack,
    "aten.cat.default": _cat,
    "aten.select_scatter.default": _select_scatter,
    "aten.slice_scatter.default": _slice_scatter,
}
