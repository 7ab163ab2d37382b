"""Whether a loop over elementwise state may run block by block, each block of elements for itself.

Model. The state has numbers and elements. An element is computed of numbers and of what stands at its own place, which
the renderer sees to; no number is computed of elements, but for what they are asked. So all blocks see the same numbers, and a block may run the loop to its end alone, if its end is the loop's:

* where numbers alone decide, it is;
* else the loop asks whether ``any`` element has a mask, or whether ``all`` have none, and is never ended by a mask. So while one block goes on
  the loop does; a block that ends before others has no element with the mask. That these elements would stay as they are is for
  ``settled`` to prove, or for the kernel to see.

The condition asks of what an iteration begins with, or the body of what it has made (``if done.all(): break`` at its end): that is ``late``. Then what
numbers become of the answer may be seen by the condition and by numbers, and an answer that ends a block has to make the condition false.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..graph.families import CONJUNCTIONS, DISJUNCTIONS, NEGATIONS, TRUTHS
from ..graph.ir import Graph, Node, Value
from .loop_formulas import size_of
from .loop_ir import Unsupported

CONSTANTS = ("py.constant", "aten.scalar_tensor.default")
QUESTIONS = ANY, ALL = "aten.any.default", "aten.all.default"


@dataclass(frozen=True)
class Blocks:
    """``asked``: the nodes that ask all elements, which have one argument; ``mixed``: whether elements depend on numbers that change; ``late``: see above."""

    asked: tuple[Node, ...]
    mixed: bool
    late: bool = False

    @property
    def mask(self) -> Value | None:
        """What is asked of every element; None where numbers alone decide."""
        return self.asked[0].args[0] if self.asked else None

    @property
    def wanted(self) -> bool:
        """What the mask of an element is while the element goes on."""
        return not self.asked or self.asked[0].op == ANY


def independent(node: Node) -> Blocks:
    """How a ``While`` runs block by block; Unsupported says why it does not."""
    body, cond, carried = node.regions["body"], node.regions["cond"], node.kwargs["carried"]
    names = dict(passed(cond))
    _check(body)
    if any(_empty(n) for graph in (body, cond) for n in _inside(graph)):
        raise Unsupported("an empty tensor")
    mixed = _mixed(body.nodes, set(body.inputs[:carried]), {})
    mixed |= _mixed(list(_inside(cond)), set(cond.inputs[:carried]), names)
    asked, late = (tuple(n for n in nodes if _folds(n)) for nodes in (_inside(cond), body.nodes))
    if (asked and late) or any(n.op not in QUESTIONS for n in (*asked, *late)):
        raise Unsupported("a reduction in a loop over blocks" if late else "a condition that is not `any` of the elements")  # fmt: skip
    if len({(n.op, names.get(n.args[0], n.args[0])) for n in (*asked, *late)}) > 1:
        raise Unsupported("a condition that asks for several masks")
    if late:
        _check_late(node, late, names)
    elif not _Rising(asked, names).of(cond.outputs[0], True):
        raise Unsupported("a condition that a mask makes false")
    return Blocks(asked or late, mixed, bool(late))


def _check(body: Graph) -> None:
    """Unsupported where elements depend on branches."""
    for node in body.nodes:
        if node.regions and not _small(node):
            raise Unsupported("a branch in a loop over blocks")


def _check_late(node: Node, asked: tuple[Node, ...], names: Mapping[Value, Any]) -> None:
    """Unsupported where elements depend on what elements are asked, or where an answer that ends a block does not end its loop."""
    body, cond, carried = node.regions["body"], node.regions["cond"], node.kwargs["carried"]
    told = {v for n in asked for v in n.outputs}
    before = -1
    while before < len(told):
        before = len(told)
        for inner in body.nodes:
            if not told.isdisjoint(inner.inputs):
                if any(size_of(v) > 1 for v in inner.outputs):
                    raise Unsupported("elements that depend on what elements are asked")
                told.update(inner.outputs)
        told.update(v for v, out in zip(body.inputs[:carried], body.outputs) if out in told)
    inside = dict(passed(body)) | dict(names) | dict(zip(cond.inputs, body.outputs))
    answers = {n.outputs[0]: n.op == ALL for n in asked}
    if truth(cond.outputs[0], answers, inside) is not False:
        raise Unsupported("a loop that goes on when its elements have ended")


def truth(value: Any, known: Mapping[Value, bool], names: Mapping[Value, Any]) -> bool | None:
    """What a truth is for some that are known, None where it may be either; ``names``: what inputs of branches are."""
    value = _resolved(value, known, names)
    if not isinstance(value, Value):
        return bool(value)
    if value in known or value.node is None:
        return known.get(value)
    node = value.node
    if node.op in CONSTANTS and not isinstance(node.args[0], Value):
        return bool(node.args[0])
    if node.op in CONJUNCTIONS or node.op in DISJUNCTIONS:
        decides = node.op in DISJUNCTIONS
        found = [truth(a, known, names) for a in node.args]
        return decides if decides in found else None if None in found else not decides
    if node.op in NEGATIONS or node.op in TRUTHS:
        found = truth(node.args[0], known, names)
        return found if found is None or node.op in TRUTHS else not found
    if node.op == "If":
        predicate = _resolved(node.args[0], known, names)
        told = truth(predicate, known, names)
        sides = [truth(node.regions[r].outputs[value.index], {**known, predicate: r == "then"}, names)
                 for r, here in (("then", True), ("orelse", False)) if told in (here, None)]  # fmt: skip
        return sides[0] if all(side is sides[0] for side in sides) else None
    return None


def _resolved(value: Any, known: Mapping[Value, bool], names: Mapping[Value, Any]) -> Any:
    """What stands for a value outside of all branches, or where it is known."""
    while isinstance(value, Value) and value not in known and value in names:
        value = names[value]
    return value


def _mixed(nodes: Sequence[Node], moving: set[Value], names: Mapping[Value, Any]) -> bool:
    """Whether elements are computed of numbers that change: of those of ``moving``, and what is computed of them."""
    counted = {v for v in moving if size_of(v) == 1}
    for node in nodes:
        if any(names.get(v, v) in counted for v in node.inputs):
            if any(size_of(v) > 1 for v in node.outputs):
                return True
            counted.update(node.outputs)
    return False


def _empty(node: Node) -> bool:
    """Whether a node takes no elements: these are neither numbers nor what a block has."""
    return not node.regions and any(size_of(v) == 0 for v in (*node.inputs, *node.outputs))


def _folds(node: Node) -> bool:
    """Whether a node makes numbers of elements."""
    return not node.regions and any(size_of(v) > 1 for v in node.inputs) and any(size_of(v) == 1 for v in node.outputs)  # fmt: skip


def _small(node: Node) -> bool:
    """Whether a branch computes with numbers only."""
    if node.op != "If" or any(size_of(v) > 1 for v in node.inputs):
        return False
    nodes = [n for region in node.regions.values() for n in region.nodes]
    return all(_small(n) if n.regions else all(size_of(v) == 1 for v in n.outputs) for n in nodes)


def _inside(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for region in node.regions.values():
            yield from _inside(region)


def passed(graph: Graph) -> Iterator[tuple[Value, Any]]:
    """What the inputs of branches are outside of all of them."""
    names: dict[Value, Any] = {}
    for node in _inside(graph):
        if node.op == "If":
            for region in node.regions.values():
                names |= {v: names.get(a, a) if isinstance(a, Value) else a for v, a in zip(region.inputs, node.args[1:])}  # fmt: skip
    yield from names.items()


class _Rising:
    """Whether a truth is never made false by an ``any`` that becomes true, or an ``all`` that becomes false."""

    def __init__(self, asked: tuple[Node, ...], names: Mapping[Value, Any]):
        self.asked, self.names = asked, names
        self._depends: dict[Value, bool] = {}

    def of(self, value: Any, up: bool) -> bool:
        """``up``: else whether it is never made true."""
        value = self._name(value)
        if not self._asks(value):
            return True
        node = value.node
        if node in self.asked:
            return up == (node.op == ANY)
        if node.op in CONJUNCTIONS or node.op in DISJUNCTIONS:
            return all(self.of(a, up) for a in node.args)
        if node.op in NEGATIONS:
            return self.of(node.args[0], not up)
        if node.op in TRUTHS:
            return self.of(node.args[0], up)
        return node.op == "If" and self._branch(node, value.index, up)

    def _branch(self, node: Node, index: int, up: bool) -> bool:
        """``p and q`` and ``p or q`` are branches."""
        predicate = self._name(node.args[0])
        then, orelse = (self._name(node.regions[r].outputs[index]) for r in ("then", "orelse"))
        if not self.of(then, up) or not self.of(orelse, up):
            return False
        if not self._asks(predicate):
            return True
        return self.of(predicate, up) and (_is(orelse, predicate, False) or _is(then, predicate, True))  # fmt: skip

    def _name(self, value: Any) -> Any:
        return self.names.get(value, value) if isinstance(value, Value) else value

    def _asks(self, value: Any) -> bool:
        """Whether a value depends on what the elements are asked."""
        value = self._name(value)
        if not isinstance(value, Value) or value.node is None:
            return False
        if value not in self._depends:
            node = value.node
            inner = [region.outputs[value.index] for region in node.regions.values()] if node.op == "If" else []  # fmt: skip
            self._depends[value] = node in self.asked or any(self._asks(a) for a in (*node.inputs, *inner))  # fmt: skip
        return self._depends[value]


def _is(value: Any, predicate: Any, truth: bool) -> bool:
    """Whether a side of a branch is its predicate, or what that is there."""
    if value is predicate or value is truth:
        return True
    node = value.node if isinstance(value, Value) else None
    return node is not None and node.op in CONSTANTS and node.args[0] is truth
