"""Gradients with respect to what a staged construct gives, of other things that it gives.

An output of an ``If`` or ``While`` is a value of its own: torch's engine does not see that a branch computed another output from it. A
gradient that would have to go that way is refused, since what is found without it is another number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..graph.ir import Graph, Node, Value
from ..library import grads
from ..symbols.funcgraph import current_graph, user_location
from ..writes import iterations
from .dependence import NOTHING, Dependence, output_dependences
from .list_items import check_items

_SEED: Dependence = frozenset([0])


def separate(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], every: bool) -> None:
    """GradientError where ``outputs`` depend on what a construct computed from one of ``inputs``, which it gives too.

    ``every``: the gradient is one for all leaves, so also for those that its regions made.
    """
    if not every:
        check_items(outputs, inputs)
    asked: dict[Node, tuple[Any, set[int]]] = {}
    for x, value in current_graph().root.joined:
        if value.node is not None and (every or any(x is y for y in inputs)):
            asked.setdefault(value.node, (None, set()))[1].add(value.index)
    for x in inputs:
        call = getattr(x.grad_fn, "call", None)
        if call is not None:
            asked.setdefault(call.node, (call, set()))[1].add(x.grad_fn.indices[x.output_nr])
    if not asked:
        return
    edges: list[Any] = [(x.grad_fn, x.output_nr) for x in outputs if x.grad_fn is not None]
    edges += [e for n in iterations.behind(outputs) for e in n.next_functions if e[0] is not None]
    for fn, place in dict.fromkeys(edges):
        call = getattr(fn, "call", None)
        _, wanted = asked.get(getattr(call, "node", None), (None, set()))
        for i in sorted(wanted):
            j = fn.indices[place]
            if (
                i != j
                and i not in current_graph().root.tokens.get(call.node, ())
                and j in made_from(call.node, i, call.graph.graph)
            ):
                raise GradientError(
                    "a gradient is asked for with respect to a tensor that a staged branch or loop gives, of a value that it computed from "
                    "this tensor. Compute the value behind the branch or loop, or take the gradient inside of it.",
                    user_location(),
                )


def made_from(node: Node, i: int, graph: Graph) -> set[int]:
    """The other outputs of ``node`` that a region of it, or ``graph`` before it, computes from output ``i``."""
    found: set[int] = set()
    for region in [r for name, r in node.regions.items() if name not in ("cond", "gradient")]:
        found |= made_in(region, node, i, graph)
    if "carried" in node.kwargs:
        around = _known(graph, node.args[i], dict.fromkeys(graph.inputs, NOTHING), node)
        found.update(j for j in range(len(node.outputs)) if around.get(node.args[j]))
    return found - {i}


def made_in(region: Graph, node: Node, i: int, graph: Graph) -> set[int]:
    """Those that this ``region`` computes from output ``i``, or ``graph`` before it where the region passes that on."""
    if i >= len(region.outputs):
        return set()
    seed, skip = region.outputs[i], len(node.args) - len(region.inputs)
    known: dict[Value, Dependence] = dict.fromkeys(region.inputs, NOTHING)
    if seed in known:
        outer = node.args[skip + region.inputs.index(seed)]
        around = _known(graph, outer, dict.fromkeys(graph.inputs, NOTHING), node)
        known = {v: around.get(a, NOTHING) for v, a in zip(region.inputs, node.args[skip:])}
    known = _known(region, seed, known)
    return {j for j, v in enumerate(region.outputs) if known.get(v)} - {i}


def _known(
    graph: Graph, seed: Value, known: dict[Value, Dependence], end: Node | None = None
) -> dict[Value, Dependence]:
    """What is computed from ``seed``, itself included, up to a node."""
    if seed in known:
        known[seed] = _SEED
    for node in graph.nodes:
        if node is end:
            break
        known.update(zip(node.outputs, output_dependences(node, known)))
        if seed in node.outputs:
            i = node.outputs.index(seed)
            known.update((node.outputs[j], _SEED) for j in {i, *made_from(node, i, graph)})
    return known


grads.SEPARATE = separate
