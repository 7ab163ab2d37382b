"""Ops that read elements at positions which a tensor of indices gives, and losses over class numbers: one row per op.

``GATHERS[op](builder, node, which, index)`` gives the element of output number ``which`` at an index. An index out of range
fails, as it does in eager PyTorch; only indexing with ``[]`` counts negative ones from the end. ``SOURCES[op]`` are the
arguments that are read at other places than the element's own, so that they have to be complete before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph.ir import Node, Value
from .elements import Elements, Reducer, argument, running
from .exprs import Term
from .loop_ir import Affine, Expr, Open, Unsupported
from .reductions import REDUCERS
from .turns import turned
from .views import ZERO, Index, broadcast

Gather = Callable[[Elements, Node, int, Index], Term]
GATHERS: dict[str, Gather] = {}
SOURCES: dict[str, tuple[int, ...]] = {}
# Those that cannot fail and read each operand a few times at most: a kernel with others costs less than one of its own.
PLACED = frozenset(f"aten.{n}" for n in ["roll.default", "copy.default", "fill.Scalar", "fill.Tensor", "nll_loss_backward.default", "nll_loss2d_backward.default", "huber_loss_backward.default",
    "smooth_l1_loss_backward.default", "mse_loss_backward.default", "tril.default", "triu.default", "flip.default", "diagonal_copy.default", "diag_embed.default",
    "slice_backward.default", "select_backward.default", "soft_margin_loss_backward.default", "_prelu_kernel_backward.default", "elu_backward.default",
    "log_sigmoid_forward.default", "log_sigmoid_backward.default"])  # fmt: skip


def row(op: str, *sources: int) -> Callable[[Gather], Gather]:
    def add(function: Gather) -> Gather:
        GATHERS[op], SOURCES[op] = function, sources
        return function

    return add


def _checked(b: Elements, position: Term, n: int | Open, wraps: bool = False) -> Term:
    """A position in a dim of ``n`` elements; any other fails."""
    position, size = position.cast("i64"), b.count(n) if isinstance(n, Open) else n
    if not wraps:
        position = (position < 0).where(size, position)
    return position.check_index(size)


def _kept(found: Term, *checked: Term) -> Term:
    """An element that was read at checked positions: the checks stay where it is the same at all of them (``torch.ones(3)[i]``)."""
    for position in checked:
        if not _needs(found.expr, position.expr):
            found = (position >= 0).where(found, found)
    return found


def _needs(whole: Expr, part: Expr) -> bool:
    """Whether an expression is computed from another one."""
    waiting, seen = [whole], {whole}
    while waiting:
        if part in seen:
            return True
        new = {e for e in waiting.pop().operands() if e not in seen}
        waiting.extend(new)
        seen |= new
    return part in seen


def located(position: Term) -> Affine:
    return Affine((), 0, ((position.expr, 1),))


def _index_tensor(b: Elements, value: Value, index: Index) -> Term:
    if b.dtype(value) not in ("i32", "i64"):
        raise Unsupported("an index that is not an integer")
    return b.at(value, index)


@row("aten.index_select.default", 0)
def _index_select(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, d, order = node.args
    size = b.size(x)
    if not size:
        raise Unsupported("a selection from a number")
    d %= len(size)
    place = _index_tensor(b, order, (index[d],) if b.size(order) else ())
    place = _checked(b, place, size[d])
    return _kept(b.at(x, (*index[:d], located(place), *index[d + 1 :])), place)


@row("aten.gather.default", 0)
def _gather(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, d, order = node.args[:3]
    size = b.size(x)
    if not size or len(b.size(order)) != len(size):
        raise Unsupported("a gather from a number")
    d %= len(size)
    place = _checked(b, _index_tensor(b, order, index), size[d])
    return _kept(b.at(x, (*index[:d], located(place), *index[d + 1 :])), place)


@row("aten.embedding.default", 0)
def _embedding(b: Elements, node: Node, which: int, index: Index) -> Term:
    weight, order = node.args[:2]
    place = _checked(b, _index_tensor(b, order, index[:-1]), b.size(weight)[0])
    return _kept(b.at(weight, (located(place), index[-1])), place)


@row("aten.index.Tensor", 0)
def _index(b: Elements, node: Node, which: int, index: Index) -> Term:
    """``x[i, :, j]``: the indexed dims become the broadcast dims of the indices, in the first one's place or in front."""
    x, orders = node.args
    size = b.size(x)
    dims = [d for d, i in enumerate(orders) if i is not None]
    if any(b.dtype(i) == "bool" for i in orders if i is not None):
        raise Unsupported("an index that is a mask")
    shared = max((len(b.size(orders[d])) for d in dims), default=0)
    together = dims == list(range(dims[0], dims[-1] + 1))
    first = dims[0] if together else 0
    inner, rest = index[first : first + shared], iter(index[:first] + index[first + shared :])
    place: list[Affine] = []
    checked: list[Term] = []
    for d, n in enumerate(size):
        if d in dims:
            found = _index_tensor(b, orders[d], broadcast(inner, b.size(orders[d])))
            checked.append(_checked(b, found, n, wraps=True))
            place.append(located(checked[-1]))
        else:
            place.append(next(rest))
    return _kept(b.at(x, tuple(place)), *checked)


