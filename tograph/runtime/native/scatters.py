"""Updates at positions that a tensor gives: one sweep over the positions, in order, as eager PyTorch makes it on a CPU.

They are made in the memory of their base where that may be (``moves.place``), else in a copy. Where two positions are the same the last
one counts, or they are added up in order. A position out of range fails, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..graph.ir import Node, Value
from ..graph.types import DTYPE_NAMES
from ..kernels.loop_ir import LONGEST, Open, bound
from . import calls, chosen, moves, walks
from .code import FLOATS, SIZE, literal
from .groups import SCATTERS, one_element
from .updates import Update
from .values import Decline, Fill, Mem, Operand, Reg, numel

if TYPE_CHECKING:
    from .lower import Lowering

PUT = "aten.index_put.default"
FOLDS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def lower(low: Lowering, node: Node) -> None:
    """Write the node, or a call of torch where it has another form."""
    out = node.outputs[0]
    try:
        sweep = None if one_element(out) else _sweep(low, node)
    except Decline:
        sweep = None
    if sweep is None:
        calls.lower(low, node)
        return
    low.sizes.note(out, low.operand(node.args[0]).size)
    place = moves.place(low, node)
    sweep(place)
    low.bind(out, place)


def _sweep(low: Lowering, node: Node) -> Callable[[Mem], None]:
    """What writes a node's updates into a place. Decline where it has no such form; nothing is written before that is known."""
    kind = DTYPE_NAMES[node.outputs[0].type.dtype]
    if kind in ("f16", "bf16"):
        raise Decline(f"a sweep over {kind}")
    return _FORMS[node.op](low, node, kind)


def _operand(low: Lowering, v: Value) -> Operand:
    """A value whose elements are looked at one by one: a tensor that is made of numbers where it is used is written out."""
    x = low.operand(v)
    return low.memory(x) if isinstance(x, Fill) and not one_element(v) else x


def _same(x: Operand, kind: str) -> Operand:
    if x.dtype != kind:
        raise Decline("an update that converts")
    return x


# ---- along one dim


def _along(low: Lowering, node: Node) -> tuple[int, Operand, Sequence[int]]:
    """(the dim, the positions, the size of the base)."""
    size = low.operand(node.args[0]).size
    if not size:
        raise Decline("an update of a number")
    return node.args[1] % len(size), _operand(low, node.args[2]), size


def _rows(low: Lowering, node: Node, kind: str) -> Callable[[Mem], None]:
    """``index_add``, ``index_copy``, ``index_fill``: whole rows at positions in one dim."""
    d, index, size = _along(low, node)
    given = node.args[3]
    source = _operand(low, given) if isinstance(given, Value) else Reg(literal(given, kind), kind)
    if len(index.size or ()) > 1 or node.kwargs.get("alpha", 1) != 1:
        raise Decline("rows in another form")
    count = index.size[0] if index.size else 1
    one = source.size is None or len(source.size) == 0
    if not one and (len(source.size) != len(size) or node.op == "aten.index_fill.int_Tensor"):
        raise Decline("rows in another form")
    update = Update(kind, "add" if "add" in node.op else None)
    _same(source, kind)

    def sweep(place: Mem) -> None:
        for e, n in enumerate(source.size or ()):
            low.sizes.require(n, count if e == d else size[e])
        with walks.over(low, (*size[:d], count)) as to:
            target = walks.position(low, index, to[d:] if index.size else [], size[d], False)
            update.row(low, place, source, [*to[:d], target], to, size[d + 1 :])
        low.work += bound(count) * numel(size) / max(bound(size[d]), 1)

    return sweep


def _elements(low: Lowering, node: Node, kind: str) -> Callable[[Mem], None]:
    """``scatter``, ``scatter_add``, ``scatter_reduce``: single elements at positions in one dim."""
    d, index, size = _along(low, node)
    given = node.args[3]
    source = _operand(low, given) if isinstance(given, Value) else Reg(literal(given, kind), kind)
    if index.size is None or len(index.size) != len(size):
        raise Decline("elements in another form")
    if isinstance(source, Mem) and len(source.size) != len(size):
        raise Decline("elements in another form")
    fits = list(zip(source.size or (), index.size))
    fits += [(n, index.size[e]) for e, n in enumerate(size) if e != d]
    asked = [(n, count) for n, count in fits if not _holds(n, count)]
    if not all(isinstance(n, Open) or isinstance(count, Open) for n, count in asked):
        raise Decline("elements in another form")
    how, fresh = _how(node)
    update = Update(kind, how)
    _same(source, kind)

    def sweep(place: Mem) -> None:
        for n, count in asked:
            text = low.sizes.text
            low.fail(low.code.do(f"icmp ugt i64 {text(count)}, {text(n)}"))
        for begins in (True, False) if fresh else (False,):
            with walks.over(low, index.size) as at:
                target = walks.position(low, index, at, size[d], False)
                there = walks.offset(low.code, [*at[:d], target, *at[d + 1 :]], place.stride)
                if begins:
                    low.code.store(kind, literal(_neutral(how, kind), kind), place.pointer, there)
                else:
                    update.one(low, place, there, _wide(low, source, at))
        low.work += numel(index.size)

    return sweep


