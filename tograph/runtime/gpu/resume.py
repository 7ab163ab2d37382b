"""What a plan does on the host while it runs: prints and calls of Python functions, and how a run goes on that failed after some.

A plan with such steps yields: the loops and branches around them are run by the host, and all between them is done on the
device as before. What each step gave is kept. Where a kernel fails later, the graph runs again from its start by the reference
interpreter, with what was kept in the place of those steps: nothing is printed or called twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..graph import interp
from ..graph.families import FORMATS
from ..graph.ir import Graph, Node
from ..graph.ordering import node_effects

# Ops that a plan leaves to the host, and the text that they are given.
HOST_OPS = frozenset(["tg.print", "py.dict_view", "tg.py_call", "tg.py_item", "tg.on_cpu", "py.str", *FORMATS])  # fmt: skip


def resumed(graph: Graph, inputs: Sequence[Any], log: Sequence[Any]) -> list[Any]:
    """The outputs of a graph whose first effects have happened. ``log``: for each what it gave, or the exception that it raised."""
    left = list(reversed(log))

    def run(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        env = dict(zip(graph.inputs, inputs, strict=True))
        for node in graph.nodes:
            env.update(zip(node.outputs, step(node, env), strict=False))
        return [env[v] for v in graph.outputs]

    def step(node: Node, env: dict) -> Sequence[Any]:
        if not left or node.op not in HOST_OPS or not node_effects(node).io:
            return interp.step(node, env, run)
        found = left.pop()
        if isinstance(found, BaseException):
            raise found
        return found

    with torch.no_grad():
        return run(graph, inputs)
