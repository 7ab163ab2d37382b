"""Which gradients that are taken inside of a function a run has: eager PyTorch gives None where no path leads to a tensor.

torch's engine goes through the nodes of its own history, in which a node of the graph with regions is one ``Attached``: whether a gradient
passes that, and to which inputs, are the ways of ``paths``, told by the node as it is extended. What a loop's state was computed from in earlier iterations its body says (``leading``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..library import grads
from ..library.beside import NONE, Beside
from ..symbols.funcgraph import FuncGraph, Ref, current_graph
from ..symbols.symbolic import value_of
from ..writes import iterations
from .by_items import in_order
from .connect import Call
from .paths import Terms, Way, Ways, through
from .plain import lead_to_own


def ways(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    beside: Beside = NONE,
    fields: bool = False,
) -> tuple[Way, list[Way]]:
    """Whether a gradient of ``outputs`` leads anywhere, and whether it comes to each of ``inputs``, as values of the current graph.

    ``beside``: the tensors by which it comes to ``inputs``, too. ``fields``: those that are leaves in some runs only have it in these.
    """
    if not (beside.passed or beside.tokens):
        return _ways(outputs, inputs)
    terms = Terms(current_graph().graph)
    some, found = _ways(outputs, [*inputs, *beside.tensors], True)
    made, place = found[: len(inputs)], {id(x): i for i, x in enumerate(inputs)}
    middle = len(inputs) + len(beside.passed)
    for i, x in enumerate(inputs if fields else ()):
        made[i] = made[i] if not getattr(x, "sometimes_", False) else False
    for k, ((i, _, _), way) in enumerate(zip(beside.tokens, found[middle:])):
        made[i] = terms.either(made[i], terms.both(way, beside.told.get(k, True)))
    for (i, x, flag, leaf), way in zip(beside.passed, found[len(inputs) : middle]):
        if fields and getattr(inputs[i], "sometimes_", False):
            continue
        made[i] = terms.either(made[i], terms.both(flag, way))
        if leaf and id(x) in place:
            j = place[id(x)]
            made[j] = terms.either(made[j], terms.both(flag, made[i]))
    return some, made


def _ways(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], exact: bool = False
) -> tuple[Way, list[Way]]:
    """``exact``: also which of ``inputs`` a history without staged constructs comes to, where the engine says that by None otherwise."""
    graph = current_graph()
    terms = Terms(graph.graph)
    ends = [(x.grad_fn, x.output_nr) for x in outputs if x.grad_fn is not None]
    order = in_order([node for node, _ in ends])
    if not exact and not any(hasattr(n, "call") or iterations.is_state(n) for n in order):
        return True, [True] * len(inputs)
    reached = _reached(order, ends, terms, graph)
    leaves: dict[int, Way] = {id(x): True for x in outputs if x.is_leaf}
    for node in order:
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaves[id(leaf)] = terms.any([leaves.get(id(leaf), False), *reached[node].values()])
    found = [_way(x, leaves, reached, terms, graph) for x in inputs]
    for i in iterations.asked(order, inputs):
        found[i] = _of_leaf(inputs[i].grad_fn, found[i], lambda x: _way(x, leaves, reached, terms, graph), terms, graph)  # fmt: skip
    mixed = [x for x in graph.root.retained if getattr(x, "mixed_", "") and x.grad_fn in reached]
    ends_at = [reached[x.grad_fn].get(x.output_nr, False) for x in mixed]
    some = terms.any([*leaves.values(), *ends_at])
    if some is not True and (graph.root.leaves or graph.root.left_leaves):
        # A history may end at a leaf that a region made and does not give.
        some = terms.either(some, lead_to_own([value_of(x, graph) for x in outputs], graph))
    return some, found


def _way(x: torch.Tensor, leaves: dict[int, Way], reached: dict[Any, dict[int, Way]], terms: Terms, graph: FuncGraph) -> Way:  # fmt: skip
    """The way by which a gradient comes to a tensor, by what comes to ``leaves`` and to nodes of autograd."""
    if x.grad_fn is None:
        return leaves.get(id(x), False)
    way = reached.get(x.grad_fn, {}).get(x.output_nr, False)
    return terms.both(way, _requires(x.grad_fn, graph))


def _of_leaf(fn: Any, direct: Way, way_of: Callable[[Any], Way], terms: Terms, graph: FuncGraph) -> Way:  # fmt: skip
    """The same of state that is a leaf from which earlier iterations may have computed other state: one of them made it, or it is the one from before the loop."""
    answer, entry = fn.earlier.answered.get(fn.index), fn.told.entry
    if direct is True or answer is None:
        return True
    made, came = (graph.resolve(Ref(v, graph)) for v in (answer.made, answer.came))
    before = terms.either(direct, way_of(entry) if isinstance(entry, torch.Tensor) else False)
    return terms.either(came, terms.both(terms.op("py.not", made), before))


def reached(outputs: Sequence[torch.Tensor], terms: Terms, graph: FuncGraph) -> dict[Any, dict[int, Way]]:  # fmt: skip
    """By node of autograd and output the way by which a gradient of ``outputs`` comes there."""
    ends = [(x.grad_fn, x.output_nr) for x in outputs if x.grad_fn is not None]
    return _reached(in_order([node for node, _ in ends]), ends, terms, graph)


def _reached(order: Sequence[Any], ends: Sequence[Any], terms: Terms, graph: FuncGraph) -> dict[Any, dict[int, Way]]:  # fmt: skip
    """By node and output the way by which a gradient of ``ends`` comes there."""
    reached: dict[Any, dict[int, Way]] = {node: {} for node in order}
    for node, n in ends:
        reached[node][n] = True
    states: dict[Any, list[tuple[Any, Way]]] = {}
    for node in order:
        state, past = iterations.is_state(node), iterations.past_of(node)
        if state:
            states.setdefault(node.earlier, []).append((node, terms.any(reached[node].values())))
        for k, (following, n) in enumerate(node.next_functions):
            if following is None or (state and iterations.past_of(following)):
                continue
            way = terms.any(_leaving(node, k, reached[node], terms, graph))
            if state:
                way = terms.both(way, _requires(node, graph))
            if past:
                way = terms.either(way, _past(past, k, states.get(past, ()), terms, graph))
            elif (
                state and not node.told.leaf
            ):  # what stands for a leaf that an earlier iteration made
                way = terms.both(way, _resolved(node.earlier.made_of_leaves(node), graph))
            reached[following][n] = terms.either(reached[following].get(n, False), way)
    return reached


def _requires(node: Any, graph: FuncGraph) -> Way:
    """Whether what a node of autograd stands for requires a gradient, where that is the state of a loop."""
    if not iterations.is_state(node):
        return True
    return _resolved(node.earlier.requires(node), graph)


def _resolved(found: bool | Ref, graph: FuncGraph) -> Way:
    return graph.resolve(found) if isinstance(found, Ref) else found


def _past(past: iterations.Earlier, k: int, states: Sequence[tuple[Any, Way]], terms: Terms, graph: FuncGraph) -> Way:  # fmt: skip
    """Whether what comes to the state of a loop goes on to the ``k``-th of the tensors outside."""
    found: Way = False
    for node, way in states:
        leads = past.leads(node, k)
        inner = graph.resolve(leads) if isinstance(leads, Ref) else leads
        found = terms.either(found, terms.both(way, inner))
    return found


def _surely(node: Any, output: int, k: int) -> bool:
    """As of ``iterations.SURELY``: through a staged construct where it is so on each of its ways."""
    call = getattr(node, "call", None)
    return call is None or _ways_to(call, node.indices[output]).get(list(call.tensors)[k]) is True


def _leaving(
    node: Any, k: int, arriving: dict[int, Way], terms: Terms, graph: FuncGraph
) -> list[Way]:
    """The ways by which what comes to the outputs of a node leaves it for its ``k``-th input."""
    call = getattr(node, "call", None)
    if call is None:
        return list(arriving.values())
    i = list(call.tensors)[k]
    found = []
    for n, way in arriving.items():
        inner = _ways_to(call, node.indices[n]).get(i, False)
        if not isinstance(inner, bool):
            # What stands before the state of a loop may be in a trace of its body that was given up.
            inner = graph.resolve(Ref(inner, call.graph)) if graph.within(call.graph) else True
        found.append(terms.both(way, inner))
    return found


def _ways_to(call: Call, output: int) -> Ways:
    """The ways to an output of a recorded node from the tensors that carry its inputs."""
    undone = call.graph.undone
    if undone and any(way in undone for ways in call.ways.values() for way in ways.values()):
        call.ways.clear()  # they were found in a trace that was given up
    if not call.ways:
        places = [k for k, depends in enumerate(call.depends()) if depends]
        call.ways.update(zip(places, _through(call, places)))
    if output not in call.ways:  # an output that it got since
        call.ways[output] = _through(call, [output])[0]
    return call.ways[output]


def _through(call: Call, places: Sequence[int]) -> list[Ways]:
    known: dict[Any, Ways] = {call.inputs[i]: {i: True} for i in call.tensors}
    return through(call.node, places, known, Terms(call.graph.graph, True))


grads.WAYS = ways
iterations.SURELY = _surely
