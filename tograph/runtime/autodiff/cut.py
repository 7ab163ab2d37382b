"""Which intermediates a gradient saves and which it computes again: a minimum cut.

The forward values that the backward part reads have to come from somewhere. A value is a node of a flow network whose
capacity is its size in bytes; an op that is cheap to run again passes flow from its inputs to its outputs, any other op is
a source. What a minimum cut separates from the sources is computed again from the cut values, which are saved. Among cuts of
one size the one nearest to the backward part is taken, which computes the least again.

Source: Dinic's algorithm (E. A. Dinic, 1970), on the part of the graph that cheap ops connect with the backward part.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from typing import Any

from ..graph.ir import Node, Value
from ..graph.ops import MAY_FAIL
from ..graph.ordering import node_effects
from ..graph.types import ScalarType, TensorType

_CHEAP = frozenset(
    f"aten.{n}"
    for n in [
        "t.default",
        "transpose.int",
        "permute.default",
        "view.default",
        "_unsafe_view.default",
        "reshape.default",
        "select.int",
        "slice.Tensor",
        "unsqueeze.default",
        "squeeze.default",
        "squeeze.dim",
        "expand.default",
        "alias.default",
        "detach.default",
        "diagonal.default",
        "as_strided.default",
        "_to_copy.default",
        "zeros.default",
        "ones.default",
        "full.default",
        "arange.default",
        "scalar_tensor.default",
        "zeros_like.default",
        "ones_like.default",
        "full_like.default",
        "gt.Scalar",
        "lt.Scalar",
        "ge.Scalar",
        "le.Scalar",
        "eq.Scalar",
        "ne.Scalar",
        "gt.Tensor",
        "lt.Tensor",
        "ge.Tensor",
        "le.Tensor",
        "eq.Tensor",
        "ne.Tensor",
        "logical_not.default",
        "logical_and.default",
        "logical_or.default",
        "bitwise_not.default",
        "bitwise_and.Tensor",
        "bitwise_or.Tensor",
        "isnan.default",
        "isinf.default",
        "sgn.default",
        "sign.default",
    ]
)
# In a loop a value is saved once for each trip: fresh memory costs more than arithmetic on what is saved anyway.
_ARITHMETIC = frozenset(
    f"aten.{n}"
    for n in [
        "add.Tensor",
        "add.Scalar",
        "sub.Tensor",
        "sub.Scalar",
        "rsub.Scalar",
        "mul.Tensor",
        "mul.Scalar",
        "neg.default",
        "where.self",
    ]
)
_INFINITE = 1 << 60


def cheap(node: Node, repeated: bool = False) -> bool:
    """Whether an op is computed again rather than saved when that takes less memory. ``repeated``: in a loop's body."""
    if node.regions:
        return False
    effects = node_effects(node)  # what did not fail the first time does not fail the second time
    if not (effects.pure or effects == MAY_FAIL):
        return False
    return (
        node.op in _CHEAP
        or (repeated and node.op in _ARITHMETIC)
        or node.op.startswith("py.")
        or node.op in ("tg.constant", "tg.identity", "tg.written")
    )


def size(value: Value) -> int:
    """The bytes of a value; an unknown size counts as 64."""
    kind = value.type
    if isinstance(kind, TensorType):
        count = kind.dtype.itemsize
        for n in kind.shape:
            count *= 64 if n is None else n
        return max(count, 1)
    return 1 if isinstance(kind, ScalarType) else _INFINITE >> 20


def saved_values(
    forward: Sequence[Node],
    free: Sequence[Value],
    costly: Sequence[Value],
    wanted: Sequence[Value],
    repeated: bool,
) -> tuple[list[Value], list[Node]]:
    """(values to save, cheap nodes to run again) so that the backward part has ``wanted``; ``free`` values are there."""
    net, reached, again = _network(set(free), set(costly), wanted, repeated)
    behind = net.sink_side()
    order = {v: i for i, v in enumerate(costly)}
    order.update({v: len(order) + i for i, v in enumerate(v for n in forward for v in n.outputs)})
    saved = [v for v in reached if (v, 0) not in behind and (v, 1) in behind]
    kept = set(saved)
    rerun = {
        n
        for n in again
        if any((v, 1) in behind and v not in kept for v in n.outputs if v in reached)
    }
    return sorted(saved, key=order.__getitem__), [n for n in forward if n in rerun]


def _network(
    have: set[Value], expensive: set[Value], wanted: Sequence[Value], repeated: bool
) -> tuple[_Network, dict[Value, None], dict[Node, None]]:
    """(network, values in it, nodes that may run again): from what cannot be computed again to what is wanted.

    A value is two places, with its size between them.
    """
    net = _Network()
    reached: dict[Value, None] = {}
    again: dict[Node, None] = {}
    todo = [v for v in wanted if v not in have]
    for value in todo:
        net.add((value, 1), _SINK, _INFINITE)
    while todo:
        value = todo.pop()
        if value in reached or value in have:
            continue
        reached[value] = None
        net.add((value, 0), (value, 1), size(value))
        if value in expensive or value.node is None or not cheap(value.node, repeated):
            net.add(_SOURCE, (value, 0), _INFINITE)
            continue
        again[value.node] = None
        for operand in value.node.inputs:
            net.add((operand, 1), (value, 0), _INFINITE)
            todo.append(operand)
    return net, reached, again


_SOURCE, _SINK = "source", "sink"


class _Network:
    """A flow network: capacities left, by edge."""

    def __init__(self) -> None:
        self.left: dict[Any, dict[Any, int]] = {_SOURCE: {}, _SINK: {}}

    def add(self, a: Any, b: Any, capacity: int) -> None:
        self.left.setdefault(a, {})[b] = self.left.get(a, {}).get(b, 0) + capacity
        self.left.setdefault(b, {}).setdefault(a, 0)

    def sink_side(self) -> set[Any]:
        """The nodes from which the sink can still be reached when the flow is at its maximum."""
        while levels := self._levels():
            rest = {a: list(edges) for a, edges in self.left.items()}
            while self._push(levels, rest):
                pass
        back: dict[Any, list[Any]] = {}
        for a, edges in self.left.items():
            for b, capacity in edges.items():
                if capacity > 0:
                    back.setdefault(b, []).append(a)
        return _closure(_SINK, back)

    def _levels(self) -> dict[Any, int] | None:
        levels, queue = {_SOURCE: 0}, deque([_SOURCE])
        while queue:
            a = queue.popleft()
            for b, capacity in self.left[a].items():
                if capacity > 0 and b not in levels:
                    levels[b] = levels[a] + 1
                    queue.append(b)
        return levels if _SINK in levels else None

    def _push(self, levels: dict[Any, int], rest: dict[Any, list[Any]]) -> int:
        """One more path of the level graph, found by depth-first search without recursion."""
        path = [_SOURCE]
        while path:
            a = path[-1]
            if a == _SINK:
                edges = list(itertools.pairwise(path))
                amount = min(self.left[x][y] for x, y in edges)
                for x, y in edges:
                    self.left[x][y] -= amount
                    self.left[y][x] += amount
                return amount
            while rest[a]:
                b = rest[a][-1]
                if self.left[a][b] > 0 and levels.get(b) == levels[a] + 1:
                    path.append(b)
                    break
                rest[a].pop()
            else:
                path.pop()
                if path:
                    rest[path[-1]].pop()
        return 0


def _closure(start: Any, edges: dict[Any, list[Any]]) -> set[Any]:
    seen, todo = {start}, [start]
    while todo:
        for b in edges.get(todo.pop(), ()):
            if b not in seen:
                seen.add(b)
                todo.append(b)
    return seen