@row("aten.roll.default", 0)
def _roll(b: Elements, node: Node, which: int, index: Index) -> Term:
    """The element that comes here when the dims are turned."""
    x, shifts = node.args[:2]
    dims, size = argument(node, 2, "dims") or [], b.size(x)
    if not dims and len(size) != 1:
        raise Unsupported("a roll of all elements in a row")
    turns = [0] * len(size)
    for shift, d in zip(shifts, dims or [0]):
        if not isinstance(shift, int) or not isinstance(size[d], int):
            raise Unsupported("a roll whose size only the run knows")
        turns[d] += shift
    place = list(index)
    for d, (turn, n) in enumerate(zip(turns, size)):
        if n and turn % n:
            place[d] = located(turned(b.maker.index(index[d]), turn % n, n))
    return b.at(x, tuple(place))


# ---- one tensor in the size and dtype of another


@row("aten.copy.default")
def _copied(b: Elements, node: Node, which: int, index: Index) -> Term:
    size, room = b.size(node.args[1]), b.size(node.args[0])
    more = any(m == 1 != n or (n != 1 and isinstance(n, int) and isinstance(m, int) and n != m) for n, m in zip(size[::-1], room[::-1]))  # fmt: skip
    if more or len(size) > len(room):
        raise Unsupported("a write of more elements than there is room for")
    return b.at(node.args[1], broadcast(index, size))


@row("aten.fill.Tensor")
@row("aten.fill.Scalar")
def _filled(b: Elements, node: Node, which: int, index: Index) -> Term:
    value = node.args[1]
    return b.at(value, ()) if isinstance(value, Value) else b.maker.const(value, b.dtype(node.outputs[0]))  # fmt: skip


# ---- negative log likelihood


def _target(b: Elements, target: Value, index: Index, ignored: int | Value, classes: int):
    """(the class at an index, whether it counts); a class that does not count reads as 0."""
    if isinstance(ignored, Value):
        raise Unsupported("a class to ignore that only the run knows")
    place = _index_tensor(b, target, index).cast("i64")
    counts = place != ignored
    return _checked(b, counts.where(place, 0), classes), counts


def _weight(b: Elements, weight: Value | None, place: Term, dtype: str) -> Term:
    if weight is None:
        return b.maker.const(1, dtype)
    return b.at(weight, (located(place),)).cast(dtype)


def _nll_dims(node: Node, rank: int) -> tuple[int, ...]:
    return tuple(range(rank)) if node.args[3] else ()


def _images(node: Node) -> bool:
    """Whether the classes are dim 1, before those of an image, and not the last dim."""
    return "nll_loss2d" in node.op


def _classes(b: Elements, node: Node, x: Value, target: Value, weight: Value | None) -> int:
    """How many there are. Torch raises for what is given where the sizes of images do not fit."""
    size = b.size(x)
    if not _images(node):
        if len(size) != len(b.size(target)) + 1:
            raise Unsupported("a loss over other dimensions")
        return size[-1]
    fits = len(size) == 4 and (size[0], *size[2:]) == tuple(b.size(target))
    known = all(type(n) is int for n in (*size, *b.size(target)))
    if not (fits and known) or (weight is not None and tuple(b.size(weight)) != (size[1],)):
        raise Unsupported("a loss over images of other sizes")
    return size[1]


def _nll_loss(b: Elements, node: Node, which: int, index: Index) -> Term:
    x, target, weight, reduction, ignored = node.args
    size, classes = b.size(target), _classes(b, node, x, target, weight)
    first = 1 if _images(node) else len(size)  # dims before the classes

    def parts(at: Index) -> tuple[Term, Term]:
        place, counts = _target(b, target, at, ignored, classes)
        likelihood = _kept(b.compute_at(x, (*at[:first], located(place), *at[first:])), place)
        w = _weight(b, weight, place, likelihood.dtype)
        return counts.where(-(w * likelihood), 0), counts.where(w, 0)

    if not reduction:
        return parts(index)[0]
    dims, wide = tuple(range(len(size))), running(b, node)
    at = tuple(ZERO for _ in size)
    total = b.fold("sum", at, dims, size, lambda i: parts(i)[1].cast(wide))
    if which == 1:
        return total
    loss = b.fold("sum", at, dims, size, lambda i: parts(i)[0].cast(wide))
    return loss / total if reduction == 1 else loss


LIKELIHOODS = ("aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default")
REDUCERS |= dict.fromkeys(LIKELIHOODS, Reducer(_nll_dims, _nll_loss, space=1))
SOURCES |= dict.fromkeys(LIKELIHOODS, (0,))


@row("aten.nll_loss2d_backward.default", 2, 3)
@row("aten.nll_loss_backward.default", 2, 3)
def _nll_loss_backward(b: Elements, node: Node, which: int, index: Index) -> Term:
    grad, x, target, weight, reduction, ignored, total = node.args
    d = 1 if _images(node) else len(index) - 1
    at, own = (*index[:d], *index[d + 1 :]), index[d]
    place, counts = _target(b, target, at, ignored, _classes(b, node, x, target, weight))
    g = b.compute_at(grad, broadcast(at, b.size(grad)))
    if reduction == 1:
        g = g / b.compute_at(total, ())
    here = counts & (place == b.maker.index(own))
    return here.where(-(_weight(b, weight, place, g.dtype) * g), 0)


def settled(value: Value) -> float | None:
    """What a one-element output always is: the weight of all classes counts only where a loss folds."""
    node = value.node
    if node is None or node.op not in LIKELIHOODS or node.args[3]:
        return None
    return 0.0 if value.index == 1 else None


def sources(node: Node) -> Sequence[Value]:
    """The operands of a node that are read at other places than its own."""
    return [a for i in SOURCES.get(node.op, ()) if isinstance(a := argument(node, i, ""), Value)]
