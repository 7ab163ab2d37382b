"""Which results of a call share parts of their gradients: each group of them has a node of torch's autograd of its own.

In eager PyTorch the histories of two results meet in the ops that both depend on. Where nothing was saved there (``+``, views, sums) one
gradient can be taken after the other; where something was saved, the first frees it for the second. So the outputs of
a call are parted into **shares**: two of them are in one where an op of the backward graph that reads a saved value, or joins cotangents by
more than an addition, gets cotangents of both. A share's backward graph is the whole one with the other cotangents left
out, and in a gradient that only some of its results take part in it is ``narrowed`` to those (``absent``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..graph.ir import Graph, Node, Value
from ..graph.ordering import prune, set_control_inputs
from ..graph.rewrite import carried, passed
from ..graph.types import ScalarType
from .absent import without
from .unsaved import is_view
from .vjp import Pullback

MOST = 8  # shares of a call; with more of them all outputs are one
_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Share:
    """``given`` and ``present`` are positions among those of the pullback, ``stored`` among its kept inputs and saved values.

    ``backward``: the stored values and the cotangents of the share -> its gradients. ``saves``: a gradient frees what is stored. ``groups``: for each of
    ``given`` a number, the same for those that share what was saved, -1 for those that nothing was saved for.
    """

    given: list[int]
    stored: list[int]
    present: list[int]
    backward: Graph
    saves: bool
    groups: Sequence[int] = ()


def shares(pullback: Pullback) -> list[Share]:
    """The shares of a graph's outputs, in the order of their first ones."""
    graph, count = pullback.backward, len(pullback.given)
    first = len(graph.inputs) - count
    depends: dict[Value, frozenset[int]] = {}
    parts: dict[int, list[int]] = {}
    if 1 < count <= 8 * MOST:
        depends, group = _dependences(graph, graph.inputs[first:])
        for i in range(count):
            parts.setdefault(_root(group, i), []).append(i)
    if not 1 < len(parts) <= MOST:
        return [
            Share(
                list(range(count)),
                list(range(first)),
                list(range(len(pullback.present))),
                graph,
                bool(pullback.saves),
                groups(graph, graph.inputs[first:]),
            )
        ]
    apart = groups(graph, graph.inputs[first:])
    return [
        _share(
            graph,
            first,
            part,
            depends,
            any(pullback.given[i] in pullback.saves for i in part),
            [apart[i] for i in part],
        )
        for part in parts.values()
    ]


def groups(graph: Graph, cotangents: Sequence[Value]) -> list[int]:
    """For each cotangent of a backward graph a number, the same for those that meet, also in regions, where something that was saved is read.

    -1: of what nothing was saved for.
    """
    if len(cotangents) < 2:
        return [0] * len(cotangents)
    made = _Groups(len(cotangents))
    made.follow(graph, {v: frozenset([i]) for i, v in enumerate(cotangents)})
    saving = {_root(made.group, i) for i in made.saving}
    roots = (_root(made.group, i) for i in range(len(cotangents)))
    return [r if r in saving else -1 for r in roots]


class _Groups:
    """``saving``: cotangents that something which was saved is read for."""

    def __init__(self, count: int):
        self.group, self.saving = list(range(count)), set[int]()

    def follow(self, graph: Graph, known: dict[Value, frozenset[int]]) -> list[frozenset[int]]:
        """The cotangents that the outputs of a graph depend on, from those that its inputs do."""
        for node in graph.nodes:
            having = [v for v in dict.fromkeys(node.inputs) if known.get(v)]
            if not having:
                continue
            if node.regions:
                known.update(zip(node.outputs, self._inside(node, known)))
                continue
            found = _NONE.union(*(known[v] for v in having))
            rest = set(node.inputs).difference(having)
            saved = not _moves(node) or any(not isinstance(v.type, ScalarType) for v in rest)
            if saved:
                self.saving |= found
            if saved or (len(having) > 1 and not _adds(node)):
                for i in found:
                    self.group[_root(self.group, i)] = _root(self.group, min(found))
            known.update(dict.fromkeys(node.outputs, found))
        return [known.get(v, _NONE) for v in graph.outputs]

    def _inside(self, node: Node, known: dict[Value, frozenset[int]]) -> list[frozenset[int]]:
        given = [known.get(v, _NONE) if isinstance(v, Value) else _NONE for v in passed(node)]
        regions = [r for name, r in node.regions.items() if name != "cond"]
        while True:
            rows = [self.follow(r, dict(zip(r.inputs, given))) for r in regions]
            found = [_NONE.union(*column) for column in zip(*rows)]
            state = [a | b for a, b in zip(given, found[: carried(node)])]
            if state == given[: len(state)]:
                return found if node.op != "While" else state
            given[: len(state)] = state


