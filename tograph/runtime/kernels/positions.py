"""Ops whose elements follow from where they are: turned and masked tensors, diagonals, and the gradients of views.

They are rows of ``gathers.GATHERS`` and ``creators.CREATORS``; a row reads its source at positions that it computes itself.
"""

from __future__ import annotations

from ..graph.ir import Node
from .creators import CREATORS
from .elements import Elements, argument
from .exprs import Term
from .gathers import located, row
from .loop_ir import Open, Unsupported
from .views import Index


def _known(*numbers: object) -> None:
    if not all(type(n) is int for n in numbers):
        raise Unsupported("a position that only the run knows")


def _side(b: Elements, index: Index, offset: int, kind: str) -> Term:
    """Whether an element of a matrix lies on or below a diagonal, above it, or on it."""
    distance = b.maker.index(index[-1]) - b.maker.index(index[-2])
    if kind == "tril":
        return distance <= offset
    return distance >= offset if kind == "triu" else distance == offset


@row("aten.triu.default")
@row("aten.tril.default")
def _triangle(b: Elements, node: Node, which: int, index: Index) -> Term:
    offset = argument(node, 1, "diagonal", 0)
    _known(offset)
    return _side(b, index, offset, node.op.split(".")[1]).where(b.at(node.args[0], index), 0)


@row("aten.flip.default", 0)
def _flip(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, dims = node.args
    size, place = b.size(x), list(index)
    for d in {d % len(size) for d in dims} if size else ():
        if isinstance(size[d], Open):
            raise Unsupported("a tensor turned round whose size only the run knows")
        place[d] = index[d].scaled(-1).shifted(size[d] - 1)
    return b.at(x, tuple(place))


@row("aten.diagonal_copy.default", 0)
def _diagonal(b: Elements, node: Node, which: int, index: Index) -> Term:
    x = node.args[0]
    offset, first, second = (argument(node, i, n, v) for i, n, v in ((1, "offset", 0), (2, "dim1", 0), (3, "dim2", 1)))  # fmt: skip
    rank = len(b.size(x))
    first, second = first % rank, second % rank
    rest = iter(index[:-1])
    along = {first: index[-1].shifted(max(-offset, 0)), second: index[-1].shifted(max(offset, 0))}
    return b.at(x, tuple(along[d] if d in along else next(rest) for d in range(rank)))


@row("aten.diag_embed.default", 0)
def _diag_embed(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, offset = node.args[0], argument(node, 1, "offset", 0)
    if len(node.args) > 2 or node.kwargs.keys() - {"offset"}:
        raise Unsupported("a diagonal over other dims")
    _known(offset)
    on = _side(b, index, offset, "on")
    place = b.maker.index(index[-1 if offset < 0 else -2])
    return on.where(b.at(x, (*index[:-2], located(on.where(place, 0)))), 0)


# ---- gradients of views: the part's gradient there, nothing elsewhere


@row("aten.slice_backward.default", 0)
def _slice_backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    grad, size, d, start, stop, step = node.args
    _known(d, start, stop, step)
    d %= len(size)
    _known(size[d])
    first, last, _ = slice(start, stop, step).indices(size[d])
    here = b.maker.index(index[d])
    inside = (here >= first) & (here < last)
    part = here - first
    if step != 1:
        inside = inside & (part.op("mod", b.maker.const(step, "i64")) == 0)
        part = part.op("floordiv", b.maker.const(step, "i64"))
    if last <= first:
        raise Unsupported("the gradient of an empty part")
    place = located(inside.where(part, 0))
    return inside.where(b.at(grad, (*index[:d], place, *index[d + 1 :])), 0)


@row("aten.select_backward.default", 0)
def _select_backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    grad, size, d, chosen = node.args
    _known(d)
    d %= len(size)
    _known(size[d])
    if type(chosen) is int:
        chosen = b.maker.const(chosen % size[d], "i64")
    else:
        chosen = b.at(chosen, ())
        chosen = (chosen < 0).where(chosen + size[d], chosen)
    return (b.maker.index(index[d]) == chosen).where(b.at(grad, (*index[:d], *index[d + 1 :])), 0)


def _eye(b: Elements, node: Node, index: Index) -> Term:
    return _side(b, index, 0, "on").where(b.maker.const(1, b.dtype(node.outputs[0])), 0)


CREATORS.update({"aten.eye.default": _eye, "aten.eye.m": _eye})
