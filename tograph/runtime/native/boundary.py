"""What a native function takes and gives: its slots, as ``lower`` describes them, as operands.

A list comes as its length and the addresses of what is in it, and so does a tensor one size of which only the run knows: as the
list of its parts. Results of these kinds leave in buffers of their own; the others are written to memory that the caller made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Node, Value
from ..graph.types import DTYPE_NAMES, STR, ListType, OptionalType, ScalarType, Type
from ..inference.memory_formats import channels_last, suggests_channels_last
from ..kernels.loop_ir import LONGEST
from . import extents, list_items, list_memory, text_code
from .code import SIZE
from .groups import one_element
from .values import (
    Listed,
    Mem,
    Noncontiguous,
    Operand,
    Reg,
    alike,
    laid_out,
    row_major,
    strides,
    with_alias,
)

if TYPE_CHECKING:
    from .lower import Lowering


def take(low: Lowering, i: int, v: Value) -> Operand:
    """The input ``v`` of a graph, number ``i``."""
    kind = v.type
    if isinstance(kind, ScalarType):
        dtype = DTYPE_NAMES[kind.dtype]
        return Reg(low.code.load(dtype, low.slot(i)), dtype)
    if list_items.listed(kind):
        return _list_input(low, i, kind)
    if extents.in_order(kind):
        return _wide_input(low, i, v)
    if _grows(v):
        return _long_input(low, i, v)
    dtype, size = low.tensor(v)
    pointer = low.code.do(f"load ptr, ptr {low.slot(i)}")
    if one_element(v):
        return Reg(low.code.load(dtype, pointer), dtype, size, "true")
    stride = low.layout.get(i, strides(size))
    return Mem(pointer, dtype, size, stride, low.direct.owners(v), alias="true")


def _list_input(low: Lowering, i: int, kind: Any) -> Listed:
    """A list: the slot points to its length and the addresses of what is in it."""
    code = low.code
    block = code.do(f"load ptr, ptr {low.slot(i)}")
    length, *pointers = (
        code.do(f"load {t}, ptr {code.do(f'getelementptr i64, ptr {block}, i64 {k}')}")
        for k, t in enumerate(["i64", *["ptr"] * list_items.depth(kind.element)])
    )
    owners = frozenset([low.arena.pin()])
    held = Reg("", "list", None, "true")
    return replace(list_memory.over(low, kind, tuple(pointers), length, held), owners=owners)


def _long_input(low: Lowering, i: int, v: Value) -> Mem:
    """A tensor whose length only the run knows: the slot points to the length and the address."""
    kind = list_items.part(v.type)
    parts = _list_input(low, i, ListType(kind))
    length = low.sizes.new(parts.length, LONGEST)
    size = tuple(length if n is None else n for n in v.type.shape)
    pointer = _somewhere(low, low.code.do(f"load ptr, ptr {parts.places[0]}"))
    return with_alias(laid_out(pointer, DTYPE_NAMES[kind.dtype], size, parts.owners), "true")


def _wide_input(low: Lowering, i: int, v: Value) -> Mem:
    """A tensor that lies row by row: the slot points to the sizes that only the run knows and the address."""
    code, kind = low.code, v.type
    block = code.do(f"load ptr, ptr {low.slot(i)}")
    size: list[Any] = [n if n is None else low.sizes.fixed(n) for n in kind.shape]
    dims = [d for d, n in enumerate(kind.shape) if n is None]
    for k, d in enumerate(dims):
        at = code.do(f"getelementptr i64, ptr {block}, i64 {k}")
        size[d] = low.sizes.new(code.do(f"load i64, ptr {at}"), LONGEST)
    pointer = code.do(
        f"load ptr, ptr {code.do(f'getelementptr i64, ptr {block}, i64 {len(dims)}')}"
    )
    owners, pointer = frozenset([low.arena.pin()]), _somewhere(low, pointer)
    made = Mem(pointer, DTYPE_NAMES[kind.dtype], tuple(size), row_major(size), owners, alias="true")
    return made if low.in_order or len(dims) > 1 else extents.in_buffer(low, dims[0], made)


def _somewhere(low: Lowering, pointer: str) -> str:
    """An address, or that of the temporaries where a tensor without elements has none: a loop nest may look before it sees that there is no row."""
    missing = low.code.do(f"icmp eq ptr {pointer}, null")
    return low.code.do(f"select i1 {missing}, ptr {low.base}, ptr {pointer}")


def place(low: Lowering, i: int, v: Value) -> Mem | None:
    """The caller's memory for output number ``i``; None where it leaves in a slot or in a buffer."""
    if one_element(v) or _grows(v):
        return None
    dtype, size = low.tensor(v)
    pointer = low.code.do(f"load ptr, ptr {low.slot(len(low.graph.inputs) + i)}")
    return Mem(pointer, dtype, size, strides(size))


