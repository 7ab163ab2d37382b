"""Ops of lists and optionals in native code (``list_memory``). An optional is a list of at most one item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.types import DTYPE_NAMES, TensorType, Type
from ..kernels.loop_ir import LONGEST
from . import ahead, list_sums
from .extents import unknown
from .groups import LIST_UPDATES, one_element, overwrites
from .indices import index_of
from .list_items import item_bytes, paired
from .list_memory import (
    address,
    append,
    as_item,
    contents,
    copied,
    either,
    expect,
    fresh,
    item,
    nothing,
    one,
    over,
    own,
    pushed,
    put,
    reserve,
    same_size,
)
from .list_slices import clamped, sliced, spread
from .list_splices import none, splice
from .values import Decline, Listed, Mem, Operand, Reg, numel, row_major, strides

if TYPE_CHECKING:
    from .lower import Lowering


def changes(graph: Graph) -> bool:
    """Whether an op of a graph writes over an item, or takes one away."""
    return any(n.op in ("tg.list_pop", "tg.list_insert", "tg.list_set") for n in all_nodes(graph))


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


def make_room(low: Lowering, v: Value, node: Node) -> None:
    """Let ``v`` be computed at the end of the list that ``node`` pushes it on, where that list stays in its buffers."""
    x, dest = low.operand(node.args[0]), low.dests.get(node.outputs[0])
    if v in low.dests or x.fixed or not isinstance(dest, Listed) or dest.places != x.places:
        return
    dtype, shape = low.tensor(v)
    at = low.code.add(x.begin, x.length)
    place = reserve(low, x, at, low.code.add(at, "1"))
    low.dests[v] = low.reserved[node] = Mem(place, dtype, shape, strides(shape), x.owners)


def lower(low: Lowering, node: Node) -> None:
    """Write a list op and bind its results."""
    rule = RULES.get(node.op)
    if rule is None:
        raise Decline(f"{node.op} runs on the host")
    low.native_ops += 1
    found = rule(low, node)
    for v, x in zip(node.outputs, found if isinstance(found, list) else [found]):
        low.bind(v, x)


def _new(low: Lowering, node: Node) -> Listed:
    return fresh(low, _item(node))


def _item(node: Node) -> Type:
    kind = node.outputs[0].type
    item = kind.element
    if item is None:
        raise Decline("a list whose items have no known type")
    return item


def _some(low: Lowering, node: Node) -> Listed:
    made = fresh(low, _item(node))
    for v in node.args:
        made = pushed(low, made, v)
    return made


def _zeros(low: Lowering, node: Node) -> Listed:
    """A list like another one, whose tensors are zeros and whose numbers are the same."""
    x, code = low.operand(node.args[0]), low.code
    made = found = copied(low, x)
    while paired(found.item):
        found = contents(low, found)
    if isinstance(found.item, TensorType):
        nbytes = code.multiply(found.length, item_bytes(found.item))
        code.declare("llvm.memset.p0.i64", "void {}(ptr, i8, i64, i1)")
        code.line(f"call void @llvm.memset.p0.i64(ptr {address(low, found, found.begin)}, i8 0, i64 {nbytes}, i1 false)")  # fmt: skip
    return made


def _none(low: Lowering, node: Node) -> Listed:
    return nothing(low, _item(node))


def _push(low: Lowering, node: Node) -> Listed:
    base, v = node.args
    x = low.operand(base)
    _same_item(x, node)
    there = low.reserved.pop(node, None)
    if there is not None and there.pointer == getattr(low.operand(v), "pointer", None):
        low.dests.pop(node.outputs[0])
        expect(low, x.item, low.operand(v))
        return replace(x, length=low.code.add(x.length, "1"))
    return pushed(low, own(low, x, node.outputs[0]), v)


def _same_item(x: Listed, node: Node) -> None:
    if _item(node) != x.item:
        raise Decline(f"items of several types: {x.item} and {_item(node)}")


def _index(low: Lowering, x: Listed, at: Any) -> str:
    """A valid index from the start; another one fails."""
    return index_of(low, at, low.sizes.new(x.length, LONGEST))


def _pop(low: Lowering, node: Node) -> list[Operand]:
    base, at = node.args
    x, code = low.operand(base), low.code
    if at != -1 or isinstance(at, Value):
        return _take(low, node, x, at)
    low.fail(code.do(f"icmp eq i64 {x.length}, 0"))
    left = code.add(x.length, "-1")
    last = item(low, x, left, x.fixed)
    dest = low.dests.get(node.outputs[0])
    if dest is not None and dest.places != x.places:
        low.dests.pop(node.outputs[0])
        return [copied(low, replace(x, length=left), dest), last]
    return [replace(x, length=left), last]


def _take(low: Lowering, node: Node, x: Listed, at: Any) -> list[Operand]:
    """The list without one of its items: those behind it move up."""
    code = low.code
    index = _index(low, x, at)
    taken = item(low, x, index, x.fixed)
    x = own(low, x, node.outputs[0])
    if paired(x.item):
        return [splice(low, x, index, "1", none(x)), taken]
    left = code.add(x.length, "-1")
    _move(low, x, code.add(index, "1"), index, code.do(f"sub i64 {left}, {index}"))
    return [replace(x, length=left), taken]


def _insert(low: Lowering, node: Node) -> Listed:
    """The list with one more item: those behind it move down."""
    base, at, v = node.args
    x, code = low.operand(base), low.code
    _same_item(x, node)
    index = clamped(low, at, "0", x.length)
    value = low.operand(v)
    if paired(x.item):
        return _put_list(low, node, x, index, "0", value)
    x = own(low, x, node.outputs[0])
    end = code.add(x.begin, x.length)
    reserve(low, x, end, code.add(end, "1"))
    _move(low, x, index, code.add(index, "1"), code.do(f"sub i64 {x.length}, {index}"))
    put(low, x.item, value, address(low, x, code.add(x.begin, index)))
    low.work += 20
    return replace(x, length=code.add(x.length, "1"), alias=either(code, x.alias, value.alias))


def _move(low: Lowering, x: Listed, start: str, to: str, count: str) -> None:
    """Move so many items of a list from one place in it to another."""
    code = low.code
    source, target = (address(low, x, code.add(x.begin, at)) for at in (start, to))
    nbytes = code.multiply(count, item_bytes(x.item))
    code.declare("llvm.memmove.p0.p0.i64", "void {}(ptr, ptr, i64, i1)")
    code.line(f"call void @llvm.memmove.p0.p0.i64(ptr {target}, ptr {source}, i64 {nbytes}, i1 false)")  # fmt: skip
    low.work += 20


def _get(low: Lowering, node: Node) -> Operand:
    base, at = node.args
    x = low.operand(base)
    stays = x.fixed or not low.rewrites
    found = item(low, x, _index(low, x, at), stays)
    if stays:
        ahead.note(low, node, found)
    return found


def _set(low: Lowering, node: Node) -> Listed:
    base, at, v = node.args
    x = low.operand(base)
    _same_item(x, node)
    index, value = _index(low, x, at), low.operand(v)
    if paired(x.item):
        return _put_list(low, node, x, index, "1", value)
    x = own(low, x, node.outputs[0])
    place = address(low, x, low.code.add(x.begin, index))
    put(low, x.item, value, place)
    return replace(x, alias=either(low.code, x.alias, value.alias))


def _put_list(low: Lowering, node: Node, x: Listed, index: str, count: str, value: Operand) -> Listed:  # fmt: skip
    """The list of lists with another one at a place, for ``count`` items that there were."""
    value = as_item(low, x.item, value)
    if not isinstance(value, Listed):
        raise Decline("a tensor where a list belongs")
    made = splice(low, own(low, x, node.outputs[0]), index, count, one(low, x, value))
    return replace(made, alias=either(low.code, made.alias, value.alias))


def _size(low: Lowering, node: Node) -> Reg:
    return Reg(low.operand(node.args[0]).length, "i64")


def _has(low: Lowering, node: Node) -> Reg:
    return Reg(low.code.do(f"icmp ne i64 {low.operand(node.args[0]).length}, 0"), "bool")


def _value(low: Lowering, node: Node) -> Operand:
    x = low.operand(node.args[0])
    low.fail(low.code.do(f"icmp eq i64 {x.length}, 0"))
    return item(low, x, "0", x.fixed or not low.rewrites)


def may_take(graph: Graph, result: Value, room: Listed, given: dict[Value, Operand]) -> bool:
    """Whether a list may be made in buffers where an input of its graph may stand: that is updated there, or read no more.

    ``given``: what the inputs are.
    """
    found, first = overwrites(graph), result
    maker = first.node
    while first in found:
        maker, first = first.node, found[first][0]
    maker, begins = first.node or maker, given.get(first)
    if maker is None or (isinstance(begins, Listed) and begins.places == room.places):
        return True
    names = {v for v, x in given.items() if isinstance(x, Listed) and x.places == room.places}
    before = _before(maker) if names else set()
    if maker.op in LIST_UPDATES:  # it copies its base first
        before.discard(maker)
    for node in graph.nodes if names else ():
        if not names.isdisjoint(node.inputs):
            if node not in before:
                return False
            names.update(node.outputs)  # an item is read where it is
    return all(v is result or v not in names for v in graph.outputs)


def _before(node: Node) -> set[Node]:
    """A node and those that it needs, which run before it in whatever order."""
    found, todo = {node}, [node]
    while todo:
        for v in todo.pop().inputs:
            if v.node is not None and v.node not in found:
                found.add(v.node)
                todo.append(v.node)
    return found


def _extend(low: Lowering, node: Node) -> Listed:
    base, other = map(low.operand, node.args)
    _same_item(base, node)
    if other.item != base.item:
        raise Decline("items of several types")
    x = own(low, base, node.outputs[0])
    append(low, x, low.code.add(x.begin, x.length), other)
    alias = either(low.code, x.alias, other.alias)
    return replace(x, length=low.code.add(x.length, other.length), alias=alias)


def _stack(low: Lowering, node: Node) -> Mem:
    x = low.operand(node.args[0])
    if paired(x.item):
        return _stacked(low, node, x)
    return _joined(low, node, x, (x.length,), tuple(getattr(x.item, "shape", ())))


def _stacked(low: Lowering, node: Node, x: Listed) -> Mem:
    """Items of a size that only the run knows, which stand one after the other; the code declines where they differ."""
    if not isinstance(x.item, TensorType) or x.item.dtype is not node.args[1] or 0 in x.item.shape:
        raise Decline("a stack of lists, or of items of another type")
    d, size = unknown(x.item), same_size(low, x)
    parts, shape = contents(low, x), x.item.shape
    order = (d, *(i for i in range(len(shape)) if i != d))
    known = node.outputs[0].type.shape[0]
    length: Any = low.sizes.new(x.length, LONGEST)
    if known is not None:
        low.sizes.require(length, known)
        length = known
    packed = row_major((length, size, *(shape[i] for i in order[1:])))
    step = dict(zip(order, packed[1:]))
    whole = (length, *(size if n is None else n for n in shape))
    steps = (packed[0], *(step[i] for i in range(len(shape))))
    place = address(low, parts, parts.begin)
    low.sizes.note(node.outputs[0], whole)
    found = Mem(place, DTYPE_NAMES[x.item.dtype], whole, steps, x.owners)
    if d == 0 and (x.fixed or not low.rewrites):
        return found
    made = low.new(found.dtype, found.size)
    low.copy(found, made)
    return made


def _concat(low: Lowering, node: Node) -> Mem:
    x = low.operand(node.args[0])
    shape = tuple(getattr(x.item, "shape", ()))
    if not shape:
        raise Decline("a concatenation of numbers")
    if paired(x.item):
        if unknown(x.item):
            raise Decline(
                "items that are joined along another dimension than that whose size only the run knows"
            )
        x = contents(low, x)
        return _joined(low, node, x, (x.length,), tuple(x.item.shape))
    return _joined(low, node, x, (low.code.multiply(x.length, shape[0]),), shape[1:])


def _joined(low: Lowering, node: Node, x: Listed, length: tuple[str], rest: tuple[int, ...]) -> Mem:
    """The items as they stand in memory, as one tensor."""
    if paired(x.item) or x.item.dtype is not node.args[1]:
        raise Decline("items of another type")
    known = node.outputs[0].type.shape[0]
    if length[0].isdigit() or known is not None:
        size: tuple[Any, ...] = (int(length[0]) if known is None else known, *rest)
    else:
        size = (low.sizes.new(length[0], LONGEST), *rest)
    if not numel(size):
        raise Decline("an empty tensor")
    dtype = DTYPE_NAMES[x.item.dtype]
    place = address(low, x, x.begin)
    low.sizes.note(node.outputs[0], size)
    found = Mem(place, dtype, size, strides(size), x.owners)
    if x.fixed or not low.rewrites:
        return found
    made = low.new(dtype, size)
    low.copy(found, made)
    return made


def _of_rows(low: Lowering, node: Node) -> Listed:
    x = low.contiguous(low.operand(node.args[0]))
    if one_element(node.args[0]) or len(x.size) < 1 or _item(node).shape != x.size[1:]:
        raise Decline("a list of parts whose size is known only at run time")
    return over(low, node.outputs[0].type, (x.pointer,), low.sizes.text(x.size[0]), x)


RULES: dict[str, Callable[[Any, Node], Any]] = {
    "tg.list_new": _new,
    "tg.list_of": _some,
    "tg.list_push": _push,
    "tg.list_pop": _pop,
    "tg.list_insert": _insert,
    "tg.list_get": _get,
    "tg.list_set": _set,
    "tg.list_size": _size,
    "tg.list_slice": sliced,
    "tg.list_spread": spread,
    "tg.handle_zeros": _zeros,
    "tg.handle_add": list_sums.add,
    "tg.list_extend": _extend,
    "tg.list_stack": _stack,
    "tg.list_concat": _concat,
    "tg.list_from_tensor": _of_rows,
    "tg.optional_some": _some,
    "tg.optional_none": _none,
    "tg.optional_has": _has,
    "tg.optional_get": _value,
}
