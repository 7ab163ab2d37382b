"""Lists and optionals in native code: items in memory that grows, copied in and read in place.

An optional is a list of at most one item. A list is a value: an op that changes one works on its buffers where the list is
read no more afterwards (``groups.overwrites``) and nothing else stands there, else on a copy. A pushed item is copied
to the end; a popped one stays where it is, so the next push would write over it: such items are copied out. Reading an item
gives its place in the buffer, where pushes leave it: a block that is outgrown stays until the call ends.

Items: tensors, numbers, and lists and optionals of such items. A tensor one size of which only the run knows is, as an item, the list of
its parts along that dimension. Anything else declines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..ir import Graph, Node, Value
from ..kernels.loop_ir import LONGEST
from ..types import DTYPE_NAMES, ListType, OptionalType, ScalarType, TensorType, Type
from .code import SIZE
from .extents import unknown, where_it_is
from .groups import LIST_UPDATES, one_element
from .values import NO_OWNERS, Decline, Listed, Mem, Operand, Reg, laid_out, numel, strides
from .views import index_of

PAIR = 16  # bytes of an item that is a list: where its items begin and end
_SHIFT = """define internal void @shift(ptr %to, ptr %from, i64 %count, i64 %by) noinline #0 {
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [0, %0], [%next, %loop]
  %a = getelementptr i64, ptr %from, i64 %i
  %b = getelementptr i64, ptr %to, i64 %i
  %x = load i64, ptr %a
  %y = add i64 %x, %by
  store i64 %y, ptr %b
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def listed(kind: Type) -> bool:
    """Whether values of a type are lists here."""
    return isinstance(kind, (ListType, OptionalType))


def paired(kind: Type) -> bool:
    """Whether items of a type have what is in them in the buffers behind the first one."""
    return listed(kind) or (isinstance(kind, TensorType) and None in kind.shape)


def inside(kind: Type) -> Type:
    """The type of what is in such an item."""
    if not isinstance(kind, TensorType):
        return kind.element  # type: ignore[union-attr,return-value]
    d = unknown(kind)
    return TensorType(kind.dtype, kind.shape[:d] + kind.shape[d + 1 :], kind.device)


def item_bytes(kind: Type) -> int:
    """Bytes of an item in the first buffer of its list."""
    if paired(kind):
        return PAIR
    if isinstance(kind, ScalarType):
        return SIZE[DTYPE_NAMES[kind.dtype]]
    if not isinstance(kind, TensorType) or None in kind.shape or kind.device != "cpu":
        raise Decline(f"a list of {kind}")
    dtype = DTYPE_NAMES[kind.dtype]
    if dtype not in SIZE or not numel(kind.shape):  # type: ignore[arg-type]
        raise Decline(f"a list of {kind}")
    return numel(kind.shape) * SIZE[dtype]  # type: ignore[arg-type]


def depth(kind: Type) -> int:
    """How many buffers a list of such items has."""
    item_bytes(kind)
    return 1 if not paired(kind) else 1 + depth(inside(kind))


def changes(graph: Graph) -> bool:
    """Whether an op of a graph writes over an item, or takes one away."""
    return any(
        n.op in ("tg.list_pop", "tg.list_set") or any(map(changes, n.regions.values()))
        for n in graph.nodes
    )


def part(low: Any, kind: TensorType) -> Type:
    """The type of one part of a tensor of a size without a bound; such tensors are native where there are loops."""
    if not any(n.op == "While" for n in low.graph.nodes):  # the host's kernels are faster
        raise Decline(f"a value of type {kind}")
    found = inside(kind)
    item_bytes(found)
    return found


# ---- memory


def fresh(low: Any, item: Type) -> Listed:
    """An empty list in buffers of its own, which the caller must hold."""
    made = [low.buffers.new() for _ in range(depth(item))]
    owners = frozenset(owner for _, owner in made)
    return Listed(item, tuple(place for place, _ in made), "0", "0", owners)


