"""Gradient hooks of a name that a staged condition binds to one of several tensors.

The hook is a node behind the choice (``library.hooks``): it sees what comes to the tensor by way of that name. So it sees all, unless one of the
tensors is used by another name too: that is refused, at the end of the graph or where a gradient is taken.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import GradientError
from ..graph.ir import Node, Value
from ..symbols.carrier import differentiable
from ..symbols.funcgraph import FuncGraph

_SEVERAL = (
    "register_hook on a name that a staged condition binds to one of several tensors, which are used by other names too: whether the hook is "
    "there would depend on a value. Register it on the tensors themselves, with a hook that tests the condition."
)


def note(node: Node, options: set[Value], graph: FuncGraph) -> None:
    """``node`` is the hook of a name that may be each of ``options``."""
    graph.hooked.append((node, options))


def forget(node: Node, graph: FuncGraph) -> None:
    """The hook ``node`` is taken away."""
    graph.hooked = [noted for noted in graph.hooked if noted[0] is not node]


def check(graph: FuncGraph, ends: Iterable[Value]) -> None:
    """An error where a gradient of ``ends`` may come to one of the options another way."""
    for node, options in graph.hooked:
        reached, through = set(options), _choosing(node, options)
        for user in graph.graph.nodes:
            passes = user.grad and user.op != "aten.detach.default" and user not in through
            if passes and not reached.isdisjoint(user.inputs):
                reached.update(v for v in user.outputs if differentiable(v.type))
        if not reached.isdisjoint(ends):
            raise GradientError(_SEVERAL, node.location)


def check_gradient(graph: FuncGraph, ends: Iterable[Value]) -> None:
    """The same where a gradient of ``ends`` is taken, for the hooks of the graphs around too: in them it is one of what ``graph`` takes and computes ``ends`` of."""
    at: FuncGraph | None = graph
    while at is not None:
        check(at, ends)
        needed = set(ends)
        for node in reversed(at.graph.nodes):
            if node.grad and node.op != "aten.detach.default" and not needed.isdisjoint(node.outputs):  # fmt: skip
                needed.update(v for v in node.inputs if differentiable(v.type))
        ends = [v for v, inner in at.captures.items() if isinstance(v, Value) and inner in needed]
        at = at.outer if ends else None


def _choosing(node: Node, options: set[Value]) -> set[Node]:
    """A hook, and the nodes that choose what it is on."""
    found, todo = {node}, [node.args[1].node]
    while todo:
        n = todo.pop()
        if n is not None and n not in found and (n.regions or n.op == "tg.choose"):
            found.add(n)
            todo += [v.node for v in n.inputs if v not in options]
    return found
