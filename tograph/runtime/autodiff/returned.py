"""Leaves that the code makes and returns, and of which it computes other results: ``return w, w * 2``.

Outside ``w`` is a leaf again, and the history of ``w * 2`` leads to it. So a call gives the graph a new leaf as one more input: from where the
code made a leaf of a value on, that value has the history of this input (``tg.written``). The graph reads nothing of it; when the call
has run, the leaf gets what the graph gives for it.

Not followed: a leaf that a branch or body makes, of a size that only the run knows, or in a graph that torch differentiates as it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import copy_node
from ..graph.types import TensorType, device_of, is_static
from ..writes.freed import is_freed
from .dependence import reached
from .graphs import append


class Made(NamedTuple):
    """``value``: what became a leaf, behind the node ``at`` (None: that of the value); ``output``: what the graph gives for it in the end."""

    value: Value
    at: Node | None
    output: int
    parameter: bool


class ReturnedLeaves:
    """``graph``: the one that takes the leaves behind its own inputs; ``made`` those on which another result depends."""

    def __init__(self, graph: Graph, made: Sequence[Made]):
        self.first, known = len(graph.inputs), [m for m in made if _is_known(m, graph)]
        found = _with_inputs(graph, known)
        depends = reached(found)
        freed = any(map(is_freed, graph.outputs))
        self.made = [
            m for i, m in enumerate(known) if depends is not None and (freed or self.first + i in depends)
        ]  # fmt: skip
        self.graph = found if len(self.made) == len(known) else _with_inputs(graph, self.made)

    def new(self) -> list[torch.Tensor]:
        """The leaves of a call."""
        return [_leaf(m) for m in self.made]

    def fill(self, outputs: list[Any], leaves: Sequence[torch.Tensor]) -> list[Any]:
        """The outputs of a call with the leaves among them."""
        for m, leaf in zip(self.made, leaves):
            given = outputs[m.output].detach()
            leaf.data = given.clone()  # what is saved has a memory of its own
            outputs[m.output] = leaf
            for k, x in enumerate(outputs):
                outputs[k] = x if x is leaf else _in_memory_of(leaf, given, x)
        return outputs


def _in_memory_of(leaf: torch.Tensor, given: torch.Tensor, x: Any) -> Any:
    """A result, in the memory of the leaf where it lies in that of what the graph gave for it: ``w.detach()``, ``w[0]``."""
    if not isinstance(x, torch.Tensor) or x.dtype != given.dtype or not x.numel():
        return x
    if x.untyped_storage().data_ptr() != given.untyped_storage().data_ptr():
        return x
    first = x.storage_offset() - given.storage_offset()
    last = first + sum((n - 1) * s for n, s in zip(x.shape, x.stride()))
    if first < 0 or last >= leaf.numel() or leaf.stride() != given.stride():
        return x
    placed = leaf.detach().as_strided(x.shape, x.stride(), first)
    if not x.requires_grad:
        return placed
    x.data = placed
    return x


def _is_known(m: Made, graph: Graph) -> bool:
    kind, nodes = m.value.type, set(graph.nodes)
    fixed = is_static(kind)
    return fixed and m.value.node in nodes


def _leaf(m: Made) -> torch.Tensor:
    kind = m.value.type
    assert isinstance(kind, TensorType)
    x = torch.empty(kind.shape, dtype=kind.dtype, device=device_of(kind))
    return torch.nn.Parameter(x) if m.parameter else x.requires_grad_()


def _with_inputs(graph: Graph, made: Sequence[Made]) -> Graph:
    new = Graph(graph.name)
    env = {v: Value(v.type) for v in graph.inputs}
    leaves = [Value(m.value.type) for m in made]
    new.inputs = [*env.values(), *leaves]
    new.input_names = [*graph.input_names, *("" for _ in leaves)]
    known = set(graph.nodes)
    places = [m.at if m.at in known else m.value.node for m in made]
    for node in graph.nodes:
        new.nodes.append(copy_node(node, env, ordered=False))
        for m, place, leaf in zip(made, places, leaves):
            if node is place:
                env[m.value] = append(new, "tg.written", leaf, env[m.value], type=m.value.type)
    new.outputs = [env[v] for v in graph.outputs]
    for m in made:
        old = new.outputs[m.output]
        new.outputs[m.output] = append(new, "aten.detach.default", old, type=old.type)
    new.over = tuple(env[v] for v in graph.over if v in env)
    return new