def _nothing(low: Any, item: Type) -> Listed:
    """An empty list without memory."""
    low.globals["nothing"] = "@nothing = internal global [2 x i64] zeroinitializer\n"
    return Listed(item, ("@nothing",) * depth(item), "0", "0", fixed=True)


def over(low: Any, kind: ListType, pointers: tuple[str, ...], length: str, like: Operand) -> Listed:
    """The list of the items at ``pointers``, memory that nothing here writes."""
    places = []
    for pointer in pointers:
        cell = low.code.cell("[2 x i64]")
        low.code.line(f"store ptr {pointer}, ptr {cell}")
        low.code.line(f"store i64 0, ptr {low.code.do(f'getelementptr i64, ptr {cell}, i64 1')}")
        places.append(cell)
    return Listed(kind.element, tuple(places), "0", length, like.owners, like.alias, True)  # type: ignore[arg-type]


def _at(low: Any, data: str, index: str, size: int) -> str:
    return low.code.do(f"getelementptr i8, ptr {data}, i64 {low.code.multiply(index, size)}")


def _data(low: Any, place: str) -> str:
    return low.code.do(f"load ptr, ptr {place}")


def _pair(low: Any, place: str, index: str) -> tuple[str, str]:
    """Where the items of an item begin and end."""
    at, code = _at(low, _data(low, place), index, PAIR), low.code
    first = code.do(f"load i64, ptr {at}")
    return first, code.do(f"load i64, ptr {code.do(f'getelementptr i64, ptr {at}, i64 1')}")


def _if_any(low: Any, count: str, some: Callable[[], tuple[str, ...]], width: int) -> list[str]:
    """What ``some`` gives where ``count`` is not 0, else zeros."""
    code = low.code
    before, inside, after = code.block, code.fresh("some"), code.fresh("joined")
    code.branch(code.do(f"icmp sgt i64 {count}, 0"), inside, after)
    code.label(inside)
    found = some()
    end = code.block
    code.line(f"br label %{after}")
    code.label(after)
    return [code.phi("i64", ("0", before), (x, end)) for x in found[:width]]


def _inside(low: Any, x: Listed) -> Listed:
    """All that is in the items of a list of lists, as one list."""
    code = low.code

    def span() -> tuple[str, str]:
        last = code.add(code.add(x.begin, x.length), "-1")
        return _pair(low, x.places[0], x.begin)[0], _pair(low, x.places[0], last)[1]

    first, end = _if_any(low, x.length, span, 2)
    length = code.do(f"sub i64 {end}, {first}")
    return Listed(inside(x.item), x.places[1:], first, length, x.owners, x.alias)


def append(low: Any, target: Listed, at: str, x: Listed) -> None:
    """Write the items of ``x`` to the buffers of another list, from the item ``at`` on, which is their end."""
    code, size = low.code, item_bytes(x.item)
    end = code.add(at, x.length)
    source = _at(low, _data(low, x.places[0]), x.begin, size)
    low.work += 100
    if not paired(x.item):
        place = _reserve(low, target, at, end, size)
        code.declare("llvm.memmove.p0.p0.i64", "void {}(ptr, ptr, i64, i1)")
        code.line(f"call void @llvm.memmove.p0.p0.i64(ptr {place}, ptr {source}, i64 {code.multiply(x.length, size)}, i1 false)")  # fmt: skip
        return
    content = _inside(low, x)
    (used,) = _if_any(low, at, lambda: (_pair(low, target.places[0], code.add(at, "-1"))[1],), 1)
    append(low, _inner(target), used, content)
    place = _reserve(low, target, at, end, size)
    by = code.do(f"sub i64 {used}, {content.begin}")
    low.globals["shift"] = _SHIFT
    code.line(f"call void @shift(ptr {place}, ptr {source}, i64 {code.multiply(x.length, 2)}, i64 {by})")  # fmt: skip


def _inner(x: Listed) -> Listed:
    """The buffers of what is in the items."""
    return replace(x, item=inside(x.item), places=x.places[1:])


