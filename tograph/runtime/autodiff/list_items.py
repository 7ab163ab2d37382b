"""Gradients with respect to items of lists that grow in staged code: each reading of an item is a tensor of its own.

In eager PyTorch ``xs[-1]`` and the tensor that was appended are one. What is differentiated may have been computed from that by another name or
another reading, which is known only when the graph runs: such a gradient is refused, since what is found without it is another number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..graph.families import ITEM_READS
from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import lead
from ..graph.types import ListType
from ..symbols.funcgraph import user_location
from ..writes.edges import edge
from ..writes.edges import used as computed_from
from .passing import inputs_of


def check_items(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
    """GradientError where ``outputs`` may have been computed from an item among ``inputs`` otherwise than by this reading."""
    for x in inputs:
        call = getattr(x.grad_fn, "call", None)
        if call is None or call.node.op not in ITEM_READS:
            continue
        used = computed_from(outputs, lambda node, own=x.grad_fn: node is own)
        beside = {e for e in used if not isinstance(e, tuple) or e[0] is not x.grad_fn}
        if edge(x) not in used or not beside.isdisjoint(_items(x.grad_fn)):
            raise GradientError(_REFUSED, user_location())


def _items(read: Any) -> Iterator[Any]:
    """The tensors, as of ``edge``, that an item which a node reads may be, and the lists that it may be read from."""
    todo, done = [read], set()
    while todo:
        node = todo.pop()
        call = getattr(node, "call", None)
        if call is None or node in done:
            continue
        done.add(node)
        put = _put(call.node)
        for i, (before, n) in zip(call.tensors, node.next_functions):
            if before is None:
                continue
            value = call.inputs[i]
            if isinstance(value.type, ListType):
                todo.append(before)
                yield before, n
            elif _puts(call.node) or value in put:
                leaf = getattr(before, "variable", None)
                yield (before, n) if leaf is None else edge(leaf)
        if call.node.regions:
            yield from ((node, k) for k in range(len(node.indices)))


def _puts(node: Node) -> bool:
    """Whether a node gives a list of what it takes."""
    return not node.regions and any(isinstance(v.type, ListType) for v in node.outputs)


def _put(node: Node) -> set[Value]:
    """The arguments of a node that its regions put into lists as they are."""
    found: set[Value] = set()
    for region in node.regions.values():
        inside = put_in(region)
        found |= {a for a, v in zip(node.args[lead(node) :], region.inputs) if v in inside and isinstance(a, Value)}  # fmt: skip
    return found


def put_in(region: Graph) -> set[Value]:
    """The inputs of a graph that it puts into lists as they are."""
    items = [v for n in region.nodes if _puts(n) for v in n.inputs]
    items += [v for n in region.nodes if n.regions for v in _put(n)]
    return {region.inputs[k] for v in items for k in inputs_of(region, v)}


_REFUSED = (
    "a gradient is asked for with respect to an item of a list that grows in a staged loop or branch, of what was computed from the item by another name or "
    "another reading, if at all: which items are the same is known only when the graph runs. Read the item once (`y = xs[-1]`), and compute of that."
)
