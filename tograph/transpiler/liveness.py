"""Which names may still be read: backward over the control flow graph.

Model: a name is live at a point if some path from there reads it before it is certainly bound
again. Only names that the function itself binds or declares are tracked. A set of names is an int,
one bit a name. A node that is cut short (``exc``) has perhaps not bound anything, so what its
handlers need is live before it.

Always live: names declared global or nonlocal that the function binds; every local of a function
that calls ``locals()``, ``eval`` and the like. Live from the definition on, whether or not the
inner code runs: what nested functions, lambdas and generator expressions capture. List, set and
dict comprehensions and class bodies run at once and are plain reads.

LIVE_OUT of a statement is what is live where control may be after it: at its end, where its jumps
lead, and at the handlers around it. For a jump statement the end does not count, so a name read
only after an ``if`` that returns is not live in its branch.
"""

from collections.abc import Iterable

from .anno import Fact, set_fact
from .cfg import Graph, build_all
from .syntax import gast

__all__ = ["annotate"]


class _Names:
    """The tracked names of a graph as bits."""

    def __init__(self, graph: Graph):
        self.names = sorted(graph.scope.bound)
        self.bit = {name: 1 << index for index, name in enumerate(self.names)}
        self.sets: dict[int, frozenset[str]] = {}

    def mask(self, names: Iterable[str]) -> int:
        """The bits of the tracked ones among some names."""
        mask = 0
        for name in names:
            mask |= self.bit.get(name, 0)
        return mask

    def set_of(self, mask: int) -> frozenset[str]:
        """The names of some bits; equal masks share one set."""
        if mask not in self.sets:
            chosen = (name for index, name in enumerate(self.names) if mask >> index & 1)
            self.sets[mask] = frozenset(chosen)
        return self.sets[mask]


def _captured(graph: Graph, names: _Names) -> list[int]:
    """For each node, the names that inner code defined before it may still use."""
    late = [names.mask(node.late) for node in graph.nodes]
    before = [0] * len(late)
    changed = any(late)
    while changed:
        changed = False
        for node in graph.nodes:
            mask = before[node.index]
            for pred in node.pred:
                mask |= before[pred.index] | late[pred.index]
            if mask != before[node.index]:
                before[node.index], changed = mask, True
    return before


def _solve(graph: Graph, names: _Names) -> list[int]:
    """The names live before each node: the least solution, by rounds against the flow."""
    scope = graph.scope
    always = names.mask(scope.declared_global | scope.declared_nonlocal)
    if scope.uses_frame:
        always |= names.mask(scope.locals)
    read, keep = [], []
    for node, captured in zip(graph.nodes, _captured(graph, names), strict=True):
        read.append(names.mask(node.reads) | captured | always)
        keep.append(~names.mask(node.kills))
    live = [0] * len(read)
    backward = [
        (node.index, [n.index for n in node.succ], [n.index for n in node.exc])
        for node in reversed(graph.nodes)
    ]
    changed = True
    while changed:
        changed = False
        for index, succ, exc in backward:
            mask = 0
            for after in succ:
                mask |= live[after]
            mask = mask & keep[index] | read[index]
            for after in exc:
                mask |= live[after]
            if mask != live[index]:
                live[index], changed = mask, True
    return live


def annotate(fn: gast.AST, graphs: list[Graph] | None = None) -> None:
    """Record LIVE_OUT and LIVE_IN_HEAD in a function and in every function nested in it."""
    for graph in build_all(fn) if graphs is None else graphs:
        names = _Names(graph)
        live = _solve(graph, names)
        out: dict[gast.stmt, int] = {}
        for stmt, ways in graph.leaving:
            mask = out.get(stmt, 0)
            for node in ways:
                mask |= live[node.index]
            out[stmt] = mask
        for stmt, mask in out.items():
            set_fact(stmt, Fact.LIVE_OUT, names.set_of(mask))
        heads: dict[gast.stmt, int] = {}
        for stmt, node in graph.heads:
            heads[stmt] = heads.get(stmt, 0) | live[node.index]
        for stmt, mask in heads.items():
            set_fact(stmt, Fact.LIVE_IN_HEAD, names.set_of(mask))
