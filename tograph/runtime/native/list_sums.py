"""The sum of two cotangents of one list or optional in native code, as ``tg.handle_add`` says: item by item; where one is none, the other.

Two lists of cotangents of one list have its length. Optionals in a list may be there in one and not in the other: items that are lists
decline.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..graph.ir import Node
from ..graph.types import DTYPE_NAMES, ScalarType, Type
from . import walks
from .list_items import paired
from .list_memory import address, append, copied, either
from .scalar import RULES
from .values import Decline, Listed, numel

if TYPE_CHECKING:
    from .lower import Lowering

_ADDED = ("f32", "f64")


def add(low: Lowering, node: Node) -> Listed:
    """The sum of two lists or optionals."""
    x, y = map(low.operand, node.args)
    if x.item != y.item:
        raise Decline(f"a sum of lists of several types: {x.item} and {y.item}")
    _check(x.item)
    code = low.code
    empty, none = (code.do(f"icmp eq i64 {v.length}, 0") for v in (x, y))
    differs = code.do(f"icmp ne i64 {x.length}, {y.length}")
    low.fail(code.do(f"and i1 {differs}, {code.do(f'xor i1 {either(code, empty, none)}, true')}"))
    made = copied(low, x)
    rest = code.do(f"select i1 {empty}, i64 {y.length}, i64 0")
    append(low, made, x.length, replace(y, length=rest))
    both = code.do(f"select i1 {empty}, i64 0, i64 {y.length}")
    _add_to(low, replace(made, length=code.do(f"select i1 {none}, i64 0, i64 {x.length}")), replace(y, length=both))  # fmt: skip
    return replace(made, length=code.add(x.length, rest))


def _check(item: Type) -> None:
    """Decline where items are lists, and where they are no floats of a register."""
    if paired(item) or isinstance(item, ScalarType) or DTYPE_NAMES[item.dtype] not in _ADDED:
        raise Decline(f"a sum of lists of {item}")


def _add_to(low: Lowering, x: Listed, y: Listed) -> None:
    """Add the tensors in ``y`` to those in ``x``, whose memory may be changed."""
    code, dtype = low.code, DTYPE_NAMES[x.item.dtype]
    to, source = address(low, x, x.begin), address(low, y, y.begin)
    low.work += 20
    with walks.counted(code, code.multiply(x.length, numel(tuple(x.item.shape)))) as i:
        terms = [code.load(dtype, place, i) for place in (to, source)]
        code.store(dtype, RULES["add"](code, dtype, terms, low.fail), to, i)