def _holds(size: Any, count: Any) -> bool:
    """Whether a dim surely has so many elements."""
    return size == count or (isinstance(size, int) and isinstance(count, int) and size >= count)


def _wide(low: Lowering, source: Operand, at: Sequence[str]) -> str:
    """An element of a source that may be larger than the positions: a size of 1 is not repeated."""
    if not isinstance(source, Mem):
        return low.register(source).text
    return low.code.load(source.dtype, source.pointer, walks.offset(low.code, at, source.stride))


def _how(node: Node) -> tuple[str | None, bool]:
    """(the fold, whether what was there does not count)."""
    if node.op == "aten.scatter_add.default":
        return "add", False
    if node.op == "aten.scatter_reduce.two":
        if node.args[4] not in FOLDS:
            raise Decline(f"a fold by {node.args[4]}")
        return FOLDS[node.args[4]], not node.kwargs.get("include_self", True)
    return None, False


def _neutral(how: str | None, kind: str) -> float:
    if how in ("add", "mul"):
        return 0 if how == "add" else 1
    if kind in FLOATS:
        return float("-inf") if how == "max" else float("inf")
    bits = 8 * SIZE[kind]
    low, high = (0, 2**bits - 1) if kind == "u8" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return low if how == "max" else high


# ---- by [] = ...


def _put(low: Lowering, node: Node, kind: str) -> Callable[[Mem], None]:
    base, orders, given = node.args[:3]
    adds = node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate", False)
    update = Update(kind, "add" if adds else None)
    size, source = low.operand(base).size, _same(_operand(low, given), kind)
    dims = [d for d, i in enumerate(orders) if i is not None]
    if not size or not dims or dims != list(range(dims[0], dims[-1] + 1)):
        raise Decline("an update in another form")
    if any(chosen.is_mask(orders[d]) for d in dims):
        return _masked(low, [orders[d] for d in dims], dims[0], size, source, update)
    return _placed(low, [_operand(low, orders[d]) for d in dims], dims[0], size, source, update)


def _placed(low: Lowering, orders: list[Operand], first: int, size: Any, source: Operand, update: Update) -> Callable[[Mem], None]:  # fmt: skip
    """At positions in some dims that follow each other."""
    shared = low.sizes._broadcast([o.size or () for o in orders])
    last = first + len(orders)
    space = (*size[:first], *shared, *size[last:])
    _broadcasts(source, space)

    def sweep(place: Mem) -> None:
        _agree(low, source, space)
        with walks.over(low, space[: first + len(shared)]) as at:
            inner = at[first:]
            found = [
                walks.position(
                    low, o, inner[len(shared) - len(o.size or ()) :], size[first + e], True
                )
                for e, o in enumerate(orders)
            ]
            update.row(low, place, source, [*at[:first], *found], at, size[last:])
        low.work += numel(space)

    return sweep


def _masked(low: Lowering, orders: list[Value], first: int, size: Any, source: Operand, update: Update) -> Callable[[Mem], None]:  # fmt: skip
    """Where a mask is true: a value for each, or one for all."""
    mask = _operand(low, orders[0])
    if len(orders) > 1 or first or not isinstance(mask, Mem):
        raise Decline("an update by masks in another form")
    rank = len(mask.size)
    rest = size[rank:]
    many = isinstance(source, Mem) and len(source.size) == 1 + len(rest) and source.size[0] != 1
    _broadcasts(source, (source.size[0] if many else 1, *rest))

    def sweep(place: Mem) -> None:
        for n, m in zip(size, mask.size):
            low.sizes.require(n, m)
        _agree(low, source, (source.size[0] if many else 1, *rest))
        cell, there = low.code.cell("i64"), walks.flat(low, mask)
        with chosen.each(low, there, cell) as (i, k):
            if many:
                low.fail(low.code.do(f"icmp uge i64 {k}, {low.sizes.text(source.size[0])}"))
            index = chosen.unraveled(low, i, size[:rank])
            update.row(low, place, source, index, [k], rest)
        if many:
            count = low.code.do(f"load i64, ptr {cell}")
            low.fail(low.code.do(f"icmp ne i64 {count}, {low.sizes.text(source.size[0])}"))
        low.work += min(bound(there.size[0]), chosen.USUAL) * (1 + numel(rest) * 0.5)

    return sweep


