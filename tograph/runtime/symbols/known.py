"""Values that are known while tracing: what pure ops make of constants.

torch's C++ sometimes asks a tensor for a number that only depends on constants: ``torch.cov`` compares its degrees of freedom
with 0, packing a sequence reads its lengths. Such a number is computed at once, with the references of the ops.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..graph.ir import Node, Value, map_values
from ..graph.ops import lookup
from ..graph.ordering import node_effects

LIMIT = 200  # ops: more are not run to know a number
UNKNOWN = object()


def known(value: Value, given: Mapping[Value, Any] = MappingProxyType({})) -> Any:
    """The run-time value of a graph value that depends on constants only; UNKNOWN for any other.

    ``given``: what the inputs of its graph are, values of the graph around or constants.
    """
    order = _ancestors(value, given)
    if order is None:
        return UNKNOWN
    env = _Known(given)
    try:
        with _disable_current_modes(), torch.no_grad():
            for node in order:
                _run(node, env)
    except (ArithmeticError, ValueError, TypeError, LookupError, RuntimeError):
        return UNKNOWN  # an error of the run
    return env[value]


def _run(node: Node, env: _Known) -> None:
    if node.op == "If":
        _run_branch(node, env)
        return
    args = map_values(env.__getitem__, node.args)
    kwargs = map_values(env.__getitem__, node.kwargs)
    result = lookup(node.op).run(*args, **kwargs)
    many = isinstance(result, (tuple, list)) and node.op.startswith(("aten.", "op."))
    env.update(zip(node.outputs, result if many else (result,), strict=False))


def _run_branch(node: Node, env: _Known) -> None:
    """What the branch that is taken gives; LookupError where that is not known."""
    test, *args = map_values(env.__getitem__, node.args)
    branch = node.regions["then" if test else "orelse"]
    found = [known(v, dict(zip(branch.inputs, args))) for v in branch.outputs]
    if any(x is UNKNOWN for x in found):
        raise LookupError(node.op)
    env.update(zip(node.outputs, found))


class _Known(dict[Value, Any]):
    """What values are, by way of what is ``given`` for them."""

    def __init__(self, given: Mapping[Value, Any]):
        super().__init__()
        self.given = given

    def __missing__(self, value: Value) -> Any:
        found = self.given[value]
        return self[found] if isinstance(found, Value) else found


def _ancestors(value: Value, given: Mapping[Value, Any]) -> list[Any] | None:
    """The nodes that a value depends on, in order; None when one of them is no constant's."""
    order: dict[int, Any] = {}
    todo: list[tuple[Value, bool]] = [(value, False)]
    while todo:
        v, ready = todo.pop()
        if v in given:
            todo += [(v, False) for v in [given[v]] if isinstance(v, Value)]
            continue
        node = v.node
        if node is None or len(order) > LIMIT:
            return None
        # What is in branches is asked for last: most values turn out to depend on an input first.
        if bool(node.regions) == ready and not _computes(node):
            return None
        if ready:
            order.setdefault(id(node), node)
        elif id(node) not in order:
            if node.regions and node.op != "If":
                return None
            todo.append((v, True))
            todo += [(i, False) for i in node.inputs]
    return list(order.values())


def _computes(node: Node) -> bool:
    """Whether a node does nothing but compute, or fail."""
    effects = node_effects(node)
    return not (effects.random or effects.io or effects.writes or effects.diverges or effects.reads)
