"""Which values may share storage, without regard to order: classes of values over a graph and all its regions.

Two values are in one storage class when one may be a view of the other, hold it, or become it (state of a loop,
outputs of branches); they are in one object class when they may be the very same object, so views are not. A class is
*returned* when one of its values is an output of the whole graph or may be kept by Python code outside, and *given*
when one is an input of the whole graph: then somebody can write into it later, or see that two results are one.

The rule for every pass that puts one value in the place of another is ``merge``: what is returned keeps its own
storage, as the plain program has it, so that ``return x + 1, x + 1`` gives two tensors. ``leaving`` says it in the order of a run: which values
results are, hold or are views of.
"""

from __future__ import annotations

from typing import Any

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ops import lookup
from ..graph.rewrite import holds_tensors, is_torch_op, lead


def leaving(graph: Graph) -> set[Value]:
    """The values whose storage is that of an output of the whole graph, or what Python code outside may keep: what is written later is seen in both."""
    sources: dict[Value, list[Any]] = {}
    todo: list[Any] = list(graph.outputs)
    for node in all_nodes(graph):
        if not node.regions and lookup(node.op).effects.io and lookup(node.op).aliases:
            todo += node.inputs
        for name, region in node.regions.items():
            for k, (arg, inner) in enumerate(zip(node.args[lead(node) :], region.inputs)):
                sources[inner] = [arg]
                if name == "body" and node.op == "While" and k < len(region.outputs):
                    sources[inner].append(region.outputs[k])
    found: set[Value] = set()
    while todo:
        value = todo.pop()
        if isinstance(value, Value) and value not in found and holds_tensors(value.type):
            found.add(value)
            todo += _behind(value, sources)
    return found


def _behind(value: Value, sources: dict[Value, list[Any]]) -> list[Any]:
    """What a value is, holds or is a view of."""
    node = value.node
    if node is None:
        return sources.get(value, [])
    if not node.regions:
        return node.inputs if lookup(node.op).aliases else []
    regions = [region for name, region in node.regions.items() if name != "cond"]
    found: list[Any] = [r.outputs[value.index] for r in regions if value.index < len(r.outputs)]
    return found + [r.inputs[value.index] for r in regions if node.op == "While"]


class _Classes:
    """Union and find, with marks on classes."""

    def __init__(self) -> None:
        self._parent: dict[Value, Value] = {}
        self._marks: tuple[set[Value], set[Value]] = (set(), set())

    def find(self, value: Value) -> Value:
        parent = self._parent
        root = value
        while (above := parent.get(root)) is not None:
            root = above
        while value is not root:
            parent[value], value = root, parent[value]
        return root

    def join(self, a: Value, b: Value) -> None:
        one, other = self.find(a), self.find(b)
        if one is not other:
            self._parent[one] = other
            for marked in self._marks:
                if one in marked:
                    marked.add(other)

    def mark(self, value: Value, kind: int) -> None:
        self._marks[kind].add(self.find(value))

    def marked(self, value: Value, kind: int) -> bool:
        return self.find(value) in self._marks[kind]


_RETURNED, _GIVEN = 0, 1


class Storages:
    """The classes of a graph."""

    def __init__(self, graph: Graph):
        self._storages, self._objects = _Classes(), _Classes()
        self._add(graph)
        for value in graph.outputs:
            self._mark(value, _RETURNED)
        for value in graph.inputs:
            self._mark(value, _GIVEN)

    def returned(self, value: Value) -> bool:
        """Whether somebody outside may get the storage."""
        return holds_tensors(value.type) and self._storages.marked(value, _RETURNED)

    def given(self, value: Value) -> bool:
        """Whether somebody outside had the storage before."""
        return holds_tensors(value.type) and self._storages.marked(value, _GIVEN)

    def join(self, a: Value, b: Value, view: bool = False) -> None:
        """``a`` and ``b`` may share storage; without ``view`` they may be one object."""
        if holds_tensors(a.type) and holds_tensors(b.type):
            self._storages.join(a, b)
            if not view:
                self._objects.join(a, b)

    def merge(self, old: Value, new: Value, shown: bool = False) -> bool:
        """Whether ``new`` may stand in the place of ``old``; if so they are one class from now on.

        ``shown``: ``old`` is a view of ``new``. They share storage anyway, and only whoever gets both sees one object.
        """
        classes = self._objects if shown else self._storages
        if holds_tensors(old.type) and classes.marked(old, _RETURNED) and any(classes.marked(new, kind) for kind in (_RETURNED, _GIVEN)):  # fmt: skip
            return False
        self.join(old, new)
        return True

    def merge_equal(self, old: Node, new: Node) -> bool:
        """Whether the outputs of ``new`` may stand for those of ``old``, which computes the same from the same values.

        Two views of one value share its storage anyway; only whoever gets both as results sees one object.
        """
        pairs = list(zip(old.outputs, new.outputs))
        views = is_torch_op(old) and lookup(old.op).aliases
        classes = self._objects if views else self._storages
        for a, b in pairs:
            if holds_tensors(a.type) and all(classes.marked(v, _RETURNED) for v in (a, b)):
                return False
        for a, b in pairs:
            self.join(a, b)
        return True

    def _mark(self, value: Value, kind: int) -> None:
        if holds_tensors(value.type):
            self._storages.mark(value, kind)
            self._objects.mark(value, kind)

    def _add(self, graph: Graph) -> None:
        for node in graph.nodes:
            if node.regions:
                self._add_regions(node)
            else:
                self._add_op(node)

    def _add_op(self, node: Node) -> None:
        row = lookup(node.op)
        if row.aliases:
            view = is_torch_op(node)
            for value in node.inputs:
                for out in node.outputs:
                    self.join(out, value, view)
        if row.effects.io and row.aliases:
            for value in (*node.inputs, *node.outputs):
                self._mark(value, _RETURNED)

    def _add_regions(self, node: Node) -> None:
        first = lead(node)
        for name, region in node.regions.items():
            for arg, inner in zip(node.args[first:], region.inputs):
                if isinstance(arg, Value):
                    self.join(inner, arg)
            self._add(region)
            if name == "cond":
                continue
            for out, inner in zip(node.outputs, region.outputs):
                self.join(out, inner)
        if node.op == "While":
            for out, inner in zip(node.outputs, node.regions["body"].inputs):
                self.join(out, inner)
