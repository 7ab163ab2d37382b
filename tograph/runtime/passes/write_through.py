"""Updates of a resource happen in the resource: ``tg.assign(r, OP(tg.read(r), ...))`` becomes ``update.OP(r, ...)``.

The update stands where the assign stood. It may be a chain of updates; only the first may fail then, because a
later one would leave the resource half written. An op that may fail moves to the place of the assign only when nothing
in between has an effect or may fail. Later uses of the assigned value read the resource again, which ``reinplace``
makes a look without a copy where nothing writes it before.
"""

from __future__ import annotations

from ..graph.ir import Graph, Node, Value
from ..graph.ops import exists
from ..graph.ordering import node_effects
from ..graph.rewrite import Renaming
from .forward import ASSIGN, READ, writes_anything
from .updates import UPDATE


def write_through(graph: Graph) -> Graph:
    """``graph`` with updates of resources in place."""
    walk = _Walk(graph)
    names, nodes = Renaming(), []
    gone: set[Node] = set()
    for at, node in enumerate(graph.nodes):
        names.apply(node)
        for region in node.regions.values():
            write_through(region)
        chain = walk.chain(node, at) if node.op == ASSIGN else []
        walk.note(node, at)
        if not chain:
            nodes.append(node)
            continue
        gone.update(chain)
        resource, value = node.args
        for link in chain:
            nodes.append(_update(link, resource))
        if len(walk.uses[value]) > 1:
            again = Node(
                READ, (resource,), None, (value.type,), location=node.location, grad=node.grad
            )
            nodes.append(again)
            names[value] = again.outputs[0]
            walk.place[again] = at
    graph.nodes = [n for n in nodes if n not in gone]
    names.outputs(graph)
    return graph


def _update(link: Node, resource: Value) -> Node:
    args = (resource, *link.args[1:])
    return Node(UPDATE + link.op, args, link.kwargs, location=link.location, grad=link.grad)


def _fits(link: Node, resource: Value) -> bool:
    kind = resource.type
    if not exists(UPDATE + link.op) or not link.args or not isinstance(link.args[0], Value):
        return False
    return link.outputs[0].type == kind and None not in kind.shape


class _Walk:
    """What has happened so far in a graph: by position, the uses, the last writes and the last effect."""

    def __init__(self, graph: Graph):
        self.place = {node: i for i, node in enumerate(graph.nodes)}
        self.uses: dict[Value, list[int]] = {}
        for i, node in enumerate(graph.nodes):
            for value in node.inputs:
                self.uses.setdefault(value, []).append(i)
        for value in graph.outputs:
            self.uses.setdefault(value, []).append(len(graph.nodes))
        self.written: dict[Value, int] = {}
        self.any_written = self.effect = -1

    def note(self, node: Node, at: int) -> None:
        effects = node_effects(node)
        ins = node.inputs
        for i in effects.writes:
            self.written[ins[i]] = at
        if writes_anything(effects):
            self.any_written = at
        if not effects.removable:
            self.effect = at

    def chain(self, assign: Node, at: int) -> list[Node]:
        """The updates that make the assigned value of what was read, first one first; none when they must stay."""
        resource, value = assign.args
        links: list[Node] = []
        while isinstance(value, Value) and value.node is not None and value.node.op != READ:
            link = value.node
            uses = self.uses[value]
            if (
                not _fits(link, resource)
                or link not in self.place
                or min(uses) < (self.place[links[0]] if links else at)
            ):
                return []
            if links and len(uses) > 1:
                return []
            links.insert(0, link)
            value = link.args[0]
        read = value.node if isinstance(value, Value) else None
        if not links or read is None or read.args[0] is not resource or read not in self.place:
            return []
        return links if self._undisturbed(links, resource, self.place[read]) else []

    def _undisturbed(self, links: list[Node], resource: Value, since: int) -> bool:
        """Whether the resource still is what was read, and a failure in the new place is none too late."""
        if max(self.written.get(resource, -1), self.any_written) > since:
            return False
        if any(node_effects(link).may_fail for link in links[1:]):
            return False
        return self.effect <= self.place[links[0]] or not node_effects(links[0]).may_fail
