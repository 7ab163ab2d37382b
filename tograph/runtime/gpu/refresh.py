"""Inputs that move from call to call, read where they are: nodes of a CUDA graph are told the new address before a launch.

That works for kernels and copies of the graph itself, not for those in the bodies of conditional nodes: the driver's functions take a
node of the graph that was instantiated, and none of them reaches into a body. So an input qualifies (``movable``) if a few steps outside
of loops and branches are all that read it, and if it is so large that the copy into the plan's memory costs more than that.

``Refresh`` finds the nodes while the graph is captured. It trusts none of them: a node whose parameters are not exactly what they are
expected to be is an error, and the input is copied. Not yet seen on a GPU; assumed are that Triton starts one kernel with the
parameters of its signature and two pointers behind them, and that torch copies contiguous memory by one copy node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..kernels import driver, images
from .plan import Copy, Plan, Run, Step, View
from .steps import bases, reads, size_of, walk, writes

LARGE = 1 << 22  # bytes: an estimate of where a copy takes as long as telling a few nodes
MOST = 4  # nodes that read an input


def movable(plan: Plan) -> dict[Any, None]:
    """The inputs of a plan whose readers can be told where they are."""
    of = bases(plan.steps)
    readers: dict[Any, list[Step]] = {}
    for step in plan.steps:
        for p in {of.get(p, p) for s in walk([step]) for p in reads(s)}:
            readers.setdefault(p, []).append(step)
    large = (v for v in plan.inputs if size_of(v) >= LARGE)
    return {v: None for v in large if _told(v, readers.get(v, []))}


def _told(place: Any, readers: Sequence[Step]) -> bool:
    direct = (
        isinstance(s, (Run, Copy)) and place in reads(s) and place not in writes(s) for s in readers
    )
    nodes = sum(len(s.pairs) if isinstance(s, Copy) else 1 for s in readers)
    return 0 < nodes <= MOST and all(direct)


def separate(plan: Plan, moving: Mapping[Any, Any]) -> Plan:
    """The plan with copies of moving inputs as steps of their own: each is one node."""
    steps: list[Step] = []
    for step in plan.steps:
        if isinstance(step, Copy) and any(b in moving for _, b in step.pairs):
            steps += [Copy([pair], step.location) for pair in step.pairs]
        else:
            steps.append(step)
    return replace(plan, steps=steps)


class Refresh:
    """``moving``: the inputs that are followed, each with the address that its nodes know."""

    def __init__(self, moving: Iterable[Any]):
        self.moving: dict[Any, int] = dict.fromkeys(moving, 0)
        self._nodes: list[
            tuple[Step, driver.Node, list[Any]]
        ] = []  # with the places of its parameters

    def note(self, step: Step, of: Mapping[Any, torch.Tensor], stream: Any) -> None:
        """Find the node of a step that ``stream`` has just captured, if it reads such an input. DriverError for one of another kind."""
        if isinstance(step, View) or self.moving.keys().isdisjoint(reads(step)):
            return
        node = driver.Node(stream)
        if isinstance(step, Run):
            given = {n: of[p] for n, p in step.arguments.items()}
            places: list[Any] = [step.arguments[n] for n in step.source.signature]
            node.expect(images.pack(step.source, given))
        elif isinstance(step, Copy):
            places = [step.pairs[0][1]]
            node.expect([of[places[0]].data_ptr()])
        for v in self.moving.keys() & {*places}:
            self.moving[v] = of[v].data_ptr()
        self._nodes.append((step, node, places))

    def complete(self, graph: Any) -> None:
        """DriverError where an input has no node, or a node of the instantiated graph is not told what it knows already."""
        if not all(self.moving.values()):
            raise driver.DriverError("an input that no node reads")
        for _, node, _ in self._nodes:
            node.set(graph, {})

    def tell(self, graph: Any, of: Mapping[Any, torch.Tensor]) -> int:
        """Tell the nodes of an instantiated graph where their inputs are now; how many had to be told."""
        moved = {v for v, at in self.moving.items() if of[v].data_ptr() != at}
        self.moving |= dict.fromkeys(
            moved, 0
        )  # unknown, where one node is told and the next one refuses
        told = 0
        for _, node, places in self._nodes:
            if not moved.isdisjoint(places):
                node.set(graph, {k: of[p].data_ptr() for k, p in enumerate(places) if p in moved})
                told += 1
        for v in moved:
            self.moving[v] = of[v].data_ptr()
        return told
