"""Values that are known while tracing: what pure ops make of constants.

torch's C++ sometimes asks a tensor for a number that only depends on constants: ``torch.cov`` compares its degrees of freedom
with 0, packing a sequence reads its lengths. Such a number is computed at once, with the references of the ops.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .ir import Value, map_values, node_effects
from .ops import lookup

LIMIT = 200  # ops: more are not run to know a number
UNKNOWN = object()


def known(value: Value) -> Any:
    """The run-time value of a graph value that depends on constants only; UNKNOWN for any other."""
    order = _ancestors(value)
    if order is None:
        return UNKNOWN
    env: dict[Value, Any] = {}
    with _disable_current_modes(), torch.no_grad():
        for node in order:
            args = map_values(env.__getitem__, node.args)
            kwargs = map_values(env.__getitem__, node.kwargs)
            result = lookup(node.op).run(*args, **kwargs)
            many = isinstance(result, (tuple, list)) and node.op.startswith(("aten.", "op."))
            env.update(zip(node.outputs, result if many else (result,), strict=False))
    return env[value]


def _ancestors(value: Value) -> list[Any] | None:
    """The nodes that a value depends on, in order; None when one of them is no constant's."""
    order: dict[int, Any] = {}
    todo: list[tuple[Value, bool]] = [(value, False)]
    while todo:
        v, ready = todo.pop()
        node = v.node
        if node is None or node.regions or not node_effects(node).pure or len(order) > LIMIT:
            return None
        if ready:
            order.setdefault(id(node), node)
        elif id(node) not in order:
            todo.append((v, True))
            todo += [(i, False) for i in node.inputs]
    return list(order.values())