def _reserve(low: Any, x: Listed, at: str, end: str, size: int) -> str:
    """The address of the item ``at`` in the first buffer of a list, with room for the items up to ``end``."""
    code = low.code
    used = code.multiply(at, size)
    data = low.buffers.room(x.places[0], used, code.multiply(end, size), x.owners)
    return _offset(code, data, used)


def _offset(code: Any, data: str, nbytes: str) -> str:
    return code.do(f"getelementptr i8, ptr {data}, i64 {nbytes}")


def copied(low: Any, x: Listed, target: Listed | None = None) -> Listed:
    """``x`` in buffers of its own, or in those of ``target``."""
    made = target or fresh(low, x.item)
    append(low, made if target is None else replace(made, owners=NO_OWNERS), "0", x)
    return replace(made, begin="0", length=x.length, alias=x.alias)


def own(low: Any, x: Listed, result: Value) -> Listed:
    """``x`` where ``result``, which is made from it, may change it."""
    dest = low.dests.pop(result, None)
    if dest is not None and dest.places == x.places:
        return replace(x, owners=dest.owners)
    alone = x.owners and all(low.arena.holders(o) == 1 for o in x.owners)
    if result in low.updates and alone and not x.fixed and dest is None:
        return x
    return copied(low, x, dest)


# ---- items


def pushes(graph: Graph) -> dict[Value, Node]:
    """The tensors that ``graph`` computes and pushes on a list it is given, with the node that does so."""
    bases = Counter(v for n in graph.nodes if n.op in LIST_UPDATES for v in n.inputs[:1])
    found = {}
    for n in graph.nodes:
        base, v = n.args if n.op == "tg.list_push" else (None, None)
        if not isinstance(v, Value) or v.node is None or base.node is not None or one_element(v):
            continue
        if bases[base] == 1 and isinstance(v.type, TensorType) and v.type == _item(n) and not paired(v.type):  # fmt: skip
            found[v] = n
    return found


def make_room(low: Any, v: Value, node: Node) -> None:
    """Let ``v`` be computed at the end of the list that ``node`` pushes it on, where that list stays in its buffers."""
    x, dest = low.operand(node.args[0]), low.dests.get(node.outputs[0])
    if v in low.dests or x.fixed or not isinstance(dest, Listed) or dest.places != x.places:
        return
    dtype, shape = low.tensor(v)
    at = low.code.add(x.begin, x.length)
    place = _reserve(low, x, at, low.code.add(at, "1"), item_bytes(x.item))
    low.dests[v] = low.reserved[node] = Mem(place, dtype, shape, strides(shape), x.owners)


def _write(low: Any, x: Listed, index: str, v: Any) -> None:
    """Write an item of a list of tensors or numbers; ``index`` counts in the buffer."""
    size = item_bytes(x.item)
    end = low.code.add(index, "1")
    place = _reserve(low, x, index, end, size)
    _put(low, x.item, low.operand(v), place)


def _put(low: Any, item: Type, value: Operand, place: str) -> None:
    dtype = DTYPE_NAMES[item.dtype]  # type: ignore[union-attr]
    if value.dtype != dtype:
        raise Decline(f"a {value.dtype} in a list of {dtype}")
    if isinstance(value, Reg):
        low.code.store(dtype, value.text, place)
        return
    shape = tuple(item.shape)  # type: ignore[union-attr]
    if value.size != shape:
        raise Decline("an item whose size is known only at run time")
    low.copy(value, Mem(place, dtype, shape, strides(shape)))


