"""How a loop of native code carries each part of its state: see ``control``."""

from __future__ import annotations

from ..graph.ir import Graph, Value
from ..graph.types import is_open
from ..kernels.gathers import sources
from . import extents, list_items
from .groups import group_numbers, one_element, readers, schedule, updated
from .grown import is_part


def mode(body: Graph, i: int) -> str:
    """The way of part ``i``: a register, one place, two places in turn, one of those whose size changes, or none where it stays the same."""
    value, result = body.inputs[i], body.outputs[i]
    if value is result:
        return "same"
    if one_element(value):
        return "register"
    if list_items.listed(value.type):
        return "in place"
    if is_open(value.type):
        if extents.several(value.type):
            return "remade"
        return "grown" if updated(body, i) else "shrunk" if is_part(value, result) else "swapped"
    if _adds_product(body, value, result) or _in_place(body, value, result) or updated(body, i):
        return "in place"
    return "memory"


def _adds_product(body: Graph, value: Value, result: Value) -> bool:
    """Whether ``result`` is ``value`` plus a product of other matrices, and nobody else reads ``value``."""
    if result.node is None or result.node.op != "aten.addmm.default" or result.node.args[0] is not value:  # fmt: skip
        return False
    reads = [v for n in body.nodes for v in n.inputs] + body.outputs
    return reads.count(value) == 1 == body.outputs.count(result) and result.type.shape == value.type.shape  # fmt: skip


def _in_place(body: Graph, value: Value, result: Value) -> bool:
    """Whether ``result`` may be written over ``value``: element by element, and nobody reads the old one later."""
    if value in body.outputs or body.outputs.count(result) > 1 or result.node is None:
        return False
    groups, number, read = schedule(body), group_numbers(body), readers(body)
    own = number[result.node]
    if groups[own].kind != "loop" or groups[own].dims is not None:
        return False
    if result.type.shape != value.type.shape:
        return False
    names, aliases = {value}, [value]
    for v in aliases:
        for n in read.get(v, ()):
            if n.regions or number[n] > own:
                return False
            if number[n] == own and (v is not value or v in sources(n)):
                return False
            if groups[number[n]].kind == "scalar":
                aliases += [o for o in n.outputs if o not in names]
                names.update(n.outputs)
    # A view of the old value that goes on reads it at the end.
    return names.isdisjoint(body.outputs)
