"""Applies the algebraic rules of ``rules``, from the first node to the last.

An argument is simplified before its user, so one walk reaches the end of most chains; a node that a rule makes is
tried again, ``BUDGET`` times. A node that may fail goes by a rule only together with one before it that fails in
the same cases, or that cannot fail there; such rules are written so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ops import lookup
from ..graph.rewrite import Renaming, same_value
from .aliasing import Storages, leaving
from .rules import ANY, RULES, STRIDED, Rule

BUDGET = 4
# Views that may leave gaps between the elements they show.
_CUTS = frozenset(["select", "slice", "expand", "diagonal", "as_strided", "real", "imag", "view_as_real", "unfold", "narrow", "split", "split_with_sizes", "unbind", "chunk"])  # fmt: skip
# What takes its strides, gaps and all, from its first operand.
_KEEPING = frozenset(f"aten.{n}.default" for n in ("select_scatter", "slice_scatter", "diagonal_scatter"))  # fmt: skip
_BY_OP: dict[str, list[Rule]] = {}
for _rule in RULES:
    _BY_OP.setdefault(_rule.left[0], []).append(_rule)

Bindings = dict[str, Any]


def simplify(graph: Graph) -> Graph:
    """``graph`` with the rules applied."""
    kept = {n.args[0] for n in all_nodes(graph) if n.op in _KEEPING}
    _simplify(graph, Storages(graph), Layouts(not _sees_strides(graph), kept, leaving(graph)))
    return graph


class Layouts(NamedTuple):
    """Whether strides are ``free`` where no result has them, the values whose strides another op takes over, and those that are ``left`` to outside, see ``aliasing.leaving``."""

    free: bool
    kept: set[Value]
    left: set[Value]

    def may_differ(self, rule: Rule, old: Value, new: Any, storages: Storages) -> bool:
        """Whether ``new`` may have the place of ``old`` as far as strides go, and memory that both share with others."""
        if rule.apart and old in self.left:
            return False
        if rule.elementwise and not (isinstance(new, Value) and _may_have_gaps(new)):
            return True
        if not (rule.layout or rule.elementwise):
            return True
        if not self.free or storages.returned(old):
            return False
        return old not in self.kept or not (isinstance(new, Value) and _may_have_gaps(new))


def _may_have_gaps(x: Value) -> bool:
    """Whether there may be gaps between the elements of a tensor: of an input, or what views show of one or by a cut."""
    while x.node is not None and not x.node.regions and lookup(x.node.op).aliases:
        if x.node.op.split(".")[1] in _CUTS or not x.node.inputs:
            return True
        x = x.node.inputs[0]
    return x.node is None or bool(x.node.regions)


def _sees_strides(graph: Graph) -> bool:
    return any(node.op.startswith(STRIDED) for node in all_nodes(graph))


def _simplify(graph: Graph, storages: Storages, layouts: Layouts) -> None:
    names, nodes = Renaming(), []
    for node in graph.nodes:
        names.apply(node)
        for region in node.regions.values():
            _simplify(region, storages, layouts)
        found: Any = node
        for _ in range(BUDGET):
            made = _rewritten(found, storages, layouts)
            if made is None:
                break
            found = made[0]
            if not isinstance(found, Node):
                break
        if isinstance(found, Node):
            nodes.append(found)
            found = found.outputs[0] if found is not node else None
        if found is not None:
            names[node.outputs[0]] = found
    graph.nodes = nodes
    names.outputs(graph)


def _rewritten(node: Node, storages: Storages, layouts: Layouts) -> tuple[Any] | None:
    """What one rule makes of a node: a value, a constant or a node; None when no rule applies."""
    for rule in _BY_OP.get(node.op, ()):
        found: Bindings = {}
        if not _matches_node(rule.left, node, found):
            continue
        if not rule.holds(node.outputs[0].type, lambda name: found[name].type):  # noqa: B023  called at once
            continue
        if isinstance(rule.right, tuple):
            return (_made(rule.right, node, found, storages),)
        result = found[rule.right] if isinstance(rule.right, str) else rule.right
        if not layouts.may_differ(rule, node.outputs[0], result, storages):
            continue
        if _may_stand(node.outputs[0], result, storages, rule.shown):
            return (result,)
    return None


def _may_stand(old: Value, new: Any, storages: Storages, shown: bool) -> bool:
    if isinstance(new, Value):
        return new.type == old.type and storages.merge(old, new, shown)
    return type(new) is getattr(old.type, "kind", None)


def _made(right: tuple, node: Node, found: Bindings, storages: Storages) -> Node:
    args = tuple(found[a] if isinstance(a, str) else a for a in right[1:])
    made = Node(
        right[0], args, None, (node.outputs[0].type,), location=node.location, grad=node.grad
    )
    storages.join(made.outputs[0], node.outputs[0])
    return made


def _matches_node(pattern: tuple, node: Node, found: Bindings) -> bool:
    options = pattern[-1] if isinstance(pattern[-1], dict) else {}
    args = pattern[1:-1] if options else pattern[1:]
    if node.op != pattern[0] or node.kwargs.keys() != options.keys() or len(node.args) != len(args):
        return False
    pairs = [*zip(args, node.args), *((options[k], node.kwargs[k]) for k in options)]
    return all(_matches(p, a, found) for p, a in pairs)


def _matches(pattern: Any, arg: Any, found: Bindings) -> bool:
    if pattern is ANY:
        return True
    if isinstance(pattern, str):
        return same_value(found.setdefault(pattern, arg), arg)
    if isinstance(pattern, tuple):
        made = arg.node if isinstance(arg, Value) else None
        return made is not None and _matches_node(pattern, made, found)
    if isinstance(arg, Value) or type(arg) not in (int, float):
        return False
    return arg == pattern and repr(float(arg)) == repr(float(pattern))
