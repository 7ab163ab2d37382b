"""Nodes of straight-line code: numbers, one-element tensors, constants, views, and reads and writes of variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import DTYPE_NAMES, TensorType, is_open
from ..kernels.creators import CREATORS, creator_value
from ..kernels.loop_ir import Unsupported
from . import (
    boundary,
    calls,
    complex_parts,
    groups,
    list_memory,
    loop_nodes,
    outside,
    recursion,
    telling,
    texts,
    views,
)
from .code import REGISTER, literal, memory
from .groups import one_element
from .values import Decline, Fill, Listed, Mem, Operand, Reg, strides, with_alias

if TYPE_CHECKING:
    from .lower import Lowering


def lower(low: Lowering, node: Node) -> None:
    """Write a node of numbers, one-element tensors, views or fills."""
    low.work += 0.5
    if texts.concerns(node):
        texts.lower(low, node)
    elif rule := _RULES.get(node.op):
        found = rule(low, node)
        if found is not None:
            low.bind(node.outputs[0], found)
    elif telling.is_text(node):
        telling.text(low, node)
    elif node.op.startswith("py."):
        low.bind(node.outputs[0], _number(low, node))
    elif node.op == views.STRIDED and not views.of_memory(low, node):
        calls.lower(low, node)
    elif node.op in views.VIEWS or node.op == groups.CLONE:
        views.lower(low, node)
    elif low.sizes.inferred(node):
        _computed(low, node)
    else:
        calls.lower(low, node)


FEW_OPTIONS = 8  # constants that are chosen among by comparisons


def _constant(low: Lowering, node: Node) -> Operand | None:
    """A constant tensor: a register, or memory of the module."""
    if not isinstance(node.args[0], (list, tuple)):
        _computed(low, node)
        return None
    dtype, size = low.tensor(node.outputs[0])
    items: list[Any] = [node.args[0]]
    for _ in size:
        items = [x for row in items for x in row]
    if len(items) == 1:
        return Reg(literal(items[0], dtype), dtype, size)
    kind = memory(dtype)
    if dtype in ("f16", "bf16"):
        raise Decline(f"a constant of type {dtype}")
    texts = [str(int(x)) if dtype == "bool" else literal(x, dtype) for x in items]
    name = f"@constant{len(low.globals)}"
    content = ", ".join(f"{kind} {text}" for text in texts)
    low.globals[name] = f"{name} = private constant [{len(items)} x {kind}] [{content}], align 64\n"  # fmt: skip
    return Mem(name, dtype, size, strides(size))


def _assert(low: Lowering, node: Node) -> None:
    """Where it does not hold the host raises."""
    holds = low.numbers.truth(low.register(low.operand(node.args[0])))
    low.fail(low.code.do(f"xor i1 {holds}, true"))


def _number(low: Lowering, node: Node) -> Operand:
    if node.op == "py.constant":
        return low.operand(node.args[0])
    if node.op == "py.size":
        size = low.operand(node.args[0]).size
        return Reg(low.sizes.text(size[node.args[1]]), "i64")
    given = [a for a in node.args if a is not None]  # ``round(x, None)``
    if node.op == "py.round" and len(given) > 1:
        return outside.lower(low, node)
    args = [low.register(low.operand(a)) for a in given]
    return low.numbers.run(node.op, DTYPE_NAMES[node.outputs[0].type.dtype], args)


def _choice(low: Lowering, node: Node) -> Operand:
    """One of several values, by its number: of numbers and one-element tensors in registers, else of places in memory."""
    number = low.numbers.number(low.register(low.operand(node.args[0])), "i64")
    if not all(map(one_element, (*node.outputs, *node.inputs))):
        options = [low.operand(a) for a in node.args[1]]
        if all(isinstance(x, Listed) for x in options):
            return list_memory.chosen(low, number, options)
        return _chosen_place(low, number, node.args[1])
    options = [low.register(low.operand(a)) for a in node.args[1]]
    found = options[0]
    if any(x.dtype != found.dtype for x in options):
        raise Decline("a choice among numbers of different kinds")
    if not any(isinstance(a, Value) for a in node.args[1]):
        return replace(found, text=_chosen_constant(low, number, options))
    kind, text, alias = REGISTER[found.dtype], found.text, found.alias
    for i, x in enumerate(options[1:], 1):
        here = low.code.do(f"icmp eq i64 {number}, {i}")
        text = low.code.do(f"select i1 {here}, {kind} {x.text}, {kind} {text}")
        if x.alias != alias:
            alias = low.code.do(f"select i1 {here}, i1 {x.alias}, i1 {alias}")
    return Reg(text, found.dtype, found.size, alias)


def _chosen_constant(low: Lowering, number: str, options: Sequence[Reg]) -> str:
    """One of several constants: a sum where they follow each other, else a few selections, or a table that is read.

    Branches in branches have tables that are longer at each level: written option by option, such code grows with their square.
    """
    dtype, texts = options[0].dtype, [x.text for x in options]
    if dtype == "i64" and texts == [str(int(texts[0]) + i) for i in range(len(texts))]:
        return number if texts[0] == "0" else low.code.do(f"add i64 {number}, {texts[0]}")
    kind = REGISTER[dtype]
    if len(texts) > FEW_OPTIONS:
        inside = low.code.do(f"icmp ult i64 {number}, {len(texts)}")
        number = low.code.do(f"select i1 {inside}, i64 {number}, i64 0")
        items, name = ", ".join(f"{kind} {t}" for t in texts), f"@options{len(low.globals)}"
        low.globals[name] = f"{name} = private constant [{len(texts)} x {kind}] [{items}]\n"
        place = low.code.do(f"getelementptr {kind}, ptr {name}, i64 {number}")
        return low.code.do(f"load {kind}, ptr {place}")
    text = texts[0]
    for i, other in enumerate(texts):
        if other != texts[0]:
            here = low.code.do(f"icmp eq i64 {number}, {i}")
            text = low.code.do(f"select i1 {here}, {kind} {other}, {kind} {text}")
    return text


def _chosen_place(low: Lowering, number: str, values: Sequence[Value]) -> Mem:
    if not all(isinstance(v, Value) and isinstance(v.type, TensorType) for v in values):
        raise Decline("a choice among lists and others, or constants")
    found, *rest = [low.memory(low.operand(a)) for a in values]
    pointer, alias, owners, dense = found.pointer, found.alias, found.owners, found.dense
    for i, x in enumerate(rest, 1):
        same = (x.dtype, x.size, x.stride) == (found.dtype, found.size, found.stride)
        if not same or x.place or found.place:
            raise Decline("a choice among tensors that are stored in different ways")
        here = low.code.do(f"icmp eq i64 {number}, {i}")
        pointer = low.code.do(f"select i1 {here}, ptr {x.pointer}, ptr {pointer}")
        alias = low.code.do(f"select i1 {here}, i1 {x.alias}, i1 {alias}")
        owners, dense = owners | x.owners, dense and x.dense
    return replace(found, pointer=pointer, alias=alias, owners=owners, dense=dense)


def _computed(low: Lowering, node: Node) -> None:
    """A tensor of numbers, one element that torch's formulas give, or what torch is asked for."""
    out = node.outputs[0]
    if node.op in CREATORS and not one_element(out):
        dtype, size = low.tensor(out)
        if creator_value(node) is not None:
            loop_nodes.lower(low, [node], {out})
        else:
            low.bind(out, Fill(_bare(node), dtype, size, _in_order(low, node)))
    elif all(map(one_element, (*node.inputs, *node.outputs))) and groups.known(node):
        try:
            found = loop_nodes.inline(low, node)
        except (Decline, Unsupported):
            calls.lower(low, node)
            return
        for v, x in found.items():
            low.bind(v, x)
    else:
        calls.lower(low, node)