def variable(low: Lowering, v: Value) -> Mem:
    """The memory of a variable that is written."""
    dtype, size = low.tensor(v)
    pointer = low.code.do(f"load ptr, ptr {low.slot(low.graph.inputs.index(v))}")
    return Mem(pointer, dtype, size, strides(size))


def deliver(low: Lowering, i: int, v: Value, x: Operand, dest: Mem | None) -> None:
    """Give ``x`` to the caller as output number ``i``. ``dest``: what ``place`` said."""
    place = low.slot(len(low.graph.inputs) + i)
    if isinstance(x, Listed):
        _hand_over(low, place, v, x)
    elif extents.in_order(v.type):
        lengths = [low.sizes.text(n) for n, m in zip(x.size, v.type.shape) if m is None]
        _tell(low, place, [*(("i64", n) for n in lengths), ("ptr", x.place)])
    elif v.type == STR:
        block = low.code.do(f"load ptr, ptr {place}")
        low.code.store("text", x.text, block)
        text_code.left(low, block, "1")
    elif isinstance(v.type, ScalarType):
        low.code.store(x.dtype, x.text, place)
    elif dest is None:
        low.code.store(x.dtype, low.register(x).text, low.code.do(f"load ptr, ptr {place}"))
    elif not isinstance(x, Mem) or (x.pointer, x.stride) != (dest.pointer, dest.stride):
        low.copy(x, dest)


def unexpected(low: Lowering, v: Value, x: Operand, results: dict[Value, Operand]) -> str:
    """Whether a result is a tensor of the caller's without an index that says so."""
    told = low.indices.get(v)
    if x.alias == "false" or told is None:
        return x.alias
    if not isinstance(x, (Reg, Mem)) or (isinstance(x, Mem) and x.open):
        return x.alias  # it leaves in a buffer
    if v in low.whole:
        return "false"
    code, own = low.code, "false"
    for index, numbers in told:
        at = low.register(results[index]).text
        for n in numbers:
            own = code.do(f"or i1 {own}, {code.do(f'icmp eq i64 {at}, {n}')}")
    return code.do(f"and i1 {x.alias}, {own}")


def require_contiguous(low: Lowering, results: list[Operand]) -> None:
    """Raise where eager PyTorch's results have other strides than the contiguous tensors of the caller."""
    given = {v: x for v, x in zip(low.graph.outputs, results) if v not in low.private}
    if any(_strided(low, v.type) for v in given):
        raise Noncontiguous({}, {})
    found = {v: x for v, x in given.items() if not (x.settled or _excused(x))}
    if found:
        orders = {v: order for v, x in found.items() if (order := x.order)}
        within = {v: size for v, x in found.items() if v not in orders and (size := x.within)}
        raise Noncontiguous(orders, within) if len(orders) + len(within) == len(found) else Noncontiguous({}, {})  # fmt: skip


def _excused(x: Operand) -> bool:
    """Whether a result is contiguous but where the host gives it, see ``unexpected``."""
    return isinstance(x, Mem) and x.excused and x.dense and x.contiguous


