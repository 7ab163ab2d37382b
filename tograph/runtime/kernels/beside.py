"""Tensors beside each other (``cat``, ``stack``) as parts of a GPU's kernels: each element asks every tensor for one, and takes that of its own.

That reads more than it has to, from places that are near, so it is for little data (``MOST``), of which a launch costs more. Native code for
CPUs moves blocks of memory instead.
"""

from __future__ import annotations

from collections.abc import Callable

from ..graph.ir import Node
from .elements import Elements, argument
from .exprs import Term
from .gathers import located
from .loop_ir import Open, Unsupported
from .views import Index

MOST = 1 << 18  # elements of a result
TENSORS = 16  # beside each other


def _cat(b: Elements, node: Node, index: Index) -> Term:
    tensors, d = node.args[0], argument(node, 1, "dim", 0) % len(index)
    sizes = [b.size(x) for x in tensors]
    if any(len(s) != len(index) or isinstance(s[d], Open) for s in sizes):
        raise Unsupported("tensors of other dims beside each other")
    place, start, found = b.maker.index(index[d]), sum(s[d] for s in sizes), None
    for x, size in zip(reversed(tensors), reversed(sizes)):
        end, start = start, start - size[d]
        if end > start:
            at = place - start
            inside = (at >= 0) & (at < size[d])
            own = b.at(x, (*index[:d], located(inside.where(at, 0)), *index[d + 1 :])).cast(b.dtype(node.outputs[0]))  # fmt: skip
            found = own if found is None else (place < end).where(own, found)
    if found is None:
        raise Unsupported("nothing beside each other")
    return found


def _stack(b: Elements, node: Node, index: Index) -> Term:
    tensors, d = node.args[0], argument(node, 1, "dim", 0) % len(index)
    place, rest = b.maker.index(index[d]), (*index[:d], *index[d + 1 :])
    *others, found = (b.at(x, rest).cast(b.dtype(node.outputs[0])) for x in tensors)
    for k, own in reversed([*enumerate(others)]):
        found = (place == k).where(own, found)
    return found


BESIDE: dict[str, Callable[[Elements, Node, Index], Term]] = {
    "aten.cat.default": _cat,
    "aten.stack.default": _stack,
}
