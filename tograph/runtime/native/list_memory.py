"""Lists in memory that grows: items are copied in and read in place.

A list is a value: an op that changes one works on its buffers where the list is read no more afterwards (``groups.overwrites``) and
nothing else stands there (``own``), else on a copy. A pushed item is copied to the end; a popped one stays where it is, so the
next push would write over it: such items are copied out. Reading an item gives its place in the buffer, where pushes leave it: a
block that is outgrown stays until the call ends.

An item that is a list is a pair in the first buffer, (where its items begin, where they end); these follow each other in the buffers behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Value
from ..graph.types import DTYPE_NAMES, ListType, ScalarType, TensorType, Type
from ..kernels.loop_ir import LONGEST, Open
from . import list_functions, walks
from .code import Code
from .extents import unknown, where_it_is
from .list_items import depth, inside, item_bytes, paired
from .values import NO_OWNERS, Decline, Listed, Mem, Operand, Reg, laid_out, numel, strides

if TYPE_CHECKING:
    from .lower import Lowering


def fresh(low: Lowering, item: Type) -> Listed:
    """An empty list in buffers of its own, which the caller must hold."""
    made = [low.buffers.new() for _ in range(depth(item))]
    owners = frozenset(owner for _, owner in made)
    return Listed(item, tuple(place for place, _ in made), "0", "0", owners)


def nothing(low: Lowering, item: Type) -> Listed:
    """An empty list without memory."""
    low.globals["nothing"] = "@nothing = internal global [2 x i64] zeroinitializer\n"
    return Listed(item, ("@nothing",) * depth(item), "0", "0", fixed=True)


def over(
    low: Lowering, kind: ListType, pointers: tuple[str, ...], length: str, like: Operand
) -> Listed:
    """The list of the items at ``pointers``, memory that nothing here writes."""
    places = []
    for pointer in pointers:
        cell = low.code.cell("[2 x i64]")
        low.code.line(f"store ptr {pointer}, ptr {cell}")
        low.code.line(f"store i64 0, ptr {low.code.do(f'getelementptr i64, ptr {cell}, i64 1')}")
        places.append(cell)
    return Listed(kind.element, tuple(places), "0", length, like.owners, like.alias, True)


def address(low: Lowering, x: Listed, index: str) -> str:
    """Where an item is in the first buffer of its list; ``index`` counts in the buffer."""
    data = low.code.do(f"load ptr, ptr {x.places[0]}")
    return _offset(low.code, data, low.code.multiply(index, item_bytes(x.item)))


def bounds(low: Lowering, x: Listed, index: str) -> tuple[str, str]:
    """Where the items of an item begin and end."""
    at, code = address(low, x, index), low.code
    first = code.do(f"load i64, ptr {at}")
    return first, code.do(f"load i64, ptr {code.do(f'getelementptr i64, ptr {at}, i64 1')}")


def some(low: Lowering, count: str, given: Callable[[], tuple[str, ...]]) -> list[str]:
    """What ``given`` gives where ``count`` is not 0, else zeros."""
    code = low.code
    before, inside, after = code.block, code.fresh("some"), code.fresh("joined")
    code.branch(code.do(f"icmp sgt i64 {count}, 0"), inside, after)
    code.label(inside)
    found = given()
    end = code.block
    code.line(f"br label %{after}")
    code.label(after)
    return [code.phi("i64", ("0", before), (x, end)) for x in found]


def contents(low: Lowering, x: Listed) -> Listed:
    """All that is in the items of a list of lists, as one list."""
    code = low.code

    def span() -> tuple[str, str]:
        last = code.add(code.add(x.begin, x.length), "-1")
        return bounds(low, x, x.begin)[0], bounds(low, x, last)[1]

    first, end = some(low, x.length, span)
    length = code.do(f"sub i64 {end}, {first}")
    return Listed(inside(x.item), x.places[1:], first, length, x.owners, x.alias)


def same_size(low: Lowering, x: Listed) -> Open:
    """How many parts each tensor in a list has; the code declines where they differ, and where there is none."""
    code = low.code
    low.fail(code.do(f"icmp eq i64 {x.length}, 0"))
    first, end = bounds(low, x, x.begin)
    size = code.do(f"sub i64 {end}, {first}")
    with walks.counted(code, x.length) as i:
        first, end = bounds(low, x, code.add(x.begin, i))
        low.fail(code.do(f"icmp ne i64 {code.do(f'sub i64 {end}, {first}')}, {size}"))
    return low.sizes.new(size, LONGEST)


def append(low: Lowering, target: Listed, at: str, x: Listed) -> None:
    """Write the items of ``x`` to the buffers of another list, from the item ``at`` on, which is their end."""
    low.work += 100
    if paired(x.item):
        name = list_functions.append(low, x.item)
        call = f"call i1 @{name}({given(low, target)}, i64 {at}, {places(x)}, i64 {x.begin}, i64 {x.length})"
        low.fail(low.code.do(f"xor i1 {low.code.do(call)}, true"))
        return
    code, end = low.code, low.code.add(at, x.length)
    source = address(low, x, x.begin)
    place = reserve(low, target, at, end)
    code.declare("llvm.memmove.p0.p0.i64", "void {}(ptr, ptr, i64, i1)")
    nbytes = code.multiply(x.length, item_bytes(x.item))
    code.line(f"call void @llvm.memmove.p0.p0.i64(ptr {place}, ptr {source}, i64 {nbytes}, i1 false)")  # fmt: skip


def places(x: Listed) -> str:
    """The buffers of a list, as arguments of a function."""
    return ", ".join(f"ptr {place}" for place in x.places)


def given(low: Lowering, x: Listed) -> str:
    """What a function is given that writes a list: the table of buffers, whether blocks that are outgrown stay, and the buffers."""
    stays = "true" if low.buffers.stays(x.owners) else "false"
    return f"ptr {low.buffers.table()}, i1 {stays}, {places(x)}"


def one(low: Lowering, x: Listed, v: Listed) -> Listed:
    """A list like ``x``, of lists, that has one item."""
    code, pair, place = low.code, low.code.cell("[2 x i64]"), low.code.cell("[2 x i64]")
    code.line(f"store i64 {v.begin}, ptr {pair}")
    end = code.add(v.begin, v.length)
    code.line(f"store i64 {end}, ptr {_offset(code, pair, '8')}")
    code.line(f"store ptr {pair}, ptr {place}")
    return Listed(x.item, (place, *v.places), "0", "1", v.owners, v.alias)


def reserve(low: Lowering, x: Listed, at: str, end: str) -> str:
    """The address of the item ``at`` in the first buffer of a list, with room for the items up to ``end``."""
    code, size = low.code, item_bytes(x.item)
    used = code.multiply(at, size)
    data = low.buffers.room(x.places[0], used, code.multiply(end, size), x.owners)
    return _offset(code, data, used)


def _offset(code: Code, data: str, nbytes: str) -> str:
    return code.do(f"getelementptr i8, ptr {data}, i64 {nbytes}")


def copied(low: Lowering, x: Listed, target: Listed | None = None) -> Listed:
    """``x`` in buffers of its own, or in those of ``target``."""
    made = target or fresh(low, x.item)
    append(low, made if target is None else replace(made, owners=NO_OWNERS), "0", x)
    return replace(made, begin="0", length=x.length, alias=x.alias)


def own(low: Lowering, x: Listed, result: Value) -> Listed:
    """``x`` where ``result``, which is made from it, may change it."""
    dest = low.dests.pop(result, None)
    if dest is not None and dest.places == x.places:
        return replace(x, owners=dest.owners)
    alone = x.owners and all(low.arena.holders(o) == 1 for o in x.owners)
    if result in low.updates and alone and not x.fixed and dest is None:
        return x
    return copied(low, x, dest)


def _write(low: Lowering, x: Listed, index: str, v: Any) -> None:
    """Write an item of a list of tensors or numbers; ``index`` counts in the buffer."""
    place = reserve(low, x, index, low.code.add(index, "1"))
    put(low, x.item, low.operand(v), place)


def put(low: Lowering, item: Type, value: Operand, place: str) -> None:
    """Write a tensor or number where an item is."""
    dtype = DTYPE_NAMES[item.dtype]
    if value.dtype != dtype:
        raise Decline(f"a {value.dtype} in a list of {dtype}")
    expect(low, item, value)
    if isinstance(value, Reg):
        low.code.store(dtype, value.text, place)
        return
    shape = tuple(item.shape)
    if value.size != shape:
        raise Decline("an item whose size is known only at run time")
    low.copy(value, Mem(place, dtype, shape, strides(shape)))


def expect(low: Lowering, item: Type, value: Operand) -> None:
    """Note what becomes an item of this type, which lies in a row here: whether eager PyTorch's does."""
    if not value.settled and item not in low.strided:
        low.surprises.add(item)