def _in_order(low: Lowering, node: Node) -> bool:
    """Whether eager PyTorch makes a contiguous tensor: ``zeros_like`` and its kind take the order of dims from their argument."""
    if loop_nodes.in_other_order(node):
        return False
    kept = node.kwargs.get("memory_format") in (None, torch.preserve_format)
    if not kept or not node.op.split(".")[1].endswith("_like"):
        return True
    return low.operand(node.args[0]).ordered


def _read(low: Lowering, node: Node) -> Operand:
    (resource,) = node.args
    if resource in low.written:
        return low.written[resource]
    return with_alias(low.env[resource], "false")


def _assign(low: Lowering, node: Node) -> None:
    resource, value = node.args
    if resource not in low.graph.inputs or is_open(resource.type):
        raise Decline("a variable that is written inside of a branch or loop")
    x = low.operand(value)
    dtype, size = low.tensor(resource)
    if (x.dtype, x.size) != (dtype, size):
        raise Decline("an assignment that converts")
    if resource in low.written:
        low.arena.release(low.written[resource].owners)
    low.arena.hold(x.owners)
    low.written[resource] = x


def _bare(node: Node) -> Node:
    """A node that makes a tensor of numbers, without what it is like and its sizes: they may be gone when it is used."""
    made = Node(node.op, location=node.location)
    made.outputs = node.outputs
    return made


def _first(low: Lowering, node: Node) -> Operand:
    return low.operand(node.args[0])


def _second(low: Lowering, node: Node) -> Operand:
    """What was written; only gradients ask for what was there before."""
    return low.operand(node.args[1])


_RULES: dict[str, Callable[[Any, Node], Operand | None]] = {
    "tg.read": _read,
    "tg.assign": _assign,
    "tg.assert": _assert,
    "tg.constant": _constant,
    "tg.identity": _first,
    "tg.written": _second,
    "tg.choose": _choice,
    outside.OP: outside.lower,
    **complex_parts.RULES,
    **recursion.RULES,
    **boundary.RULES,
}