def pushed(low: Any, x: Listed, v: Any) -> Listed:
    """``x``, whose memory may be changed, with ``v`` behind its last item."""
    code, value = low.code, _as_item(low, x.item, low.operand(v))
    end = code.add(x.begin, x.length)
    if isinstance(value, Listed):
        if not paired(x.item):
            raise Decline("a list where a tensor belongs")
        (used,) = _if_any(low, end, lambda: (_pair(low, x.places[0], code.add(end, "-1"))[1],), 1)
        append(low, _inner(x), used, value)
        place = _reserve(low, x, end, code.add(end, "1"), PAIR)
        code.line(f"store i64 {used}, ptr {place}")
        code.line(f"store i64 {code.add(used, value.length)}, ptr {_offset(code, place, '8')}")
    else:
        _write(low, x, end, v)
    low.work += 5
    return replace(x, length=code.add(x.length, "1"), alias=_either(code, x.alias, value.alias))


def _as_item(low: Any, item: Type, x: Operand) -> Operand:
    """``x`` as an item of a type: a tensor of a size that only the run knows as the list of its parts."""
    if not isinstance(item, TensorType) or None not in item.shape or isinstance(x, Listed):
        return x
    if x.dtype != DTYPE_NAMES[item.dtype] or len(x.size or ()) != len(item.shape):
        raise Decline(f"a {x.dtype} in a list of {item}")
    d = unknown(item)
    for i, (n, m) in enumerate(zip(x.size, item.shape)):  # type: ignore[arg-type]
        if i != d:
            low.sizes.require(n, m)
    found = where_it_is(low, d, x)
    kind = ListType(inside(item))
    return over(low, kind, (found.pointer,), low.sizes.text(found.size[d]), found)


def _as_tensor(low: Any, x: Listed, kind: TensorType) -> Mem:
    """The tensor whose parts are the items of a list, where they are."""
    d, part = unknown(kind), tuple(x.item.shape)  # type: ignore[union-attr]
    size = (*part[:d], low.sizes.new(x.length, LONGEST), *part[d:])
    pointer = _at(low, _data(low, x.places[0]), x.begin, item_bytes(x.item))
    return replace(laid_out(pointer, DTYPE_NAMES[kind.dtype], size, x.owners), alias=x.alias)


def _either(code: Any, a: str, b: str) -> str:
    if a == "false" or b == "true":
        return b
    return a if b == "false" or a == "true" else code.do(f"or i1 {a}, {b}")


def item(low: Any, x: Listed, index: str, kind: Type, stays: bool) -> Operand:
    """The item at a valid index. ``stays``: whether nothing is written to its place while it is read."""
    at = low.code.add(x.begin, index)
    if paired(x.item):
        first, end = _pair(low, x.places[0], at)
        length = low.code.do(f"sub i64 {end}, {first}")
        found = Listed(inside(x.item), x.places[1:], first, length, x.owners, x.alias, x.fixed)
        found = found if stays else copied(low, found)
        return _as_tensor(low, found, x.item) if isinstance(x.item, TensorType) else found
    place = _at(low, _data(low, x.places[0]), at, item_bytes(x.item))
    dtype = DTYPE_NAMES[x.item.dtype]  # type: ignore[union-attr]
    if isinstance(x.item, ScalarType):
        return Reg(low.code.load(dtype, place), dtype)
    size = tuple(x.item.shape)  # type: ignore[union-attr]
    if numel(size) == 1:
        return Reg(low.code.load(dtype, place), dtype, size, x.alias)
    found = Mem(place, dtype, size, strides(size), x.owners, alias=x.alias)
    if stays:
        return found
    made = low.new(dtype, size)
    low.copy(found, made)
    return replace(made, alias=x.alias)


# ---- ops


def lower(low: Any, node: Node) -> None:
    """Write a list op and bind its results."""
    rule = RULES.get(node.op)
    if rule is None:
        raise Decline(f"{node.op} runs on the host")
    low.native_ops += 1
    found = rule(low, node)
    for v, x in zip(node.outputs, found if isinstance(found, list) else [found]):
        low.bind(v, x)


def _new(low: Any, node: Node) -> Listed:
    return fresh(low, _item(node))


def _item(node: Node) -> Type:
    kind = node.outputs[0].type
    item = kind.element  # type: ignore[union-attr]
    if item is None:
        raise Decline("a list whose items have no known type")
    return item


