"""A graph as one whose values are tensors of fixed size and numbers: for plans, whose memory is there before they run.

Lists, optionals and sizes that a run decides become parts of fixed size (``forms``); an item read is a ``select``, one
written a ``select_scatter``. Variables become values: a write is a further output, which the caller stores when
the whole graph has run, so that a graph that fails has changed nothing. Assertions and ``raise`` become positions out of
range, which fail as those do. What has no bound, and all that acts on the host, is ``Unsupported``.

``Bounded.graph`` is a graph like any other, with the same meaning as the old one up to ``pack`` and ``unpack``: the
reference interpreter runs it. It fails where the old one does, or where a list grows past its capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import passes
from ..graph.counting import step_of
from ..graph.families import CONJUNCTIONS
from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ordering import node_effects, set_control_inputs
from . import (
    bounded_draws,
    bounded_lists,
    bounded_lookups,
    bounded_masks,
    bounded_sizes,
    bounded_state,
    bounded_views,
)
from .bounding import Bounding
from .forms import Form, form_of

CAPACITY = 256  # items of a list in a loop without a known bound
HANDLERS = {
    **bounded_state.HANDLERS,
    **bounded_lists.HANDLERS,
    **bounded_sizes.HANDLERS,
    **bounded_views.HANDLERS,
    **bounded_draws.HANDLERS,
    **bounded_lookups.HANDLERS,
    **bounded_masks.HANDLERS,
}


@dataclass
class Bounded:
    """``inputs`` and ``outputs``: the forms of the old graph's. ``written``: the inputs whose new values follow the outputs.

    ``from_host``, ``to_host``: the inputs that are on the CPU, and the outputs that the caller gets there (``transfers``).
    """

    graph: Graph
    inputs: list[Form]
    outputs: list[Form]
    written: list[int]
    capacity: int
    from_host: frozenset[int] = frozenset()
    to_host: frozenset[int] = frozenset()

    def pack(self, inputs: Sequence[Any]) -> list[Any]:
        """The parts of run-time inputs. ``Full`` where a list is too long."""
        return [p for form, x in zip(self.inputs, inputs, strict=True) for p in form.pack(x)]

    def unpack(self, outputs: Sequence[Any]) -> tuple[list[Any], list[torch.Tensor]]:
        """(the old graph's outputs, new values of the written inputs)."""
        parts = iter(outputs)
        return [form.unpack(parts) for form in self.outputs], list(parts)


def bounded(graph: Graph, device: str, capacity: int | None = None) -> Bounded:
    """The graph with parts of fixed size. ``capacity``: of its lists; by its loops' bounds unless it is given."""
    found = _bound(graph)
    room = capacity or found or CAPACITY
    arrays, calls = (_has(graph, lambda n, kind=kind: n.op.startswith(kind)) for kind in ("tg.array_", "tg.py_"))  # fmt: skip
    made = Bounding(device, room, arrays, calls, HANDLERS)
    new = Graph(graph.name)
    inputs = []
    for v in graph.inputs:
        inputs.append(form_of(v.type, room, device))
        made.enter(new, v, inputs[-1])
    outputs = made.run(graph, new)
    written = [i for i, v in enumerate(graph.inputs) if v in made.current]
    new.outputs = [made.as_value(new, p, t) for r in outputs for p, t in zip(r.parts, r.form.types)]
    new.outputs += [made.current[graph.inputs[i]].value for i in written]
    for step in (passes.cse, passes.loop_state, passes.prune):
        new = step(new)
    if _has(new, lambda n: not n.regions and node_effects(n).io):
        set_control_inputs(new)  # the order of what the host does
    return Bounded(new, inputs, [r.form for r in outputs], written, room)


# ---- bounds


def _bound(graph: Graph) -> int | None:
    """The most items that a list can get, as far as loops say it: None where one is open."""
    most = 8
    for node in graph.nodes:
        for region in node.regions.values():
            inner = _bound(region)
            if inner is None:
                return None
            most = max(most, inner)
        if node.op == "While" and _grows(node.regions["body"]):
            trips = _Trips(node).most()
            if trips is None:
                return None
            most = max(most, trips)
    return most + sum(len(n.args) for n in graph.nodes if n.op == "tg.list_of")


def _has(graph: Graph, test: Callable[[Node], bool]) -> bool:
    """Whether a node of a graph, inner ones too, is so."""
    return any(map(test, all_nodes(graph)))


def _grows(graph: Graph) -> bool:
    return _has(graph, lambda n: n.op in _GROWING)


_GROWING = frozenset(["tg.list_push", "tg.list_extend", "tg.list_insert", "tg.array_write"])


class _Trips:
    """How often a loop runs at most: where it counts up from a known number to a known one."""

    def __init__(self, node: Node):
        self.node = node
        self.place = {v: i for i, v in enumerate(node.regions["cond"].inputs)}

    def most(self) -> int | None:
        return self._bound(self.node.regions["cond"].outputs[0])

    def _bound(self, test: Any) -> int | None:
        made = test.node if isinstance(test, Value) else None
        if made is None:
            return None
        if made.op in CONJUNCTIONS:
            return next((n for v in made.inputs if (n := self._bound(v)) is not None), None)
        if made.op in ("aten.scalar_tensor.default", "py.bool", "py.int"):
            return self._bound(made.args[0])
        if made.op == "If" and _false(made.regions["orelse"].outputs[0]):
            return self._branch(made)
        return self._counted(made)

    def _branch(self, made: Node) -> int | None:
        """Both the predicate and what is chosen have to be true."""
        then, place = made.regions["then"], self.place
        place.update((v, place[a]) for v, a in zip(then.inputs, made.args[1:]) if a in place)
        first = self._bound(made.args[0])
        return self._bound(then.outputs[0]) if first is None else first

    def _counted(self, made: Node) -> int | None:
        if made.op != "py.lt" or type(made.args[1]) is not int or made.args[0] not in self.place:
            return None
        i = self.place[made.args[0]]
        start, size = self.node.args[i], step_of(self.node, i)
        if type(start) is not int or size < 1:
            return None
        return max(-(-(made.args[1] - start) // size), 0)


def _false(v: Value) -> bool:
    made = v.node
    return (
        made is not None
        and made.op in ("py.constant", "aten.scalar_tensor.default")
        and made.args[0] is False
    )
