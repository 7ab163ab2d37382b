"""Histories that a gradient taken inside of the function has freed.

``loss.backward()`` without ``retain_graph`` frees what the history of ``loss`` saved, and PyTorch refuses a second gradient
through it. While a function is traced nothing is freed, since a branch that is not taken frees nothing: ``Root.freed`` tells
which node of torch's autograd was freed in which graph. A second gradient is torch's error in the runs in which that graph ran (``autodiff.freed_runs``). A loop body frees what it finds outside for its next iteration, so that is an error in the first, once it is known
what the state is: not what a dict held before the loop where each iteration replaces it.

Where a value whose history is freed on every path leaves a graph, it leaves as ``tg.identity(x, True)``, which no gradient
passes: a call keeps nothing for one that eager PyTorch would refuse. Where only the run knows, it leaves the function as ``tg.identity(x, freed)``, whose gradient
is torch's error where that is so.

Invariant: a trace in which no gradient was taken pays for none of this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from ..graph.ir import Graph, Node, Value
from ..graph.types import ListType
from ..symbols.funcgraph import FuncGraph, current_graph
from . import iterations

Edge = tuple[Any, int]  # a node of torch's autograd and one of its outputs
Arrived = dict[
    Any, list[tuple[int, torch.Tensor]]
]  # by node the cotangents that came to its outputs
MESSAGE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
    "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(), here in the function itself. "
    "Specify retain_graph=True there if you need to backward through the graph a second time."
)


def is_freed(value: Value) -> bool:
    """Whether a value leaves its graph with a history that was freed."""
    node = value.node
    return node is not None and node.op == "tg.identity" and node.args[1:] == (True,)


def executed(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[Any]:
    """The nodes that a gradient of ``outputs`` with respect to ``inputs`` goes through."""
    return reached(visited(outputs, inputs), outputs)


def visited(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[Any]:
    """The nodes that torch's engine calls for it, some of them with no gradient."""
    wanted = {(x.grad_fn, x.output_nr) for x in inputs if x.grad_fn is not None}
    leaves = {id(x) for x in inputs if x.grad_fn is None}
    found, leads, todo = [], {}, [(x.grad_fn, False) for x in outputs]
    while todo:
        node, done = todo.pop()
        if node is None or (node in leads and not done):
            continue
        if not done:
            leads[node] = False
            todo += [(node, True), *((n, False) for n, _ in node.next_functions)]
        elif id(getattr(node, "variable", None)) in leaves:
            leads[node] = True  # it holds the leaf
        elif any(edge in wanted or leads.get(edge[0]) for edge in node.next_functions):
            leads[node] = True
            found.append(node)
    return found


def reached(nodes: list[Any], outputs: Sequence[torch.Tensor]) -> list[Any]:
    """Those of the nodes that the engine calls to which a gradient may come: behind the state of a loop, what that may be computed from."""
    if not any(map(_is_past, nodes)):
        return nodes
    comes = _behind(outputs)
    return [node for node in nodes if node in comes or _is_past(node)]


def _behind(outputs: Sequence[torch.Tensor]) -> set[Any]:
    """The nodes that ``outputs`` lead to."""
    seen, todo = set(), [x.grad_fn for x in outputs]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [n for n, _ in _following(node)]
    return seen


def _following(node: Any) -> Sequence[Edge]:
    """The edges that a gradient goes on by: from the state of a loop to what that was computed from before the loop, which is nothing for a leaf."""
    told = getattr(node, "told", None)
    if told is None:
        return node.next_functions
    own = [e for e in node.next_functions if not _is_past(e[0])]
    past = next((n for n, _ in node.next_functions if _is_past(n)), None)
    if told.leaf or past is None:
        return own
    some = node.earlier.come_to([told.name])
    return [*own, *(e for e, comes in zip(past.next_functions, some, strict=True) if comes)]


def _is_past(node: Any) -> bool:
    """Whether a node stands for the way from the state of a loop to what was before it."""
    return hasattr(node, "earlier") and not hasattr(node, "told")


def AGAIN(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], nodes: Sequence[Any]
) -> Sequence[Any]:
    """An error of the runs in which a gradient of ``outputs`` by ``inputs``, which goes through ``nodes``, comes to what was freed in them.

    Those of the nodes that it comes to by items of lists, of which the run tells by what comes to them. Set by ``autodiff``.
    """
    raise RuntimeError(MESSAGE)


def LEFT(x: torch.Tensor) -> bool | Value:
    """Whether a run has freed something that a gradient of ``x`` comes to, which is taken where the trace ends: what the current graph says, where only the run knows. Set by ``autodiff``."""
    return False


@contextmanager
def ARRIVING(
    nodes: Sequence[Any], outputs: Sequence[torch.Tensor], again: Sequence[Any]
) -> Iterator[Arrived]:
    """While torch's engine goes through ``nodes``: what comes to those that items of lists lead to, an error of the run where it is one of ``again``. Set by ``autodiff``."""
    yield {}