def _slice(low: Any, node: Node) -> Listed:
    """The items from one place to another: they stay where they are."""
    base, start, stop, step = node.args
    x, code = low.operand(base), low.code
    if step is not None and (isinstance(step, bool) or step != 1):
        raise Decline("a slice of a list with a step")
    begin, end = _end(low, start, "0", x.length), _end(low, stop, x.length, x.length)
    length = _larger(low, code.do(f"sub i64 {end}, {begin}"), "0")
    return replace(x, begin=code.add(x.begin, begin), length=length)


def _end(low: Any, at: Any, default: str, length: str) -> str:
    """One end of a slice as Python takes it: from the end when negative, and never outside of the list."""
    if at is None:
        return default
    code = low.code
    given = low.numbers.number(low.register(low.operand(at)), "i64")
    wrapped = code.do(f"add i64 {given}, {length}")
    place = code.do(f"select i1 {code.do(f'icmp slt i64 {given}, 0')}, i64 {wrapped}, i64 {given}")
    code.declare("llvm.smin.i64", "i64 {}(i64, i64)")
    return code.do(f"call i64 @llvm.smin.i64(i64 {_larger(low, place, '0')}, i64 {length})")


def _larger(low: Any, a: str, b: str) -> str:
    low.code.declare("llvm.smax.i64", "i64 {}(i64, i64)")
    return low.code.do(f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")


def _some(low: Any, node: Node) -> Listed:
    made = fresh(low, _item(node))
    for v in node.args:
        made = pushed(low, made, v)
    return made


def _none(low: Any, node: Node) -> Listed:
    return _nothing(low, _item(node))


def _push(low: Any, node: Node) -> Listed:
    base, v = node.args
    x = low.operand(base)
    _same_item(x, node)
    there = low.reserved.pop(node, None)
    if there is not None and there.pointer == getattr(low.operand(v), "pointer", None):
        low.dests.pop(node.outputs[0])
        return replace(x, length=low.code.add(x.length, "1"))
    return pushed(low, own(low, x, node.outputs[0]), v)


def _same_item(x: Listed, node: Node) -> None:
    if _item(node) != x.item:
        raise Decline(f"items of several types: {x.item} and {_item(node)}")


def _index(low: Any, x: Listed, at: Any) -> str:
    """A valid index from the start; another one fails."""
    return index_of(low, at, low.sizes.new(x.length, LONGEST))


def _pop(low: Any, node: Node) -> list[Operand]:
    base, at = node.args
    x, code = low.operand(base), low.code
    if at != -1 or isinstance(at, Value):
        raise Decline("an item that is taken out of a list's middle")
    low.fail(code.do(f"icmp eq i64 {x.length}, 0"))
    left = code.add(x.length, "-1")
    last = item(low, x, left, node.outputs[1].type, x.fixed)
    dest = low.dests.get(node.outputs[0])
    if dest is not None and dest.places != x.places:
        low.dests.pop(node.outputs[0])
        return [copied(low, replace(x, length=left), dest), last]
    return [replace(x, length=left), last]


def _get(low: Any, node: Node) -> Operand:
    base, at = node.args
    x = low.operand(base)
    return item(low, x, _index(low, x, at), node.outputs[0].type, x.fixed or not low.rewrites)


def _set(low: Any, node: Node) -> Listed:
    base, at, v = node.args
    x = low.operand(base)
    _same_item(x, node)
    if paired(x.item):
        raise Decline("an item of lists that is replaced")
    index = _index(low, x, at)
    x = own(low, x, node.outputs[0])
    place = _at(low, _data(low, x.places[0]), low.code.add(x.begin, index), item_bytes(x.item))
    value = low.operand(v)
    _put(low, x.item, value, place)
    return replace(x, alias=_either(low.code, x.alias, value.alias))


def _size(low: Any, node: Node) -> Reg:
    return Reg(low.operand(node.args[0]).length, "i64")


def _has(low: Any, node: Node) -> Reg:
    return Reg(low.code.do(f"icmp ne i64 {low.operand(node.args[0]).length}, 0"), "bool")


def _value(low: Any, node: Node) -> Operand:
    x = low.operand(node.args[0])
    low.fail(low.code.do(f"icmp eq i64 {x.length}, 0"))
    return item(low, x, "0", node.outputs[0].type, x.fixed or not low.rewrites)


def _extend(low: Any, node: Node) -> Listed:
    base, other = map(low.operand, node.args)
    _same_item(base, node)
    if other.item != base.item:
        raise Decline("items of several types")
    x = own(low, base, node.outputs[0])
    append(low, x, low.code.add(x.begin, x.length), other)
    alias = _either(low.code, x.alias, other.alias)
    return replace(x, length=low.code.add(x.length, other.length), alias=alias)


def _stack(low: Any, node: Node) -> Mem:
    x = low.operand(node.args[0])
    if paired(x.item):
        raise Decline("a stack of items whose sizes only the run knows")
    return _joined(low, node, x, (x.length,), tuple(getattr(x.item, "shape", ())))


def _concat(low: Any, node: Node) -> Mem:
    x = low.operand(node.args[0])
    shape = tuple(getattr(x.item, "shape", ()))
    if not shape:
        raise Decline("a concatenation of numbers")
    if paired(x.item):
        if unknown(x.item):  # type: ignore[arg-type]
            raise Decline(
                "items that are joined along another dimension than that whose size only the run knows"
            )
        x = _inside(low, x)
        return _joined(low, node, x, (x.length,), tuple(x.item.shape))  # type: ignore[union-attr]
    return _joined(low, node, x, (low.code.multiply(x.length, shape[0]),), shape[1:])


def _joined(low: Any, node: Node, x: Listed, length: tuple[str], rest: tuple[int, ...]) -> Mem:
    """The items as they stand in memory, as one tensor."""
    if paired(x.item) or x.item.dtype is not node.args[1]:  # type: ignore[union-attr]
        raise Decline("items of another type")
    known = node.outputs[0].type.shape[0]  # type: ignore[union-attr]
    if length[0].isdigit() or known is not None:
        size: tuple[Any, ...] = (int(length[0]) if known is None else known, *rest)
    else:
        size = (low.sizes.new(length[0], LONGEST), *rest)
    if not numel(size):
        raise Decline("an empty tensor")
    dtype = DTYPE_NAMES[x.item.dtype]  # type: ignore[union-attr]
    place = _at(low, _data(low, x.places[0]), x.begin, item_bytes(x.item))
    low.sizes.note(node.outputs[0], size)
    found = Mem(place, dtype, size, strides(size), x.owners)
    if x.fixed or not low.rewrites:
        return found
    made = low.new(dtype, size)
    low.copy(found, made)
    return made


def _of_rows(low: Any, node: Node) -> Listed:
    x = low.contiguous(low.operand(node.args[0]))
    if one_element(node.args[0]) or len(x.size) < 1 or _item(node).shape != x.size[1:]:  # type: ignore[union-attr]
        raise Decline("a list of parts whose size is known only at run time")
    return over(low, node.outputs[0].type, (x.pointer,), low.sizes.text(x.size[0]), x)


RULES: dict[str, Callable[[Any, Node], Any]] = {
    "tg.list_new": _new,
    "tg.list_of": _some,
    "tg.list_push": _push,
    "tg.list_pop": _pop,
    "tg.list_get": _get,
    "tg.list_set": _set,
    "tg.list_size": _size,
    "tg.list_slice": _slice,
    "tg.list_extend": _extend,
    "tg.list_stack": _stack,
    "tg.list_concat": _concat,
    "tg.list_from_tensor": _of_rows,
    "tg.optional_some": _some,
    "tg.optional_none": _none,
    "tg.optional_has": _has,
    "tg.optional_get": _value,
}
