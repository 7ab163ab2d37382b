"""What is known without running the graph is computed now: constants, branches on them, loops that never run.

A staged number that is known becomes a constant in the arguments that use it. A small tensor that is known
becomes ``tg.constant``. If and Case on a known condition become the branch that runs; a While whose
condition is false at the start becomes its initial state. An op that raises on its constants stays, and raises when
the graph runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Any

import torch

from ...errors import TographError
from ..graph import ops
from ..graph.constants import constant_of
from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value, map_values
from ..graph.ordering import node_effects
from ..graph.rewrite import Renaming, carried, is_torch_op, keep_inputs, lead, splice
from ..graph.types import BOOL, ScalarType, TensorType

MAX_ELEMENTS = 64  # of a tensor that is computed now
MAX_POWER = 64  # of numbers that an op could make very long
_GROWING = ("py.pow", "py.lshift", "py.math.factorial", "py.math.comb", "py.math.pow")
_ERRORS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, TographError)
_DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
           torch.float16, torch.bfloat16, torch.float32, torch.float64)  # fmt: skip

Known = dict[Value, Any]


class _Unknown(Exception):
    """A value that only run time knows."""


def fold(graph: Graph) -> Graph:
    """``graph`` with known values computed."""
    with torch.no_grad():
        _fold(graph, {}, _shared(graph))
    return graph


def _shared(graph: Graph) -> set[Node]:
    """The views by which several results of the graph lie in one memory."""
    chains = list(map(_views, dict.fromkeys(graph.outputs)))
    roots = Counter(root for root, _ in chains)
    return {node for root, chain in chains if roots[root] > 1 for node in chain}


def _views(value: Value) -> tuple[Value, list[Node]]:
    """What a value is a view of, and the ops by which it is."""
    chain: list[Node] = []
    node = value.node
    while node is not None and is_torch_op(node) and ops.lookup(node.op).aliases and isinstance(node.args[0], Value):  # fmt: skip
        chain.append(node)
        value = node.args[0]
        node = value.node
    return value, chain


def _fold(graph: Graph, known: Known, shared: Container[Node] = ()) -> None:
    """``known`` holds tensors that are known; numbers are in the renaming. The nodes ``shared`` stay."""
    names, nodes = Renaming(), []
    for value in list(known):
        if isinstance(value.type, ScalarType):
            names[value] = known.pop(value)
    for node in graph.nodes:
        names.apply(node)
        _let_go(node)
        if node.regions:
            if not _decide(node, names, nodes, known):
                _enter(node, known)
                nodes.append(node)
        elif node in shared or not _compute(node, names, nodes, known):
            nodes.append(node)
    graph.nodes = nodes
    names.outputs(graph)


# ---- ops


def _let_go(node: Node) -> None:
    """Ones like another tensor, as a gradient begins with ones like the loss, do not wait for it: its type says what is needed.

    Plans for a GPU compute once what is the same in every call, and keep them.
    """
    if node.op != "aten.ones_like.default" or node.kwargs.get("memory_format") not in (None, torch.preserve_format):  # fmt: skip
        return
    kind = node.outputs[0].type
    if not isinstance(kind, TensorType) or kind.device != "cpu" or None in kind.shape or len(kind.shape) > 1:  # fmt: skip
        return  # strides follow those of the other tensor
    options = {"dtype": kind.dtype, "device": torch.device("cpu")}
    node.op, node.args, node.kwargs = "aten.full.default", (list(kind.shape), 1), options


def _compute(node: Node, names: Renaming, nodes: list[Node], known: Known) -> bool:
    """Whether the node is gone, because all that it gives is known or is one of its arguments."""
    picked = _picked(node)
    if picked is not None:
        names[node.outputs[0]] = picked[0]
        return True
    try:
        results = evaluate(node, known)
    except _Unknown:
        return False
    if all(isinstance(v.type, ScalarType) for v in node.outputs):
        names.update(zip(node.outputs, results))
        return True
    (out,), (result,) = node.outputs, results
    known[out] = result
    if not any(v in known for v in node.inputs) or bool((result != result).any()):
        return False  # a creation op is no dearer than a constant; a NaN has bits that a list does not show
    made = Node(*constant_of(result), (out.type,), location=node.location, grad=node.grad)
    nodes.append(made)
    names[out] = made.outputs[0]
    known[made.outputs[0]] = result
    return True


def _picked(node: Node) -> tuple[Any] | None:
    """The argument that a choice by a constant gives."""
    if node.op == "py.select" and not isinstance(node.args[0], Value):
        return (node.args[1 if node.args[0] else 2],)
    if node.op == "tg.choose" and not isinstance(node.args[0], Value):
        found = node.args[1][node.args[0]]
        kept = isinstance(found, Value) or isinstance(node.outputs[0].type, ScalarType)
        return (found,) if kept else None
    return None


def evaluate(node: Node, known: Known) -> list[Any]:
    """The results of a node whose arguments are known; _Unknown when one is not, or when it is too much to do now."""
    effects = node_effects(node)
    if effects.random or effects.io or effects.reads or effects.writes or not effects.foldable:
        raise _Unknown
    if not node.outputs or not all(_small(v.type) for v in node.outputs):
        raise _Unknown

    def look(value: Value) -> Any:
        if value not in known:
            raise _Unknown
        return known[value]

    args, kwargs = map_values(look, node.args), map_values(look, node.kwargs)
    if node.op in _GROWING and any(type(a) is int and abs(a) > MAX_POWER for a in args[-1:]):
        raise _Unknown
    try:
        result = ops.lookup(node.op).run(*args, **kwargs)
    except _ERRORS:
        raise _Unknown from None
    if len(node.outputs) != 1 or not _is(result, node.outputs[0].type):
        raise _Unknown
    return [result]


def _small(kind: Any) -> bool:
    if isinstance(kind, ScalarType):
        return True
    if not isinstance(kind, TensorType) or kind.device != "cpu" or kind.dtype not in _DTYPES:
        return False
    return None not in kind.shape and torch.Size(kind.shape).numel() <= MAX_ELEMENTS


def _is(result: Any, kind: Any) -> bool:
    """Whether a result is what its type promises."""
    if isinstance(kind, ScalarType):
        return type(result) is kind.kind
    if type(result) is not torch.Tensor or result.dtype != kind.dtype:
        return False
    return tuple(result.shape) == kind.shape and result.is_contiguous()


# ---- regions


def _enter(node: Node, known: Known) -> None:
    """Fold the regions; a constant that is passed to them and stays is known inside and no argument any more."""
    first, state = lead(node), carried(node)
    constant = [not isinstance(a, Value) for a in node.args[first:]]
    for name, region in node.regions.items():
        inside: Known = {}
        for i, (arg, value) in enumerate(zip(node.args[first:], region.inputs)):
            if i >= state and constant[i]:
                inside[value] = arg
            elif i >= state and arg in known:
                inside[value] = known[arg]
            elif node.op == "If" and arg is node.args[0] and value.type == BOOL:
                inside[value] = name == "then"
        _fold(region, inside)
    keep = [i < state or not is_constant for i, is_constant in enumerate(constant)]
    kinds = next(iter(node.regions.values())).inputs
    keep = [k or not isinstance(v.type, ScalarType) for k, v in zip(keep, kinds)]
    keep_inputs(node, keep)


def _decide(node: Node, names: Renaming, nodes: list[Node], known: Known) -> bool:
    """Whether a region op is gone, because it is known what it does."""
    if node.op == "While":
        if not _never_runs(node, known):
            return False
        names.update(zip(node.outputs, node.args))
        return True
    if node.op not in ALTERNATIVES:
        return False
    head = node.args[0]
    head = known.get(head) if isinstance(head, Value) else head
    if head is None:
        return False
    branches = list(node.regions.values())
    if node.op == "If":
        chosen = branches[0 if bool(head) else 1]
    else:
        chosen = branches[int(head) if 0 <= int(head) < len(branches) else -1]
    _fold(chosen, {v: a for v, a in zip(chosen.inputs, node.args[1:]) if _number(v, a)})
    outs = splice(chosen, node.args[1:], nodes, node.grad)
    names.update(zip(node.outputs, outs))
    return True


def _number(value: Value, arg: Any) -> bool:
    return isinstance(value.type, ScalarType) and not isinstance(arg, Value)


def _never_runs(node: Node, known: Known) -> bool:
    """Whether the condition is false at the start, and computing it does nothing else."""
    cond = node.regions["cond"]
    inside: Known = {}
    for value, arg in zip(cond.inputs, node.args):
        if not isinstance(arg, Value):
            inside[value] = arg
        elif arg in known:
            inside[value] = known[arg]
    test = cond.outputs[0]
    try:
        for inner in cond.nodes:
            inside.update(zip(inner.outputs, evaluate(inner, inside)))
    except _Unknown:
        return False
    return test in inside and not bool(inside[test])
