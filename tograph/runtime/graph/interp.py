"""The reference interpreter: what a graph means, in as few words as possible.

It runs one node after the other in program order with the reference of its op. It is the oracle: every
other way to run a graph must give what it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .ir import Graph, Node, Value, map_values
from .ops import catching, lookup

Runner = Callable[[Graph, Sequence[Any]], list[Any]]


def run(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of ``graph`` for run-time values ``inputs``."""
    env: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=False))
    for node in graph.nodes:
        with torch.set_grad_enabled(torch.is_grad_enabled() and node.grad):
            results = step(node, env)
        env.update(zip(node.outputs, results, strict=False))
    return [env[v] for v in graph.outputs]


def step(node: Node, env: dict[Value, Any], run: Runner = run) -> Sequence[Any]:
    """The outputs of one node; ``run`` runs the graphs that it holds."""
    args = map_values(env.__getitem__, node.args)
    if node.op in _REGIONS:
        return _REGIONS[node.op](node, args, run)
    kwargs = map_values(env.__getitem__, node.kwargs)
    result = lookup(node.op).run(*args, **kwargs)
    return result if isinstance(result, (tuple, list)) and _many(node) else (result,)


def _many(node: Node) -> bool:
    """Whether the op gives a sequence of outputs rather than one output that may be a tuple."""
    if node.op.startswith(("aten.", "op.")):
        return True
    return lookup(node.op).outputs != 1


def _if(node: Node, args: tuple, run: Runner) -> Sequence[Any]:
    return run(node.regions["then" if args[0] else "orelse"], args[1:])


def _case(node: Node, args: tuple, run: Runner) -> Sequence[Any]:
    branches = list(node.regions.values())
    index = int(args[0])
    return run(branches[index] if 0 <= index < len(branches) else branches[-1], args[1:])


def _while(node: Node, args: tuple, run: Runner) -> Sequence[Any]:
    carried = node.kwargs["carried"]
    state, rest = list(args[:carried]), args[carried:]
    while run(node.regions["cond"], [*state, *rest])[0]:
        state = run(node.regions["body"], [*state, *rest])
    return state


def _call(node: Node, args: tuple, run: Runner) -> Sequence[Any]:
    return run(node.regions["function"], args)


def attempt(node: Node, args: tuple, run: Runner) -> Sequence[Any]:
    """A ``Try``: its body, else the handler of the first class that the exception is of."""
    kinds = [k.value for k in node.kwargs["kinds"]]
    try:
        return run(node.regions["body"], args)
    except tuple(k for kind in kinds for k in kind) as error:
        chosen = next(
            (i for i, kind in enumerate(kinds) if isinstance(error, catching(kind))), None
        )
        if chosen is None:
            raise
        return run(node.regions[f"handler{chosen}"], args)


_REGIONS = {"If": _if, "Case": _case, "While": _while, "Call": _call, "Try": attempt}
