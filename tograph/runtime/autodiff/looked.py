"""What a call has saved for its gradient, and a run's gradient does not look at: what only a branch that was not taken would have saved.

torch refuses a gradient where something that a node has saved was written in place since, and does not save what comes from inference mode. A
tensor that a backward graph takes to regions alone is **doubtful**: eager PyTorch has saved it in runs that took one of these. The graph
is asked whether it is looked at where torch refuses; before that nothing is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value, values_in
from ..graph.ops import takes_size
from ..graph.ordering import prune, set_control_inputs
from ..graph.rewrite import carried, copied, lead, passed
from ..writes.stale import MODIFIED, let
from .paths import Terms, Way, taken


class Doubtful:
    """``places``: the doubtful ones among what is stored for a backward graph, its first inputs, of which ``tensors`` are tensors."""

    def __init__(self, backward: Graph, tensors: Sequence[int], build: Callable[..., Any]):
        self.backward, self.build = backward, build
        directly = {v for n in backward.nodes for v in _directly(n)}.union(backward.outputs)
        self.places = [k for k in tensors if backward.inputs[k] not in directly]
        self.order = {k: i for i, k in enumerate(tensors)}
        self._program: tuple[Any, list[Way]] | None = None

    def versions(self, stored: Sequence[Any]) -> list[int]:
        """Those of the doubtful tensors."""
        return [0 if stored[k].is_inference() else stored[k]._version for k in self.places]

    def looked_at(self, given: Sequence[Any]) -> list[bool]:
        """For each of ``places`` whether the gradient looks at it, from all that the backward graph takes."""
        if self._program is None:
            self._program = self._build()
        program, ways = self._program
        answers = iter(program.run(*given) if program is not None else ())
        return [next(answers) if isinstance(way, Value) else way for way in ways]

    def _build(self) -> tuple[Any, list[Way]]:
        graph = copied(self.backward)
        found = _looks(graph, [graph.inputs[k] for k in self.places])
        graph.outputs = [way for way in found if isinstance(way, Value)]
        prune(graph)
        set_control_inputs(graph)
        return (self.build(graph, 0) if graph.outputs else None), found

    def storable(self, stored: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """What is stored, with new tensors for those of inference mode that the gradient does not look at."""
        made = list(stored)
        if any(stored[k].is_inference() for k in self.places):
            for k, looked in zip(self.places, self.looked_at([*stored, *cotangents])):
                if stored[k].is_inference() and not looked:
                    made[k] = torch.empty_like(stored[k])
        return made

    def let(self, ctx: Any) -> None:
        """Let torch give the doubtful tensors whatever their versions are; its RuntimeError for a leaf that has got a history since."""
        raw = ctx._raw_saved_tensors
        for k in self.places:
            let(raw[self.order[k]], None, torch.Tensor.detach)


def modified(error: RuntimeError) -> bool:
    """Whether torch refuses what was written since it was saved."""
    return MODIFIED in str(error)


def _directly(node: Node) -> Sequence[Value]:
    """The values that a node looks at itself."""
    if node.op == "While":
        return _by_loop(node)
    if node.op in ALTERNATIVES:
        return [v for v in node.args[: lead(node)] if isinstance(v, Value)]
    return list(values_in((node.args[1:], node.kwargs))) if takes_size(node.op) else node.inputs


def _by_loop(node: Node) -> Sequence[Value]:
    """The state of a loop, and what of the rest an iteration may look at."""
    seen = [everything(r) for r in node.regions.values()]
    state, places = carried(node), range(len(node.args))
    looked = [i for i in places if i < state or any(r.inputs[i] in s for r, s in zip(node.regions.values(), seen))]  # fmt: skip
    return [v for i in looked if isinstance(v := node.args[i], Value)]


def everything(graph: Graph) -> set[Value]:
    """What a graph looks at in some run."""
    found = set(graph.outputs)
    for node in graph.nodes:
        found.update(_directly(node))
        if node.op in ALTERNATIVES:
            for region in node.regions.values():
                seen = everything(region)
                found.update(v for v, x in zip(passed(node), region.inputs) if x in seen)
    return found


def _looks(graph: Graph, values: Sequence[Value]) -> list[Way]:
    """Whether a graph looks at each of some values in a run."""
    terms, found = Terms(graph), dict[Value, Way]()
    for node in list(graph.nodes):
        for v in dict.fromkeys(_directly(node)):
            found[v] = True
        if node.op in ALTERNATIVES:
            _choice(node, terms, found, set(values))
    for v in graph.outputs:
        found[v] = True
    return [found.get(v, False) for v in values]


def _choice(node: Node, terms: Terms, found: dict[Value, Way], wanted: set[Value]) -> None:
    skip, told = lead(node), dict[tuple[Way | None, ...], Value]()
    places = [i for i, v in enumerate(node.args[skip:]) if v in wanted and found.get(v) is not True]
    rows = [_looks(r, [r.inputs[i] for i in places]) for r in node.regions.values()]
    for i, ways in zip(places, zip(*rows, strict=True)):
        v = node.args[skip + i]
        if any(way is not False for way in ways):
            found[v] = terms.either(found.get(v, False), taken(node, ways, told, terms))
