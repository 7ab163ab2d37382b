"""Whether a loop over large elementwise state may run block by block, each program for its own elements."""

from __future__ import annotations

from ..graph.families import CONJUNCTIONS
from ..graph.ir import Graph, Node, Value
from .loop_formulas import size_of
from .loop_ir import Unsupported
from .reductions import REDUCERS


def check_independent(node: Node) -> None:
    """Unsupported unless the loop may run block by block: see ``triton_loops``."""
    carried, body, cond = node.kwargs["carried"], node.regions["body"], node.regions["cond"]
    counted = {v for v in body.inputs[:carried] if size_of(v) == 1}
    for inner in body.nodes:
        if any(v in counted for v in inner.inputs):
            if inner.regions or any(size_of(v) > 1 for v in inner.outputs):
                raise Unsupported("elements that depend on the counted numbers")
            counted.update(inner.outputs)
        elif inner.regions:
            raise Unsupported("a branch in a loop over blocks")
        elif inner.op in REDUCERS:
            raise Unsupported("a reduction in a loop over blocks")
    if not _implies_any(cond, cond.outputs[0], {}):
        raise Unsupported("a condition that is not `any` of the elements")


def _implies_any(graph: Graph, value: Value, known: dict[Value, bool]) -> bool:
    """Whether ``value`` can only be true where some ``any`` over elements is."""
    if value in known:
        return known[value]
    node = value.node
    if node is None or node not in graph.nodes:
        return False
    if node.op == "aten.any.default":
        return size_of(node.args[0]) > 1
    if node.op in CONJUNCTIONS:
        return any(isinstance(a, Value) and _implies_any(graph, a, known) for a in node.args)
    if node.op == "If":
        predicate = isinstance(node.args[0], Value) and _implies_any(graph, node.args[0], known)
        sides = []
        for region in node.regions.values():
            inner = {v: _implies_any(graph, a, known) for v, a in zip(region.inputs, node.args[1:]) if isinstance(a, Value)}  # fmt: skip
            sides.append(_implies_any(region, region.outputs[value.index], inner))
        then, orelse = sides
        return orelse and (then or predicate)
    return False
