"""Tensors of the caller that a graph writes while gradients are on: after a call they have the history of what was written last.

In eager PyTorch an in-place op gives its tensor a history. The graph writes the content alone; ``Rewrites`` has the graph
with the last value of every such tensor as one more output, and a call gives the tensor the history of that. What regions
write is lifted out of them, and what is read behind a write is what was written. Where regions alone write a tensor the graph
tells whether they did: one that a run leaves as it is keeps its history and its version, which saved tensors are known by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..graph.ir import Graph, Node, Value, all_nodes
from ..graph.ops import REGION_OPS
from ..graph.ordering import keep_writes, node_effects, set_control_inputs
from ..graph.overwritten import any_told, targets
from ..graph.rewrite import copied
from ..passes.forward import forward
from ..passes.lift_writes import lifted
from ..symbols.carrier import differentiable
from ..writes.mutation import LEAF_WRITTEN
from ..writes.rebasing import set_versions
from .contents import contents
from .dependence import Dependence, dependences


class Rewrites:
    """``places``: the inputs that are written; ``depends``: the inputs that each of the new contents depends on.

    ``whole``: the graph follows all such writes, and leaves those before a failure as they are. Where it does not, ``keeps`` says of the
    inputs of a call whether all that is written surely has the history that it had, so that there is none to follow.
    """

    def __init__(self, graph: Graph):
        made = copied(graph)
        flags = _flags(made)
        made.outputs = [*made.outputs, *flags.values()]
        self.graph = made = lifted(made)
        seen = {n.args[0] for n in made.nodes if n.op == "tg.assign" and n.grad}
        before = made.nodes
        forward(made)
        keep_writes(before, made)
        self.whole = _lifts(graph) and _follows(made, seen)
        self._concerned = None if self.whole else contents(graph)
        last: dict[Value, Value] = {
            n.args[0]: n.args[1] for n in made.nodes if n.op == "tg.assign" and n.args[0] in seen
        }
        index = {v: i for i, v in enumerate(made.inputs)}
        self.places = [index[v] for v in last if v in index]
        values = [last[made.inputs[i]] for i in self.places]
        # ``x.data``, and perhaps what a region writes, is a write that autograd does not see.
        self.sure = [v.node is None or v.node.op not in (*REGION_OPS, "tg.written") for v in values]
        self.count = len(graph.outputs)
        told = dict(zip(flags, made.outputs[self.count :]))
        self.told = [k for k, v in enumerate(last) if v in index and index[v] in told]
        made.outputs = [
            *made.outputs[: self.count],
            *values,
            *(told[self.places[k]] for k in self.told),
        ]
        set_control_inputs(made)
        self.depends: list[Dependence] = dependences(made)[self.count :]

    def changed(self, inputs: Sequence[Any]) -> list[int]:
        """Which of ``places`` a call gives another history; RuntimeError for a leaf, as in eager PyTorch."""
        found = []
        for k, (i, depends) in enumerate(zip(self.places, self.depends)):
            x = inputs[i]
            if x.requires_grad and x.is_leaf:
                if self.sure[k]:
                    raise RuntimeError(LEAF_WRITTEN)
            elif x.requires_grad or any(inputs[j].requires_grad for j in depends):
                found.append(k)
        return found

    def keeps(self, inputs: Sequence[Any]) -> bool:
        """Whether no tensor that is written gets another history, on any path."""
        return self._concerned is not None and not any(inputs[i].requires_grad for i in self._concerned)  # fmt: skip

    def run(
        self, program: Callable[..., list[Any]], inputs: Sequence[Any], changed: Sequence[int]
    ) -> list[Any]:
        """The outputs of the graph as it was, when the tensors have the history of their content. ``program`` runs ``graph``."""
        written = [inputs[i] for i in self.places if not inputs[i].is_inference()]
        versions = [x._version for x in written]
        outputs = program(inputs)
        told = outputs[self.count + len(self.places) :]
        left = {k for k, wrote in zip(self.told, told, strict=True) if not wrote}
        if left:
            kept = [inputs[self.places[k]] for k in left]
            _keep_versions(written, versions, kept)
        for k in changed:
            if k not in left:
                give_history(inputs[self.places[k]], outputs[self.count + k])
        return outputs[: self.count]


def _flags(graph: Graph) -> dict[int, Value]:
    """For each input that only regions write while gradients are on whether they did, as a value of the graph."""
    surely = {v for n in graph.nodes for v in n.over}.union(graph.over)
    found: dict[int, Value] = {}
    for i, v in enumerate(graph.inputs):
        writers = [(n, p) for n in graph.nodes if n.regions for p in targets(n) if n.args[p] is v]
        if writers and v not in surely:
            found[i] = any_told([*writers], graph)
    return found


def _keep_versions(
    written: Sequence[torch.Tensor], versions: Sequence[int], kept: Sequence[torch.Tensor]
) -> None:
    """Give ``kept`` of the tensors that a call may have written the versions before; those of others stay, in one memory too."""
    same = {id(x) for x in kept}
    for x, version in zip(written, versions):
        if id(x) in same:
            set_versions((x,), (version,))
    for x, version in zip(written, versions):
        if id(x) not in same and x._version == version:
            torch.autograd.graph.increment_version(x)


def _lifts(graph: Graph) -> bool:
    """Whether regions that write while gradients are on cannot fail halfway."""
    return not any(_seen_inside(n) and node_effects(n).may_fail for n in graph.nodes)


def _follows(graph: Graph, seen: set[Value]) -> bool:
    """Whether no region writes a tensor while gradients are on, and nothing reads one of ``seen`` behind its first write."""
    written: set[Value] = set()
    for node in graph.nodes:
        if _seen_inside(node) or (node.op == "tg.read" and node.args[0] in written):
            return False
        if node.regions and not written.isdisjoint(node.inputs):
            effects = node_effects(node)
            if not written.isdisjoint(node.inputs[i] for i in (*effects.reads, *effects.writes)):
                return False
        if node.op == "tg.assign" and node.args[0] in seen:
            written.add(node.args[0])
    return True


def _seen_inside(node: Node) -> bool:
    """Whether a region of a node writes a variable that may have a history while gradients are on."""
    return any(
        n.op == "tg.assign" and n.grad and differentiable(n.args[1].type)
        for region in node.regions.values()
        for n in all_nodes(region)
    )


def give_history(x: torch.Tensor, source: torch.Tensor) -> None:
    """Make ``x``, whose content is that of ``source`` already, a function of it."""
    _Written.apply(x, source)


class _Written(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, grads[0]
