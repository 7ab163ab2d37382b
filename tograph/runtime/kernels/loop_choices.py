"""Branches of a loop over elements as choices: ``x = x * 0.5 if i < 5 else x - 1`` computes both and takes one.

A block cannot leave its registers for a branch; what two short branches compute is less than a pass over memory. Numbers stay branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from functools import partial
from typing import Any

from ..graph.ir import Node, Value, all_nodes
from ..graph.ordering import node_effects
from ..graph.rewrite import copied, copy_node, keep_inputs, keep_outputs, passed, replaced, splice
from ..graph.types import BOOL, ScalarType, TensorType
from .loop_formulas import dtype_of, size_of
from .loop_ir import Unsupported

MOST = 16  # nodes of elements in both branches


def small(v: Value) -> bool:
    """Whether a value is a number or a tensor of one element."""
    return size_of(v) == 1


def chosen(loop: Node, safe: Set[Node] = frozenset()) -> tuple[Node, set[Node], set[Node]]:
    """(a ``While`` without branches that give elements, the nodes that choose in their place, its ``safe`` nodes); the loop itself where it has none.

    ``safe``: nodes that surely do not fail.
    """
    body, choices, known = loop.regions["body"], set[Node](), set(safe)
    if not any(_gives_elements(n) for n in all_nodes(body)):
        return loop, choices, known
    made = copied(body)
    _learn(known, all_nodes(body), all_nodes(made))
    made = replaced(made, partial(_choices, choices, known))
    regions = {"cond": loop.regions["cond"], "body": made}
    return Node("While", loop.args, loop.kwargs, [v.type for v in loop.outputs], regions=regions, location=loop.location), choices, known  # fmt: skip


def _learn(known: set[Node], nodes: Iterable[Node], copies: Iterable[Node]) -> None:
    """Copies of nodes that are known are known too."""
    known |= {new for old, new in zip(nodes, copies, strict=True) if old in known}


def _inside(node: Node) -> Iterator[Node]:
    for region in node.regions.values():
        yield from all_nodes(region)


def _gives_elements(node: Node) -> bool:
    return node.op == "If" and not all(map(small, node.outputs))


def _choices(
    made: set[Node], known: set[Node], node: Node, nodes: list[Node]
) -> Sequence[Any] | None:
    """What stands for the outputs of a branch: the nodes of both its sides, and a choice for each output of elements."""
    if not _gives_elements(node):
        return None
    _check(node)
    found: dict[int, Any] = {}
    keep = [small(v) for v in node.outputs]
    if any(keep):
        numbers = copy_node(node, {v: v for v in node.inputs}, ordered=False)
        _learn(known, [node, *_inside(node)], [numbers, *_inside(numbers)])
        keep_outputs(numbers, keep)
        only_numbers(numbers)
        nodes.append(numbers)
        found = dict(zip((i for i, k in enumerate(keep) if k), numbers.outputs))
    sides = [splice(node.regions[r], node.args[1:], nodes, node.grad) for r in ("then", "orelse")]
    truth = _truth(node.args[0], nodes)
    for i, (v, a, b) in enumerate(zip(node.outputs, *sides)):
        if i not in found:
            nodes.append(Node("aten.where.self", (truth, a, b), types=[v.type], location=node.location))  # fmt: skip
            made.add(nodes[-1])
            found[i] = nodes[-1].outputs[0]
    return [found[i] for i in range(len(node.outputs))]


def _check(node: Node) -> None:
    inner = list(node.regions["then"].nodes + node.regions["orelse"].nodes)
    large = [n for n in inner if not all(map(small, n.outputs))]
    # numbers that are computed of elements
    asked = any(not all(map(small, n.inputs)) for n in inner if n not in large)
    if len(large) > MOST or asked or any(n.regions for n in large) or not small(node.args[0]):
        raise Unsupported("a branch in a loop over blocks")
    if any(node_effects(n).may_fail for n in inner):
        raise Unsupported("a branch that may fail in a loop over blocks")


def _truth(predicate: Value, nodes: list[Node]) -> Value:
    """A predicate as a bool."""
    if dtype_of(predicate) == "bool":
        return predicate
    if isinstance(predicate.type, ScalarType):
        nodes.append(Node("py.bool", (predicate,), types=[BOOL]))
    else:
        kind = TensorType(BOOL.dtype, predicate.type.shape)
        nodes.append(Node("aten.ne.Scalar", (predicate, 0), types=[kind]))
    return nodes[-1].outputs[0]


def only_numbers(node: Node) -> None:
    """Drop the nodes of elements in the regions of a branch, and what is passed to it for them."""
    for region in node.regions.values():
        region.nodes = [n for n in region.nodes if all(map(small, n.outputs))]
        for inner in region.nodes:
            if inner.regions:
                only_numbers(inner)
    keep_inputs(node, [not isinstance(a, Value) or small(a) for a in passed(node)])
