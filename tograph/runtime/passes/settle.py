"""A ``try`` that makes no difference becomes its body: each handler only raises again, or nothing in the body can fail.

What the body keeps for handlers that are gone, in a cell, goes too. ``unwrapped`` does so with every ``try``: right for a run
that ends well, where the one that fails is run otherwise. So does ``uncommit`` with what is done in case an op fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ordering import graph_effects, node_effects, prune
from ..graph.rewrite import Renaming, carried, copied, keep_inputs, lead, leave_out, passed, splice
from ..graph.types import TensorType, Type

COMMIT = "tg.commit"


def settle(graph: Graph) -> Graph:
    """``graph`` without a Try that makes no difference."""
    return _replace(graph, lambda node: _raises_again(node) or _cannot_fail(node))


def unwrapped(graph: Graph) -> Graph:
    """A copy of ``graph`` in which the body of each Try stands for it."""
    return _replace(copied(graph), lambda node: True)


def uncommit(graph: Graph) -> Graph:
    """``graph``, which changes Python objects at its end only now: right for such a run too."""
    leave_out(graph, [COMMIT])
    prune(graph)
    return graph


def commits(graph: Graph) -> bool:
    """Whether a graph changes Python objects before ops that may fail."""
    return any(n.op == COMMIT for n in all_nodes(graph))


def has_try(graph: Graph) -> bool:
    """Whether there is a Try in a graph or its regions."""
    return any(n.op == "Try" for n in all_nodes(graph))


def _replace(graph: Graph, wanted: Callable[[Node], bool]) -> Graph:
    def body(node: Node, nodes: list[Node]) -> Sequence[Any]:
        return splice(node.regions["body"], node.args, nodes, node.grad)

    return without_try(graph, lambda node: _alike(node) and wanted(node), body)


def without_try(
    graph: Graph,
    wanted: Callable[[Node], bool],
    become: Callable[[Node, list[Node]], Sequence[Any]],
) -> Graph:
    """``graph`` with the Try nodes that are ``wanted``, innermost first, replaced by what ``become`` appends to the nodes; it returns what stands for the outputs."""
    if not has_try(graph):
        return graph
    names, nodes = Renaming(), list[Node]()
    for node in graph.nodes:
        names.apply(node)
        for region in node.regions.values():
            without_try(region, wanted, become)
        if node.op == "Try" and wanted(node):
            names.update(zip(node.outputs, become(node, nodes)))
        else:
            nodes.append(node)
    graph.nodes = nodes
    names.outputs(graph)
    forget_cells(graph)
    return graph


def _alike(node: Node) -> bool:
    """Whether the results of the body are of the types of the whole, or tensors of which more sizes are known."""
    results = node.regions["body"].outputs
    return all(_within(b.type, a.type) for a, b in zip(node.outputs, results))


def _within(kind: Type, wide: Type) -> bool:
    if kind == wide or not (isinstance(kind, TensorType) and isinstance(wide, TensorType)):
        return kind == wide
    sizes = len(kind.shape) == len(wide.shape) and all(
        m is None or n == m for n, m in zip(kind.shape, wide.shape)
    )
    return sizes and (kind.dtype, kind.device) == (wide.dtype, wide.device)


def _raises_again(node: Node) -> bool:
    return all(_only_raises(r) for name, r in node.regions.items() if name != "body")


def _only_raises(handler: Graph) -> bool:
    for node in handler.nodes:
        if node.op == "tg.reraise":
            raised = node.args[0].node
            return raised is not None and raised.op == "tg.caught" and not node.kwargs
        if node.op not in _LOOKS and not node_effects(node).removable:
            return False
    return False


_LOOKS = frozenset(["tg.caught", "tg.cell_get", "tg.cell_tag"])  # at what there is to handle


def _cannot_fail(node: Node) -> bool:
    """Nothing in the body raises; a loop, which Ctrl-C may end, counts as raising where a handler is for that too."""
    effects = graph_effects(node.regions["body"])
    interrupts = any(
        issubclass(KeyboardInterrupt, k) for kind in node.kwargs["kinds"] for k in kind.value
    )
    return not effects.may_fail and not (effects.diverges and interrupts)


# ---- cells


def forget_cells(graph: Graph) -> None:
    """Drop the cells of a graph into which nothing looks."""
    for node in [n for n in graph.nodes if n.op == "tg.cell_new"]:
        if not _read(graph, node.outputs[0]):
            _forget(graph, node.outputs[0])
            graph.nodes.remove(node)


def _uses(graph: Graph, cell: Value) -> list[tuple[Node, list[tuple[Graph, Value]]]]:
    """The nodes that use a cell, each with what the cell is in its regions."""
    found = []
    for node in graph.nodes:
        if cell not in node.inputs:
            continue
        first = lead(node) if node.regions else 0
        places = [i - first for i, a in enumerate(node.args) if a is cell]
        found.append((node, [(r, r.inputs[i]) for r in node.regions.values() for i in places]))
    return found


def _read(graph: Graph, cell: Value) -> bool:
    """Whether something looks into a cell."""
    if cell in graph.outputs:
        return True
    for node, inside in _uses(graph, cell):
        if not node.regions:
            if node.op != "tg.cell_set":
                return True
            continue
        if (
            any(_read(region, value) for region, value in inside)
            or cell in node.args[: lead(node) + carried(node)]
        ):
            return True
    return False


def _forget(graph: Graph, cell: Value) -> None:
    """Drop what is put into a cell, and what passes it to regions."""
    for node, inside in _uses(graph, cell):
        for region, value in inside:
            _forget(region, value)
        if node.regions:
            keep_inputs(node, [a is not cell for a in passed(node)])
        else:
            graph.nodes.remove(node)
