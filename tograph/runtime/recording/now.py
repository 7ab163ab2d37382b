"""What values of the graph are in the call that is being traced: what is made for good while tracing begins with them.

Such an object may also draw at random, behind draws and seeds of the graph, which has not run yet. So these are made once for the sake of the
generators; then the object draws, the generators go back, and the graph goes on from the state that was reached (``in_order``). A trace in
which that happens serves one call: the next one does not make the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ...errors import CreationError
from ..graph import interp
from ..graph.generators import generators_of
from ..graph.ir import Node, Value
from ..graph.ordering import node_effects
from ..inference.infer import meta_of
from ..symbols.funcgraph import FuncGraph, Storage, current_graph, user_location
from ..symbols.symbolic import SymTensor, as_symbolic, value_of
from .tracing import suspended


def value_now(x: Any) -> Any:
    """The value that a tensor of the graph has in the call that is being traced."""
    if not isinstance(x, SymTensor):
        return x
    graph = current_graph()
    value = value_of(x, graph)
    now = _Now(graph)
    own = now.draws_of(value, graph)
    drawn = random_nodes(graph)
    if len(drawn) == len(own):
        with suspended(), torch.no_grad():
            return now.of(value, graph)
    if any(n is not o for (_, n), o in zip(reversed(drawn), reversed(own))):
        raise unknown("is drawn at random before other numbers: draw it last")
    with in_order(graph, len(own)), suspended(), torch.no_grad():
        return now.of(value, graph)


@contextmanager
def in_order(graph: FuncGraph, own: int = 0) -> Iterator[None]:
    """Code that may draw from torch's default generator while tracing, behind what the graph draws, but for the last ``own`` draws."""
    drawn = random_nodes(graph)
    drawn = drawn[: len(drawn) - own]
    if not drawn:
        before = torch.get_rng_state()
        yield
        graph.root.drew_from(before)
        return
    generators = (torch.default_generator, *generators_of(n for _, n in drawn))
    states = [(g, g.get_state()) for g in generators]
    try:
        why = _draw(drawn, graph)
        before = torch.get_rng_state()
        yield
        after = torch.get_rng_state()
    finally:
        for g, state in states:
            g.set_state(state)
    with suspended():
        drew = not torch.equal(before, after)
    if not drew:
        return
    if why is not None:
        raise CreationError(
            "what is made here draws at random, behind numbers that the graph draws, and which of these there are is not known yet: make it before them",
            user_location(),
        ) from why
    graph.root.keep.append(after)
    graph.add("tg.set_rng_state", (value_of(as_symbolic(after), graph),))


def random_nodes(graph: FuncGraph) -> list[tuple[FuncGraph, Node]]:
    """What draws or seeds so far, in order, with the graphs around this one."""
    chain: list[FuncGraph] = []
    at: FuncGraph | None = graph
    while at is not None:
        chain.insert(0, at)
        at = at.outer
    return [(g, n) for g in chain for n in g.graph.nodes if node_effects(n).random]


def _draw(drawn: Sequence[tuple[FuncGraph, Node]], graph: FuncGraph) -> CreationError | None:
    """Draw what the graph will draw; the error that tells why it cannot be."""
    now = _Now(graph, settles=False)
    try:
        with suspended(), torch.no_grad():
            for at, node in drawn:
                now.run(node, at)
    except CreationError as error:
        return error
    return None


class _Now:
    """Computes values of graphs that are being recorded, with the arguments of the call."""

    def __init__(self, graph: FuncGraph, settles: bool = True):
        self.root, self.settles = graph.root, settles
        self.known: dict[Value, Any] = {}

    def of(self, value: Value, graph: FuncGraph) -> Any:
        if value not in self.known:
            if value.node is None:
                self.known[value] = self._input(value, graph)
            else:
                self.run(value.node, graph)
        return self.known[value]

    def draws_of(self, value: Value, graph: FuncGraph) -> list[Node]:
        """The nodes that draw what a value is computed from, in order."""
        todo, seen = [value], set()
        while todo:
            node = todo.pop().node
            if node is not None and node not in seen:
                seen.add(node)
                todo += node.inputs
        return [n for n in graph.graph.nodes if n in seen and node_effects(n).random]

    def _input(self, value: Value, graph: FuncGraph) -> Any:
        key = next(k for k, v in graph.captures.items() if v is value)
        if not isinstance(key, Storage):
            return self.of(graph.arguments[key], graph.outer)
        if key.external is not None:
            return key.external
        found = self.root.given[key.argument] if key.argument is not None else None
        if not isinstance(found, torch.Tensor):
            raise unknown("depends on an argument that has no value here")
        return found

    def run(self, node: Node, graph: FuncGraph) -> None:
        effects = node_effects(node)
        if effects.io or effects.writes or (effects.reads and self.root.assigned):
            raise unknown("depends on effects of the same call")
        args = {v: self.of(v, graph) for v in node.inputs}
        results = interp.step(node, args)
        self.known.update(zip(node.outputs, results, strict=False))
        if effects.random and self.settles:
            self._settle(node, graph, results)

    @staticmethod
    def _settle(node: Node, graph: FuncGraph, results: Sequence[Any]) -> None:
        """What was drawn for a variable is drawn once: later calls find the number, not the draw."""
        if len(node.outputs) != 1:
            return
        storage = Storage(meta_of(results[0]), external=results[0])
        graph.root.keep.append(results[0])
        node.op, node.args, node.kwargs = "tg.read", (graph.reference(storage),), {}


def unknown(why: str) -> CreationError:
    return CreationError(f"the initial value of a variable {why}", user_location())