def ONCE(outputs: Sequence[torch.Tensor], nodes: Sequence[Any], body: FuncGraph) -> bool:
    """Whether each iteration of a loop comes to others of the ``nodes`` from before the loop, to which items of lists lead; an error where that is not known. Set by ``autodiff``."""
    return False


def free(
    nodes: Collection[Any],
    outputs: Sequence[torch.Tensor],
    arrived: Mapping[Any, Sequence[tuple[int, torch.Tensor]]],
) -> None:
    """Note that a gradient of ``outputs`` has gone through ``nodes`` and kept nothing; as of ``arrived`` in those runs where that is not zero."""
    here = current_graph()
    graph: FuncGraph | None = here
    while graph is not None:
        if graph.repeats:
            outside = {node for x in _captured(graph) for node, _ in _history(x)}
            again = [n for n in _direct(nodes, outputs, graph) if n in outside and saves(n)]
            if again and not (all(n in arrived for n in again) and ONCE(outputs, again, graph)):
                if graph.settled:
                    raise RuntimeError(MESSAGE)
                graph.frees = True
        graph = graph.outer
    used: dict[Any, set[int]] = {}
    for x in outputs:
        for node, n in _history(x):
            used.setdefault(node, set()).add(n)
    for node in nodes:
        if node in used:  # others only lead to other outputs of a recorded node
            _note(node, used[node], here, arrived)


def _note(
    node: Any,
    outputs: set[int],
    here: FuncGraph,
    arrived: Mapping[Any, Sequence[tuple[int, torch.Tensor]]],
) -> None:
    root = here.root
    if hasattr(node, "call"):
        root.freed_outputs.setdefault(node, {}).setdefault(here, set()).update(outputs)
    old = root.freed.get(node, here)
    if not old.within(here):
        root.freed_too.setdefault(node, []).append(old)
    partly = node in arrived and (node not in root.freed or node in root.freed_by)
    if partly and old is here:
        root.freed_by[node] = [*root.freed_by.get(node, ()), *arrived[node]]
    else:
        root.freed_by.pop(node, None)
    root.freed[node] = here


def _direct(
    nodes: Collection[Any], outputs: Sequence[torch.Tensor], loop: FuncGraph
) -> Iterator[Any]:
    """Those of ``nodes`` that ``outputs`` lead to otherwise than by the state that an iteration of ``loop`` begins with.

    By the state the first iteration only comes to them, unless what an iteration leaves leads back to the state.
    """
    among, seen = set(nodes), set()
    todo = [x.grad_fn for x in outputs]
    while todo:
        node = todo.pop()
        earlier = getattr(node, "earlier", None)
        if node in among and node not in seen and (earlier is None or earlier.body is not loop):
            seen.add(node)
            yield node
            todo += [n for n, _ in node.next_functions]


def leaving(graph: FuncGraph, outputs: list[Value]) -> list[Value]:
    """The outputs of a graph, those with a freed history marked."""
    if not graph.root.freed:
        return outputs
    made: dict[Value, Value] = {}
    for v in dict.fromkeys(outputs):
        x = graph.sources.get(v)
        if x is None or v.node is None or getattr(x, "mixed_", ""):  # a leaf has nothing to free
            continue
        way = _over(x, graph, _begin(v, graph, outputs))
        if not way and graph.outer is None and not isinstance(v.type, ListType):
            way = LEFT(x)
        if way is not False:
            made[v] = graph.emit("tg.identity", v, way, type=v.type)
    return [made.get(v, v) for v in outputs]


def is_over(value: Value, graph: FuncGraph) -> bool:
    """Whether the history of a value is freed, here or in all regions that may give it."""
    x = graph.sources.get(value)
    here = x is not None and _over(x, graph)
    return here or _is_freed_within(value)


def _over(x: torch.Tensor, graph: FuncGraph, begin: Value | None = None) -> bool:
    """Whether the history of a tensor is freed in some place that it surely leads to; of a list, that of each of its items.

    ``begin``: the list with which an iteration begins that leaves ``x`` for the next. Of its items it is so if it was before the loop.
    """
    known: dict[Edge, tuple[bool, bool]] = {}  # of a list: of each item, of some
    todo = [((x.grad_fn, x.output_nr), False)]
    while todo:
        edge, done = todo.pop()
        if edge[0] is None or (edge in known and not done):
            continue
        behind = _behind_edge(edge)
        if not done:
            known[edge] = False, False
            todo += [(edge, True), *((e, False) for e in behind)]
        else:
            taken = [known.get(e, (False, False)) for e in edge[0].next_functions]
            known[edge] = _over_here(edge, [known[e] for e in behind], taken, graph, begin)
    return all(known.get((x.grad_fn, x.output_nr), (False, False)))


_PUTS = ("tg.list_of", "tg.list_push", "tg.list_insert", "tg.list_extend")  # they leave all that was in a list  # fmt: skip
_WHOLE = ("tg.list_stack", "tg.list_concat")


def _only_puts(node: Node) -> bool:
    """Whether a node leaves all that was in lists."""
    if not node.regions:
        return node.op in _PUTS or not any(isinstance(v.type, ListType) for v in node.outputs)
    return all(_only_puts(n) for r in node.regions.values() for n in r.nodes)


