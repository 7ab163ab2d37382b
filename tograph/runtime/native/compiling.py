"""A graph becomes machine code: the passes that lowering needs, and what earlier graphs left.

``compile_graph(graph)`` gives a ``Native`` or raises ``Decline`` with the reason.

A graph with the text of an earlier one (another instance of a module, a function that is decorated again, a cleared cache)
takes that one's code, with memory of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.ordering import set_control_inputs
from ..graph.rewrite import copied
from ..graph.text import python_objects, show
from ..graph.types import Type
from ..kernels import jit
from ..passes import optimize
from ..passes.fork import forked
from ..passes.lift_writes import lifted, writes_inside
from ..passes.settle import commits, has_try, uncommit, unwrapped
from . import extents, results
from .added import added
from .alike import alike
from .batch_norms import normalised
from .complex_pairs import paired
from .composed import composed
from .created import created
from .direct import Late
from .form import Layout, form_of
from .group_norms import grouped
from .groups import remembering
from .layer_norms import rescaled
from .leaving import Indices, Leaving
from .list_types import typed
from .lower import Lowering
from .packing import packed
from .pads import joined
from .placed import placed
from .program import Lowered, Native
from .results import View
from .saving import copied_in_nests
from .text_types import texts_typed
from .values import Decline, Noncontiguous

ALL = Leaving()
# What makes a graph of others: each gives the graph itself where it changes nothing.
REWRITES = (
    composed,
    normalised,
    grouped,
    rescaled,
    paired,
    typed,
    texts_typed,
    created,
    packed,
    joined,
    alike,
    added,
)
KEPT = 64  # lowered graphs, for those that have the same text
_lowered: dict[tuple[Any, ...], Lowered] = {}


def compile_graph(graph: Graph, leaving: Leaving = ALL, layout: Layout = ()) -> Native:
    """The machine code of ``graph``; Decline says why there is none.

    ``layout``: the strides of inputs that are not contiguous.
    """
    if jit.host() is None:
        raise Decline("there is no LLVM in this process")
    given, lost = graph, [results.is_lost(v) for v in graph.outputs[: leaving.visible]]
    # Where something fails the host runs all of it.
    if commits(graph):
        graph = uncommit(copied(graph))
    if has_try(graph) or writes_inside(graph):
        graph = optimize(lifted(unwrapped(forked(copied(graph)))), inference=False)
    made = graph = placed(graph, leaving.visible)
    views = results.taken(graph, leaving.visible)
    if any(x and (v not in views or views[v].base.node) for v, x in zip(graph.outputs, lost)):
        raise Decline("a view, at a place that only the run knows, of what may be an argument")
    for rewrite in REWRITES:
        made = rewrite(made)
    if made is given:
        made = copied(given)
    set_control_inputs(made, late=True)  # no pass above has kept what nodes wait for
    graph = copied_in_nests(made)
    try:
        return _native(graph, leaving, layout, results.taken(graph, leaving.visible))
    except Noncontiguous:
        views = results.taken(graph, leaving.visible, everywhere=True)
    try:
        return _native(graph, leaving, layout, views)
    except Noncontiguous as found:
        if not (found.turned or found.within) or any(map(results.origins, found.within)):
            raise
        views, nodes = results.laid_out(graph.outputs, views, found.turned, found.within)
        return _native(graph, leaving, layout, views, nodes)


def _native(
    graph: Graph,
    leaving: Leaving,
    layout: Layout,
    views: dict[Value, View],
    last: Sequence[Node] = (),
) -> Native:
    """The native code of ``graph`` without ``views``, which are taken of what it gives; ``last`` come behind its nodes."""
    distinct = _computed(graph, views, last)
    private = set(distinct.outputs) - set(results.without(graph.outputs[: leaving.visible], views))
    # Two graphs may have the same text and print to two files.
    objects = tuple(id(x.value) for _, x in python_objects(graph))
    key = (
        show(graph),
        objects,
        leaving,
        layout,
        frozenset(map(graph.outputs.index, views)),
        len(last),
    )
    low = _lowered.pop(key, None)
    if low is None:
        indices = leaving.indices(graph.outputs, set(distinct.outputs))
        low = _lower(distinct, private, layout, indices)
    _lowered[key] = low  # the latest is last
    while len(_lowered) > KEPT:
        _lowered.pop(next(iter(_lowered)), None)
    return Native(form_of(graph, distinct, leaving.visible, layout, views), low)


def _lower(graph: Graph, private: set[Value], layout: Layout, indices: Indices) -> Lowered:
    """Lower ``graph``, once more where it turns out that something was assumed that does not hold."""
    in_place, strided, in_order = True, set[Value | Type](), extents.all_in_order(graph)
    with remembering():
        while True:
            low = Lowering(graph, in_place, private, strided, layout, indices, in_order)
            try:
                text = low.run()
                if not low.surprises:
                    return Lowered(
                        text,
                        low.kernels,
                        low.arena.size,
                        low.asked,
                        low.buffers.count,
                        list(low.texts),
                        {i: low.own[v] for i, v in enumerate(graph.outputs) if v in low.own},
                        low.generators,
                    )
            except Late:
                in_place = False
            except (Decline, Noncontiguous):
                if low.surprises:  # it may be for the wrong strides
                    pass
                elif in_order:  # or for strides that only the run knows
                    in_order = False
                else:
                    raise
            strided |= low.surprises


def _seen(graph: Graph) -> list[bool]:
    """For each node, whether it is no assignment that is followed by another one, without a look at the variable between."""
    replaced: set[Value] = set()
    out = []
    for node in reversed(graph.nodes):
        assigns = node.op == "tg.assign"
        out.append(not assigns or node.args[0] not in replaced)
        if assigns:
            replaced.add(node.args[0])
        else:
            replaced.difference_update(node.inputs)
    return out[::-1]


def _computed(graph: Graph, views: dict[Value, View], last: Sequence[Node]) -> Graph:
    """``graph`` and ``last`` with each output once, without those that are inputs or ``views``, and without assignments that nobody sees."""
    made = Graph(graph.name)
    made.inputs, made.input_names = graph.inputs, graph.input_names
    made.nodes = [*(n for n, seen in zip(graph.nodes, _seen(graph)) if seen), *last]
    given = set(graph.inputs)
    made.outputs = [v for v in results.without(graph.outputs, views) if v not in given]
    return made
