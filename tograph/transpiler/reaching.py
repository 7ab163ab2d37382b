"""Which definitions a read may see, and whether it may see none: forward over the graph.

Model: a definition is a node that binds a local name; that a name is unbound is one more
definition of it, made at the entry (except for parameters), by ``del`` and at the end of
``except ... as name``. A set of definitions is an int, one bit each. A node that certainly binds
or unbinds a name replaces its definitions; one that perhaps does adds to them. Along an ``exc``
edge the node may have done all or nothing, so both states pass.

A use is a Name that is loaded, deleted or the target of an augmented assignment, in the function's
own scope with its comprehensions; bodies of nested functions and classes are not included. Code
that no path reaches sees no definition and is not called unbound.

Over-approximation: nothing is learned from tests (after ``a and (x := f())`` the name is maybe
unbound on both branches). Not seen: bindings by nested functions (nonlocal) are no definitions; a
name that they may delete is always maybe unbound, and in a generator expression so is one that is
deleted anywhere in the function.
"""

from collections.abc import Iterator

from .anno import Fact, drop_fact, set_fact
from .cfg import Graph, Node, build, build_all
from .syntax import gast, walk

__all__ = ["annotate", "definitions"]


class _Definitions:
    """The definitions of a graph as bits, and those that reach each node."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.locals = graph.scope.locals
        self.unbound = {name: 1 << index for index, name in enumerate(sorted(self.locals))}
        self.of_name = dict(self.unbound)  # every definition of a name, with its unbound bit
        self.nodes: list[Node | None] = [None] * len(self.unbound)  # bit number to defining node
        self.made = [self._make(node) for node in graph.nodes]
        for name in self.locals.difference(graph.scope.params):
            self.made[graph.entry.index] |= self.unbound[name]
        self.before = self._solve()

    def _make(self, node: Node) -> int:
        """The definitions that a node makes; new bits for those that bind."""
        mask = 0
        for name in node.writes & self.locals if node.writes else ():
            bit = 1 << len(self.nodes)
            self.nodes.append(node)
            self.of_name[name] |= bit
            mask |= bit
        for name in node.deletes & self.locals if node.deletes else ():
            mask |= self.unbound[name]
        return mask

    def _solve(self) -> list[int]:
        """The definitions that reach each node, by rounds along the flow."""
        flow = []
        for node, made in zip(self.graph.nodes, self.made, strict=True):
            keep = -1
            for name in node.kills:
                keep &= ~self.of_name.get(name, 0)
            succ, exc = [n.index for n in node.succ], [n.index for n in node.exc]
            flow.append((node.index, keep, made, succ, exc))
        before = [0] * len(flow)
        changed = True
        while changed:
            changed = False
            for index, keep, made, succ, exc in flow:
                start = before[index]
                end = start & keep | made
                for after in succ:
                    if end & ~before[after]:
                        before[after] |= end
                        changed = changed or after <= index
                for after in exc:
                    if (start | end) & ~before[after]:
                        before[after] |= start | end
                        changed = changed or after <= index
        return before

    def uses(self) -> Iterator[tuple[Node, gast.Name, int, bool]]:
        """Each use of a local in each node: its definitions, and whether it may be unbound."""
        shaky = self.graph.scope.deleted_by_inner
        deleted = {name for node in self.graph.nodes for name in node.deletes}
        for node in self.graph.nodes:
            reaching = self.before[node.index]
            lazy = node.late & deleted if node.late else ()
            for load in node.loads:
                name = load.id
                if name in self.locals:
                    unbound = reaching & self.unbound[name] or name in shaky or name in lazy
                    yield node, load, reaching & self.of_name[name], bool(unbound)
            for load in node.settled:
                if load.id in self.locals:
                    yield node, load, 0, load.id in shaky or load.id in lazy

    def unbound_for_inner(self) -> set[str]:
        """The locals that may be unbound where a nested function that uses them is defined, or is called after a ``del``."""
        deleted = {name for node in self.graph.nodes for name in node.deletes}
        deleted |= self.graph.scope.deleted_by_inner
        return {
            name
            for node in self.graph.nodes
            for name in node.inner
            if name in self.locals
            and (
                name in deleted
                or (name not in node.writes and self.before[node.index] & self.unbound[name])
            )
        }


def annotate(fn: gast.AST, graphs: list[Graph] | None = None) -> None:
    """Record MAYBE_UNBOUND on the uses in a function and in every function nested in it.

    A variable that may be unbound where a nested function is defined, or that is deleted, may be so where that reads it.
    """
    for graph in build_all(fn) if graphs is None else graphs:
        maybe: dict[gast.Name, bool] = {}
        found = _Definitions(graph)
        for _, use, _, unbound in found.uses():
            maybe[use] = maybe.get(use, False) or unbound
        shaky = found.unbound_for_inner()
        for inner in graph.functions if shaky else ():
            for use in walk(inner):
                if (
                    isinstance(use, gast.Name)
                    and use.id in shaky
                    and isinstance(use.ctx, gast.Load)
                ):
                    maybe[use] = True
        for use, unbound in maybe.items():
            if unbound:
                set_fact(use, Fact.MAYBE_UNBOUND, True)
            else:
                drop_fact(use, Fact.MAYBE_UNBOUND)


def definitions(fn: gast.AST, graph: Graph | None = None) -> dict[gast.Name, frozenset[Node]]:
    """The nodes that may have bound the value that each use of a local in ``fn`` sees."""
    found = _Definitions(build(fn) if graph is None else graph)
    result: dict[gast.Name, frozenset[Node]] = {}
    for node, use, mask, _ in found.uses():
        seen = {n for bit, n in enumerate(found.nodes) if n is not None and mask >> bit & 1}
        if use in node.settled:
            seen = {node}
        result[use] = result.get(use, frozenset()) | seen
    return result
