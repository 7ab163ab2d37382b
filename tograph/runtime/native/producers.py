"""Pointwise ops whose results only a large reduction looks at, in the nest of the reduction.

``(x * x).sum(0)`` then reads ``x`` once, and no tensor of squares is written and read again. Groups are made in the order of the nodes, and a large reduction
begins one of its own (``groups.Group.takes``): the loops of its nest follow the reduction, so nothing of the whole shape is to be stored there. What
is moved here is not stored. Few long rows are folded in parts by all threads, which takes loops that are one: what broadcasts stays apart there. Where a reduction takes two sweeps, each computes what is moved again: costly ops stay where they are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ..graph.ir import Graph, Node, Value
from ..graph.ordering import node_effects
from ..graph.types import TensorType
from ..graph.uses import users
from ..kernels.gathers import sources
from ..kernels.reductions import REDUCERS
from ..kernels.regions import COSTLY_OPS
from .views import VIEWS

if TYPE_CHECKING:
    from .groups import Group

INNER = 128  # elements of an inner loop that costs no more than a part of one loop
FEW = 64  # results of a reduction from which on there is work for all threads
_TWICE = frozenset(f"aten.{n}.correction" for n in ["std", "std_mean", "var", "var_mean"])
_ONCE = frozenset(
    [f"aten.{n}.default" for n in ["all", "amax", "amin", "any", "argmax", "argmin", "linalg_vector_norm", "max", "mean", "min", "prod", "sum"]]
    + [f"aten.{n}" for n in ["all.dim", "all.dims", "any.dim", "any.dims", "max.dim", "mean.dim", "min.dim", "prod.dim_int", "sum.dim_IntList"]]
)  # fmt: skip


def moved(graph: Graph, groups: list[Group], pinned: Collection[Node], most: int) -> list[Group]:
    """The groups with such ops moved; ``pinned`` nodes stay in front of what others write, and no nest gets more than ``most`` nodes."""
    targets = [g for g in groups if g.dims is not None and None not in g.shape and all(n.op in _ONCE | _TWICE for n in g.nodes)]  # fmt: skip
    if not targets:
        return groups
    home = {node: group for group in groups for node in group.nodes}
    used_by = users(graph)
    for target in targets:
        for node in _producers(target, home, used_by):
            if len(target.nodes) < most and node not in pinned:
                home[node].nodes.remove(node)
                target.nodes.insert(0, node)
                home[node] = target
    return [g for g in groups if g.nodes]


def _producers(target: Group, home: dict[Node, Group], used_by: dict[Value, list[Node | None]]) -> Iterator[Node]:  # fmt: skip
    """The nodes that may be moved, each behind those of the nest that use it: it is asked for before the next is looked for."""
    twice = any(n.op in _TWICE for n in target.nodes)
    stack = list(reversed(target.nodes))
    while stack:
        user = stack.pop()
        if home[user] is not target:
            continue
        for v in user.inputs:
            node = v.node
            if node is None or node not in home or not _pointwise(node, home[node], target):
                continue
            inside = all(u is not None and home.get(u) is target and v not in sources(u) for u in used_by[v])  # fmt: skip
            if inside and not (twice and node.op in COSTLY_OPS):
                yield node
                stack.append(node)


def _pointwise(node: Node, group: Group, target: Group) -> bool:
    """Whether a node is computed by a nest of the same space that folds nothing, and may be computed later."""
    same = group is not target and group.kind == "loop" and group.dims is None and group.shape == target.shape  # fmt: skip
    plain = len(node.outputs) == 1 and getattr(node.outputs[0].type, "shape", None) == target.shape
    if _kept(target) < FEW and not all(_whole(v, target) for v in node.inputs):
        return False
    return (
        same
        and plain
        and node.op not in REDUCERS
        and not node.control_inputs
        and node_effects(node).pure
    )


def _kept(target: Group) -> int:
    """The number of results of each reduction of a nest."""
    return math.prod(n for d, n in enumerate(target.shape) if d not in (target.dims or ()))


def _whole(v: Value, target: Group) -> bool:
    """Whether an operand has the whole shape by itself, or one element: then the loops of the nest are one, which threads share in parts.

    Where the inner loop is long, so are parts of several loops: an operand may be a part of a tensor, or the same for all rows.
    """
    if not isinstance(v.type, TensorType) or all(n == 1 for n in v.type.shape):
        return True
    if v.node is None or v.node.op not in VIEWS:
        return v.type.shape == target.shape or target.shape[-1] >= INNER
    return target.shape[-1] >= INNER and _side_by_side(v.node) and _whole(v.node.args[0], target)


def _side_by_side(node: Node) -> bool:
    """Whether a view leaves elements of the last dim beside each other."""
    if node.op == "aten.unsqueeze.default":
        return True
    if node.op not in ("aten.slice.Tensor", "aten.select.int"):
        return False
    last = len(node.args[0].type.shape) - 1
    inside = (node.args[1] if len(node.args) > 1 else 0) % (last + 1) == last
    return not inside or (node.op == "aten.slice.Tensor" and (len(node.args) < 5 or node.args[4] == 1))  # fmt: skip