def pushed(low: Lowering, x: Listed, v: Any) -> Listed:
    """``x``, whose memory may be changed, with ``v`` behind its last item."""
    code, value = low.code, as_item(low, x.item, low.operand(v))
    end = code.add(x.begin, x.length)
    if isinstance(value, Listed):
        if not paired(x.item):
            raise Decline("a list where a tensor belongs")
        append(low, x, end, one(low, x, value))
    else:
        _write(low, x, end, v)
    low.work += 5
    return replace(x, length=code.add(x.length, "1"), alias=either(code, x.alias, value.alias))


def as_item(low: Lowering, item: Type, x: Operand) -> Operand:
    """``x`` as an item of a type: a tensor of a size that only the run knows as the list of its parts."""
    if not isinstance(item, TensorType) or None not in item.shape or isinstance(x, Listed):
        return x
    if x.dtype != DTYPE_NAMES[item.dtype] or len(x.size or ()) != len(item.shape):
        raise Decline(f"a {x.dtype} in a list of {item}")
    d = unknown(item)
    for i, (n, m) in enumerate(zip(x.size, item.shape)):
        if i != d:
            low.sizes.require(n, m)
    expect(low, item, x)
    found = where_it_is(low, d, x)
    kind = ListType(inside(item))
    return over(low, kind, (found.pointer,), low.sizes.text(found.size[d]), found)


