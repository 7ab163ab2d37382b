"""Lists whose items share nothing that was saved: a gradient of one frees nothing of another.

``are_apart`` follows the history of a list as torch's autograd has it. Items that are put in one by one have histories of their own, which are compared. A staged loop that puts in
one item in each iteration has one node for all: they are apart where an iteration computes its item from nothing that earlier ones computed, and of what was there
before the loop from leaves only. What it does not see to be so counts as shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..graph.ir import Node, Value
from ..graph.types import ListType
from ..symbols.carrier import differentiable
from ..symbols.funcgraph import FuncGraph
from ..symbols.proofs import LoopFacts
from ..writes import freed
from .by_items import in_order, takes_items

_PUTS = ("tg.list_push", "tg.list_of")


def are_apart(node: Any, output: int) -> bool:
    """Whether the items of a list, the output of a node of autograd, share nothing that was saved."""
    seen = set[Any]()
    while node is not None:
        call = getattr(node, "call", None)
        if call is None or not isinstance(call.node.outputs[node.indices[output]].type, ListType):
            return False
        edges = dict(zip(call.tensors, node.next_functions))
        lists = [edges.pop(i) for i in list(edges) if isinstance(call.inputs[i].type, ListType)]
        if call.node.op in _PUTS:
            if not all(_is_new(edge, seen) for edge in edges.values()):
                return False
        elif not puts_one(call.node, node.indices[output]) or any(map(_saving, edges.values())):
            return False
        if len(lists) > 1:
            return False
        node, output = lists[0] if lists else (None, 0)
    return True


def _is_new(edge: freed.Edge, seen: set[Any]) -> bool:
    """Whether nothing that an item has saved is among ``seen``, which it is added to."""
    own = _saving(edge)
    new = seen.isdisjoint(own)
    seen |= own
    return new


def _saving(edge: freed.Edge) -> set[Any]:
    found, todo = set[Any](), [edge[0]]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found.add(node)
            todo += [n for n, _ in node.next_functions]
    return {n for n in found if freed.saves(n) or hasattr(n, "call")}


def puts_one(loop: Node, output: int) -> bool:
    """Whether an iteration of a loop puts one item into a list that it carries, computed of no state."""
    if loop.op != "While" or output >= loop.kwargs["carried"]:
        return False
    body = loop.regions["body"]
    given, left = body.inputs[output], body.outputs[output].node
    if left is None or left.op != "tg.list_push" or left.args[0] is not given:
        return False
    if [n for n in body.nodes if given in n.inputs] != [left]:
        return False
    state = {v for v in body.inputs[: loop.kwargs["carried"]] if differentiable(v.type)}
    return state.isdisjoint(_behind(left.args[1]))


def _behind(value: Value) -> set[Value]:
    """What a value of a graph is computed of, all of it."""
    found, todo = set[Value](), [value]
    while todo:
        v = todo.pop()
        if v not in found:
            found.add(v)
            todo += [] if v.node is None else v.node.inputs
    return found


def read_once(outputs: Sequence[torch.Tensor], body: FuncGraph) -> tuple[Value, Value] | None:
    """The list and the position by which ``outputs``, of an iteration of a loop, lead to items; None if it is not one, another in each iteration, in a list whose items are apart."""
    order = in_order([o.grad_fn for o in outputs if o.grad_fn is not None])
    reads = [n for n in order if takes_items(n) and n.call.graph is body]
    if len(reads) != 1 or reads[0].call.node.op != "tg.list_get" or body.loop is None:
        return None
    [read] = reads
    source, at = read.call.node.args
    if source not in body.captures.values():
        return None
    body.loop.wanted.add(at)  # by how much it changes is asked of the next trace
    once = _counts_up(at, body.loop) and are_apart(*read.next_functions[0])
    return (source, at) if once else None


def _counts_up(at: Value, facts: LoopFacts) -> bool:
    """Whether a position is another one in each iteration of a loop: one from the end is none that was counted from the start."""
    entry = facts.entries.get(at)
    if isinstance(entry, Value) and entry.node is not None and entry.node.op == "py.constant":
        [entry] = entry.node.args
    return isinstance(entry, int) and entry >= 0 and facts.steps.get(at, 0) > 0