def _strided(low: Lowering, kind: Type) -> bool:
    """Whether values of a type are lists with items that are not contiguous in eager PyTorch."""
    if not isinstance(kind, (ListType, OptionalType)):
        return False
    return kind.element in low.strided or _strided(low, kind.element)


def _apart(low: Lowering, node: Node) -> Operand:
    """A result that is copied for its strides: where it is a view of an argument the host gives that."""
    x = low.operand(node.args[0])
    low.fail(x.alias)
    return with_alias(x, "false")


def _arranged(low: Lowering, node: Node) -> Operand:
    """A tensor in the memory format of another one: itself where it lies so."""
    x, like = (low.operand(v) for v in node.args)
    if not (isinstance(x, Mem) and isinstance(like, Mem)) or x.open or not (x.dense and like.dense):
        return x
    turned = suggests_channels_last(like.size, like.stride)
    stride = channels_last(x.size) if turned else strides(x.size)
    if alike(x.size, x.stride, stride):
        return x
    made = replace(low.new(x.dtype, x.size), stride=stride)
    low.copy(x, made)
    return made


RULES = {"tg.apart": _apart, "tg.arranged": _arranged}


def apart_from_each_other(low: Lowering, results: list[Operand]) -> list[Operand]:
    """The results, those that leave in buffers each in buffers of their own."""
    out, seen = [], set()
    for v, x in zip(low.graph.outputs, results):
        if extents.in_order(v.type):
            if not isinstance(x, Mem) or not x.place or not x.owners.isdisjoint(seen) or not alike(x.size, x.stride, row_major(x.size)):  # fmt: skip
                x = _in_buffer(low, x)
            seen |= x.owners
            low.arena.hold(x.owners)
        elif _grows(v) and v.type != STR:
            x = x if isinstance(x, Listed) else _rows(low, v, x)
            if x.fixed or x.begin != "0" or not x.owners.isdisjoint(seen) or len(x.owners) != len(x.places):  # fmt: skip
                x = list_memory.copied(low, x)
            seen |= x.owners
            low.arena.hold(x.owners)
        out.append(x)
    return out


def _in_buffer(low: Lowering, x: Operand) -> Mem:
    """A tensor row by row at the start of a buffer where nothing else is."""
    place, owner = low.buffers.new()
    owners = frozenset([owner])
    nbytes = low.code.multiply(low.sizes.elements(x.size), SIZE[x.dtype])
    data = low.buffers.room(place, "0", nbytes, owners)
    made = Mem(data, x.dtype, x.size, row_major(x.size), owners, place=place)
    low.copy(x, made)
    return replace(made, alias=x.alias)


def _rows(low: Lowering, v: Value, x: Operand) -> Listed:
    """A tensor one size of which only the run knows, as the list of its parts along that dimension."""
    d = extents.unknown(v.type)
    x = extents.in_buffer(low, d, x)
    length = low.sizes.text(x.size[d])
    return Listed(list_items.inside(v.type), (x.place,), "0", length, x.owners, x.alias)


def _hand_over(low: Lowering, place: str, v: Value, x: Listed) -> None:
    """Tell the caller the length of a list, and which buffers leave."""
    code = low.code
    if list_items.inside(v.type) == STR:
        text_code.left(low, code.do(f"load ptr, ptr {x.places[0]}"), x.length)
    _tell(low, place, [("i64", x.length), *(("ptr", p) for p in x.places)])


def _tell(low: Lowering, place: str, words: list[tuple[str, str]]) -> None:
    """Write the words of a result that leaves in buffers to the block that a slot points to."""
    code = low.code
    block = code.do(f"load ptr, ptr {place}")
    for k, (kind, text) in enumerate(words):
        code.line(f"store {kind} {text}, ptr {code.do(f'getelementptr i64, ptr {block}, i64 {k}')}")


def _grows(v: Value) -> bool:
    """Whether a result leaves in a block of its own: a text, a list, or a tensor whose length only the run knows."""
    return v.type == STR or list_items.paired(v.type)