def _dependences(
    graph: Graph, cotangents: Sequence[Value]
) -> tuple[dict[Value, frozenset[int]], list[int]]:
    """The cotangents that each value depends on, and for each cotangent one that it belongs together with."""
    depends = {v: frozenset([i]) for i, v in enumerate(cotangents)}
    group = list(range(len(cotangents)))
    for node in graph.nodes:
        having = [v for v in dict.fromkeys(node.inputs) if depends.get(v)]
        found = _NONE.union(*(depends[v] for v in having))
        joins = len(having) > 1 and not _adds(node)
        if found and (joins or len(having) < len(set(node.inputs))):
            for i in found:
                group[_root(group, i)] = _root(group, min(found))
        depends.update(dict.fromkeys(node.outputs, found))
    return depends, group


# Of what these are the gradient nothing was saved; a product by a number has saved that.
_PASSING = frozenset(
    f"aten.{n}"
    for n in ["add.Tensor", "neg.default", "clone.default", "sum.default", "sum.dim_IntList", "_to_copy.default"]
)  # fmt: skip


def _moves(node: Node) -> bool:
    return node.op in _PASSING or not node.op.startswith("aten.") or is_view(node)


def _adds(node: Node) -> bool:
    """Whether a node is the sum of two values of its own type."""
    if node.op != "aten.add.Tensor" or node.kwargs or len(node.inputs) != 2:
        return False
    return all(v.type == node.outputs[0].type for v in node.inputs)


def _root(group: list[int], i: int) -> int:
    while group[i] != i:
        i = group[i]
    return i


def _share(
    graph: Graph,
    first: int,
    part: list[int],
    depends: dict[Value, frozenset[int]],
    saves: bool,
    apart: Sequence[int],
) -> Share:
    """The share of the cotangents ``part`` of a backward graph, of which ``first`` inputs are no cotangents."""
    own = frozenset(part)
    present = [k for k, v in enumerate(graph.outputs) if not own.isdisjoint(depends.get(v, _NONE))]
    others = [i for i in range(len(graph.inputs) - first) if i not in own]
    copy = without(graph, [first + i for i in others], [first + i for i in part])
    made = copy.graph(present)
    stored = _trim(made, first, [first + i for i in part])
    return Share(part, stored, present, made, saves, apart)


def narrowed(share: Share, there: Sequence[bool]) -> Share:
    """A share in a gradient that only some of its results take part in.

    ``given``, ``stored`` and ``present`` are positions among those of ``share`` here; ``given`` are the cotangents that are read, zeros for one that is
    not there but whose sizes are asked for.
    """
    first = len(share.stored)
    own = [first + i for i, t in enumerate(there) if t]
    others = [first + i for i, t in enumerate(there) if not t]
    copy = without(share.backward, others, own)
    gone = copy.absent()
    present = [k for k in range(len(share.present)) if k not in gone]
    made = copy.graph(present)
    given = sorted({*own, *copy.asked})
    stored = _trim(made, first, given)
    return Share([i - first for i in given], stored, present, made, share.saves)


def _trim(graph: Graph, first: int, cotangents: Sequence[int]) -> list[int]:
    """Leave the inputs that are read, of the first ones, and ``cotangents``; returns the former."""
    prune(graph)
    used = {v for n in graph.nodes for v in n.inputs} | set(graph.outputs)
    stored = [i for i in range(first) if graph.inputs[i] in used]
    graph.inputs = [graph.inputs[i] for i in [*stored, *cotangents]]
    graph.input_names = [""] * len(graph.inputs)
    set_control_inputs(graph)
    return stored