def _as_tensor(low: Lowering, x: Listed, kind: TensorType) -> Mem:
    """The tensor whose parts are the items of a list, where they are."""
    d, part = unknown(kind), tuple(x.item.shape)
    size = (*part[:d], low.sizes.new(x.length, LONGEST), *part[d:])
    pointer = address(low, x, x.begin)
    found = laid_out(pointer, DTYPE_NAMES[kind.dtype], size, x.owners)
    return replace(found, alias=x.alias, dense=kind not in low.strided)


def chosen(low: Lowering, number: str, options: Sequence[Listed]) -> Listed:
    """One of several lists, by its number, where it is."""
    found, *rest = options
    if any((x.item, x.fixed) != (found.item, found.fixed) for x in rest):
        raise Decline("a choice among lists of several kinds")
    for i, x in enumerate(rest, 1):
        here = low.code.do(f"icmp eq i64 {number}, {i}")

        def pick(kind: str, a: str, b: str, here: str = here) -> str:
            return b if a == b else low.code.do(f"select i1 {here}, {kind} {a}, {kind} {b}")

        places = tuple(pick("ptr", a, b) for a, b in zip(x.places, found.places))
        begin, length = pick("i64", x.begin, found.begin), pick("i64", x.length, found.length)
        alias, owners = pick("i1", x.alias, found.alias), x.owners | found.owners
        found = Listed(found.item, places, begin, length, owners, alias, found.fixed)
    return found


def either(code: Code, a: str, b: str) -> str:
    """Whether one of two conditions holds."""
    if a == "false" or b == "true":
        return b
    return a if b == "false" or a == "true" else code.do(f"or i1 {a}, {b}")


def item(low: Lowering, x: Listed, index: str, stays: bool) -> Operand:
    """The item at a valid index. ``stays``: whether nothing is written to its place while it is read."""
    at = low.code.add(x.begin, index)
    if paired(x.item):
        first, end = bounds(low, x, at)
        length = low.code.do(f"sub i64 {end}, {first}")
        found = Listed(inside(x.item), x.places[1:], first, length, x.owners, x.alias, x.fixed)
        found = found if stays else copied(low, found)
        return _as_tensor(low, found, x.item) if isinstance(x.item, TensorType) else found
    place = address(low, x, at)
    dtype = DTYPE_NAMES[x.item.dtype]
    if isinstance(x.item, ScalarType):
        return Reg(low.code.load(dtype, place), dtype)
    size = tuple(x.item.shape)
    if numel(size) == 1:
        return Reg(low.code.load(dtype, place), dtype, size, x.alias)
    dense = x.item not in low.strided
    found = Mem(place, dtype, size, strides(size), x.owners, dense, x.alias)
    if stays:
        return found
    made = low.new(dtype, size)
    low.copy(found, made)
    return replace(made, alias=x.alias, dense=dense)