def _broadcasts(x: Operand, space: Sequence[int]) -> None:
    """Decline where a value has more dims than the places that it goes to."""
    if len(x.size or ()) > len(space):
        raise Decline("an update with more dims than its places")


def _agree(low: Lowering, x: Operand, space: Sequence[int]) -> None:
    size = x.size or ()
    for n, m in zip(size, space[len(space) - len(size) :]):
        if n != 1:
            low.sizes.require(n, m)


# ---- counts


def count(low: Lowering, node: Node) -> None:
    """``bincount``: as many places as the greatest number asks for, and at least ``minlength``."""
    x = _operand(low, node.args[0])
    weights = node.args[1] if len(node.args) > 1 else node.kwargs.get("weights")
    least = node.args[2] if len(node.args) > 2 else node.kwargs.get("minlength", 0)
    if (
        x.size is None
        or len(x.size) != 1
        or x.dtype not in ("i64", "i32")
        or isinstance(least, Value)
    ):
        raise Decline("a count in another form")
    code, kind = low.code, DTYPE_NAMES[node.outputs[0].type.dtype]
    source = Reg(literal(1, kind), kind) if weights is None else _same(_operand(low, weights), kind)
    if weights is not None:
        low.sizes.require((source.size or (1,))[0], x.size[0])
    length = low.sizes.known(Reg(_length(low, x, least), "i64"))
    low.dests.pop(node.outputs[0], None)
    place = low.new(kind, (length,))
    with walks.counted(code, low.sizes.text(length)) as i:
        code.store(kind, literal(0, kind), place.pointer, i)
    update = Update(kind, "add")
    with walks.counted(code, low.sizes.text(x.size[0])) as i:
        update.one(low, place, _number(low, x, i), walks.element(low, source, [i]))
    low.work += bound(x.size[0]) * 3
    low.bind(node.outputs[0], place)


def _length(low: Lowering, x: Operand, least: int) -> str:
    """One more than the greatest number, and at least ``least``; a negative one fails. One loop without a branch finds both: as unsigned
    numbers the negative ones are the greatest.
    """
    code, cell, count = low.code, low.code.cell("i64"), low.sizes.text(x.size[0])
    code.line(f"store i64 0, ptr {cell}")
    for kind in ("smax", "umax"):
        code.declare(f"llvm.{kind}.i64", "i64 {}(i64, i64)")
    with walks.counted(code, count) as i:
        n, most = _number(low, x, i), code.do(f"load i64, ptr {cell}")
        code.line(f"store i64 {code.do(f'call i64 @llvm.umax.i64(i64 {most}, i64 {n})')}, ptr {cell}")  # fmt: skip
    most = code.do(f"load i64, ptr {cell}")
    low.fail(code.do(f"icmp uge i64 {most}, {LONGEST}"))
    some = code.do(f"zext i1 {code.do(f'icmp sgt i64 {count}, 0')} to i64")
    return code.do(f"call i64 @llvm.smax.i64(i64 {code.do(f'add i64 {most}, {some}')}, i64 {least})")  # fmt: skip


def _number(low: Lowering, x: Operand, i: str) -> str:
    at = walks.element(low, x, [i])
    return low.code.do(f"sext i32 {at} to i64") if x.dtype == "i32" else at


_FORMS: dict[str, Callable[[Any, Node, str], Callable[[Mem], None]]] = {
    "aten.index_add.default": _rows,
    "aten.index_copy.default": _rows,
    "aten.index_fill.int_Scalar": _rows,
    "aten.scatter.src": _elements,
    "aten.scatter.value": _elements,
    "aten.scatter_add.default": _elements,
    "aten.scatter_reduce.two": _elements,
    PUT: _put,
}
assert _FORMS.keys() == SCATTERS