def _over_here(
    edge: Edge, behind: Sequence[tuple[bool, bool]], taken: Sequence[tuple[bool, bool]], graph: FuncGraph, begin: Value | None
) -> tuple[bool, bool]:  # fmt: skip
    """As of ``known``, from that of the edges ``behind``; ``taken``: that of all edges of the node."""
    node, output = edge
    each, some = all(e for e, _ in behind), any(s for _, s in behind)
    if _refuses(node, output, graph):
        return True, True
    if hasattr(node, "items_of"):
        return (node.items_of is begin and each), some
    call = getattr(node, "call", None)
    if call is not None and isinstance(call.node.outputs[node.indices[output]].type, ListType):
        if call.node.regions:  # lists that it takes are in what it gives
            lists = [isinstance(call.inputs[i].type, ListType) for i in call.tensors]
            some = any(s for (_, s), of_list in zip(taken, lists) if of_list)
        return each, (some if _only_puts(call.node) else each)
    if call is not None and call.node.op in _WHOLE:
        return some, some
    if call is not None and call.node.regions:
        return (
            any(e and s and iterations.SURELY(node, output, k) for k, (e, s) in enumerate(taken)),
        ) * 2
    return (any(e and s for e, s in behind),) * 2


def _behind_edge(edge: Edge) -> Sequence[Edge]:
    """The edges that the history of an output of a node goes on by in this iteration."""
    node, output = edge
    if hasattr(node, "told"):
        return ()
    if hasattr(node, "items_of"):
        return [e for e in node.next_functions if not _is_past(e[0])]
    call = getattr(node, "call", None)
    if call is None or not node.indices:
        return [e for e in node.next_functions if e[0] is not None]
    open_ = call.behind(node.indices[output])
    return [e for e, some in zip(node.next_functions, open_, strict=True) if some]


def _begin(value: Value, graph: FuncGraph, outputs: Sequence[Value]) -> Value | None:
    """What an iteration begins with for what it leaves as ``value``."""
    places = [i for i, v in enumerate(outputs) if v is value]
    if not graph.repeats or len(places) != 1 or places[0] >= len(graph.graph.inputs):
        return None
    return graph.graph.inputs[places[0]]


def _is_freed_within(value: Value) -> bool:
    regions = () if value.node is None else value.node.regions.items()
    left = [r.outputs[value.index] for k, r in regions if k not in ("cond", "gradient")]
    return is_freed(value) or (bool(left) and all(map(_is_freed_within, left)))


def agree(regions: Sequence[Graph]) -> None:
    """Take the mark from outputs of the branches of a node that not all of them free."""
    for i in range(len(regions[0].outputs)):
        marked = [r for r in regions if is_freed(r.outputs[i])]
        if len(marked) < len(regions):
            for r in marked:
                r.outputs[i] = r.outputs[i].node.args[0]


def _history(x: torch.Tensor) -> Iterator[Edge]:
    """The nodes behind a tensor, each with the outputs of it that are used."""
    seen, todo = set(), [(x.grad_fn, x.output_nr)]
    while todo:
        edge = todo.pop()
        if edge[0] is None or edge in seen:
            continue
        seen.add(edge)
        yield edge
        source: Any = edge[0]
        call = getattr(source, "call", None)
        following = _following(source)
        if call is not None and source.indices:
            behind = call.behind(source.indices[edge[1]])
            following = [e for e, open_ in zip(following, behind, strict=True) if open_]
        todo += following


def _captured(graph: FuncGraph) -> list[torch.Tensor]:
    """The tensors from outside of a graph that have a history there."""
    return [graph.sources[v] for v in graph.captures.values() if v in graph.sources]


def _refuses(node: Any, output: int, here: FuncGraph) -> bool:
    """Whether eager PyTorch would refuse a gradient that comes to this output of a node."""
    graph = here.root.freed.get(node)
    outputs = here.root.freed_outputs.get(node, {})
    comes = not outputs or any(output in some for g, some in outputs.items() if here.within(g))
    if graph is not None and here.within(graph) and saves(node) and comes:
        return True
    call = getattr(node, "call", None)
    left = [] if call is None else call.left(node.indices[output])
    return bool(left) and all(map(is_freed, left))


def saves(node: Any) -> bool:
    """Whether a node has saved tensors; what is saved in a recorded construct is known when a gradient has gone through it."""
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        return node.call.saves if hasattr(node, "call") else _holds(node, "saved_tensors")
    return any(_holds(node, name) for name in fields(type(node)))


@cache
def fields(kind: type) -> tuple[str, ...]:
    """The fields of a class of nodes that are saved tensors."""
    return tuple(
        n.replace("_raw_saved_", "_saved_") for n in dir(kind) if n.startswith("_raw_saved_")
    )


def _holds(node: Any, field: str) -> bool:
    try:
        found = getattr(node, field)
    except RuntimeError:  # saved, and written in place since
        return True
    return isinstance(found, torch.Tensor) or bool(found)
