"""Leaves that a staged branch or loop makes and gives, beside what it computed of them: ``x = (x - g).detach().requires_grad_()``, then ``loss = f(x)``.

An output of a node is a value of its own: torch's engine does not see that a region computed another output from it. So a node that is recorded
gets an input, a **token**, for each such leaf: behind it the value has the history of this input (see ``made_leaves``), and a tensor stands for it
in torch's history. A gradient with respect to the leaf behind the node is that of its tokens, and what comes to the output itself. A loop gives, as state, which of
them its last iteration made; its backward loop adds up what comes to a token up to the last iteration that made one (``loops``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from ..control_flow.loop_tests import surely_runs
from ..gradients import grad_fields
from ..graph.families import CONSTRUCTS, ITEM_READS
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import always_fails
from ..graph.rewrite import add_state, lead
from ..graph.types import BOOL, TensorType, is_static
from ..library import grads
from ..symbols.carrier import differentiable
from ..symbols.funcgraph import FuncGraph, Ref, current_graph
from ..values import flattening
from . import connect
from .alternatives import zeros
from .graphs import append
from .item_leaves import is_leaf
from .made_leaves import Flag, MadeLeaves, NotFollowed
from .passing import Flags, closed
from .separate import made_from, made_in

_OPS = ("While", "If", "Case")


def give_tokens(node: Node, graph: FuncGraph) -> None:
    """Give a node that was recorded just now its tokens, each with a tensor that stands for it."""
    leaves = graph.root.leaves
    if node.op not in _OPS or not leaves or graph.replaying or "gradient" in node.regions:
        return
    places = [i for i, v in enumerate(node.outputs) if isinstance(v.type, TensorType)]
    some = [i for i in places if any(_may_be(r.outputs[k], leaves) for k in _comes_from(node, i) for r in _regions(node))]  # fmt: skip
    for i in some:
        sometimes, used = _sometimes(node, i, leaves), _used(node, i, graph.graph)
        if not (sometimes or used):
            continue
        made = MadeLeaves(node, graph, partial(_start, node, i, graph), every=used)
        try:
            found = _in_loop(node, i, graph, made) if node.op == "While" else _in_branches(node, i, graph, made)  # fmt: skip
        except NotFollowed:
            graph.root.unfollowed.update(node.outputs[j] for j in made_from(node, i, graph.graph))
            continue
        if sometimes:
            known: dict[Value, Flag] = dict.fromkeys(made.aliases, True)
            graph.root.gives_leaf[node.outputs[i]] = Flags(known).of(graph.graph, node.outputs[i])
        graph.root.token_leaves.setdefault(node, {})[i] = set(made.aliases)
        for leaf, flag, place in found:
            token = made.outer[leaf]
            x = graph.sources[token] = flattening.symbolic(token, graph)
            torch.Tensor.requires_grad_(x)
            x.token_ = node, i
            known_ = graph.root.tokens.setdefault(node, {}).setdefault(i, [])
            known_.append((x, token, flag, place))


def _regions(node: Node) -> list[Graph]:
    return [r for k, r in node.regions.items() if k != "cond" and not always_fails(r)]


def _comes_from(node: Node, i: int) -> list[int]:
    """The outputs of which the iterations of a loop may move a tensor to the output ``i``, and itself."""
    return closed(node, i) if node.op == "While" else [i]


def _may_be(v: Value, leaves: Any) -> bool:
    """Whether a value may be a leaf that its region makes."""
    return _is_one(v, leaves, any)


def _is_one(v: Value, leaves: Any, of: Callable[[Iterable[bool]], bool]) -> bool:
    """Whether a value is such a leaf on ``any`` of its paths, or on ``all``."""
    node = v.node
    if v in leaves or node is None or node.op == "tg.written":
        return v in leaves or node is not None
    if node.op not in CONSTRUCTS or "gradient" in node.regions:
        return False
    state = _comes_from(node, v.index) if of is any else [v.index]
    found = [(r, r.outputs[k]) for k in state for r in _regions(node)]
    first = lead(node)
    given = [node.args[first + r.inputs.index(x)] if x in r.inputs else x for r, x in found]
    if of is all and node.op == "While" and not surely_runs(node):
        given.append(node.args[v.index])
    return of(isinstance(x, Value) and _is_one(x, leaves, of) for x in given)


def _sometimes(node: Node, i: int, leaves: Any) -> bool:
    """Whether the output ``i`` may be something else than a leaf that a region makes."""
    given = [r.outputs[i] for r in _regions(node)]
    if node.op == "While" and not surely_runs(node):
        given.append(node.args[i])
    return not all(isinstance(v, Value) and _is_one(v, leaves, all) for v in given)


def _used(node: Node, i: int, graph: Graph) -> bool:
    """Whether something else that a node gives may have been computed from its output ``i``."""
    return _followed(node, made_from(node, i, graph))


def _followed(node: Node, places: Iterable[int]) -> bool:
    """Whether gradients may come to one of some outputs."""
    return any(differentiable(node.outputs[j].type) for j in places)


def _start(node: Node, i: int, graph: FuncGraph) -> Value:
    """What a token is outside: nothing reads it."""
    kind, nodes = node.outputs[i].type, graph.graph.nodes
    block = Graph("block")
    if is_static(kind):
        made = zeros(block, kind, None)
    elif node.op == "While" and isinstance(node.args[i], Value):
        made = append(block, "aten.detach.default", node.args[i], type=node.args[i].type)
    else:  # its size is not known before the node
        raise NotFollowed
    nodes[nodes.index(node) : nodes.index(node)] = block.nodes
    return made


Found = list[tuple[Value, int | None, int]]


def _in_loop(node: Node, i: int, graph: FuncGraph, made: MadeLeaves) -> Found:
    """The leaves that the state ``i`` may be, each with the state that says whether the last iteration made it (None: it did) and the place where that left it."""
    rows = made.rows(i)
    body = node.regions["body"]
    flags = [f for row in rows.values() for f in row.values() if isinstance(f, Value)]
    starts = [Node("py.constant", (False,), {}, [BOOL], location=node.location) for _ in flags]
    nodes = graph.graph.nodes
    nodes[nodes.index(node) : nodes.index(node)] = starts
    ends = iter(add_state(node, [Value(BOOL) for _ in flags], flags, [n.outputs[0] for n in starts]))  # fmt: skip
    found: Found = []
    moves = graph.root.moves.setdefault(node, {}).setdefault(i, [])
    for q, row in rows.items():
        for v, f in row.items():
            told = next(ends).index if isinstance(f, Value) else None
            if v.node is None:
                moves.append((q, body.inputs.index(v), told))
            else:
                found.append((v, told, q))
    return found


def _in_branches(node: Node, i: int, graph: FuncGraph, made: MadeLeaves) -> Found:
    found: Found = []
    for region in _regions(node):
        # Where one computes nothing else from what it gives there, that needs no history: what stands for a variable that it does not make, too.
        made.every = _followed(node, made_in(region, node, i, graph.graph))
        found += [(v, None, i) for v in made.leaves_of(region, region.outputs[i], None)]
    return found


def is_made_leaf(v: Value, graph: FuncGraph) -> Flag:
    """Whether what a node with regions gives, or a list holds, is a leaf that the code made, in one of them or before it."""
    return is_leaf(v, graph) if v.node is not None and v.node.op in (*_OPS, *ITEM_READS) else False


def _is_made(y: Any) -> Ref | bool:
    call = getattr(y.grad_fn, "call", None)
    if call is None or call.node not in call.graph.graph.nodes:
        return False
    flag = is_made_leaf(call.node.outputs[y.grad_fn.indices[y.output_nr]], call.graph)
    return Ref(flag, call.graph) if isinstance(flag, Value) else flag


def _gives_leaf(y: Any) -> bool:
    """Whether a region of what gives a tensor may have made it a leaf, to which gradients come."""
    if not y.requires_grad:
        return False
    call = getattr(y.grad_fn, "call", None)
    if call is None or call.node not in call.graph.graph.nodes:
        return True
    node, i = call.node, y.grad_fn.indices[y.output_nr]
    if not isinstance(node.outputs[i].type, TensorType) or node.op not in _OPS:
        return True
    leaves = {**call.graph.root.leaves, **call.graph.root.left_leaves}
    return any(_may_be(r.outputs[k], leaves) for k in _comes_from(node, i) for r in _regions(node))


def tokens(inputs: Sequence[torch.Tensor]) -> list[tuple[int, torch.Tensor, Flag | None]]:
    """(k, x, flag) for the tensors x that stand for the tokens of ``inputs[k]``; ``flag``: whether that is such a leaf, None where it always is one."""
    known = current_graph().root.tokens
    return [(k, *one) for k, y in enumerate(inputs) if known for one in _of(y, known)]


def _of(y: torch.Tensor, known: Any) -> Iterator[tuple[torch.Tensor, Flag | None]]:
    here, flag = current_graph(), None
    call = getattr(y.grad_fn, "call", None)
    if call is not None:
        value = call.node.outputs[y.grad_fn.indices[y.output_nr]]
        flag = here.root.gives_leaf.get(value, True)
        flag = here.resolve(Ref(flag, call.graph)) if isinstance(flag, Value) else flag
    else:
        value = next((v for x, v in here.root.joined if x is y), None)
        if value is None:
            return
    for x, _, _, _ in known.get(value.node, {}).get(value.index, ()):
        yield x, flag


connect.GIVE_TOKENS = give_tokens
grads.TOKENS = tokens
grad_fields.IS_MADE = _is_made
grad_fields.GIVES_LEAF = _gives_leaf
