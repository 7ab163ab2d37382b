"""A ``try`` becomes branches: where it can be told before an op whether it fails, its handler is the other branch.

For native code, which leaves a run to the host where something else fails: so it need not be known of every op. An index, a divisor, the
argument of a root or logarithm, an assertion and a branch that only raises can be told. What the body keeps for the handler in a cell is
known at each such place: the handler takes the values from there.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import AssertionFailed
from ..graph.ir import Graph, Node, Value
from ..graph.ops import OpaqueObject
from ..graph.ordering import node_effects
from ..graph.rewrite import cannot_fail, copy_node, splice
from ..graph.types import BOOL, INT, ScalarType
from .settle import without_try

MOST = 8  # places of one body that get a copy of the handler


class _Unknown(Exception):
    """A handler asks for what is not known where the body fails."""


@dataclass(frozen=True)
class _Failure:
    """What fails where ``test`` has the value ``when``, with an exception of class ``kind``. ``gone``: the node does nothing else."""

    kind: type[BaseException]
    test: Any
    when: bool
    gone: bool = False
    sets: tuple[tuple[Value, tuple[int, Sequence[Any]]], ...] = ()  # what is put into cells before


def forked(graph: Graph) -> Graph:
    """``graph`` with branches in the place of a Try where that can be done."""
    caught: set[Node] = set()
    return without_try(graph, _alike, lambda node, nodes: _Fork(node, caught).run(nodes))


def _alike(node: Node) -> bool:
    """Whether all regions give what the Try does, and the handlers end well."""
    types = [v.type for v in node.outputs]
    if any([v.type for v in r.outputs] != types for r in node.regions.values()):
        return False
    handlers = [r for name, r in node.regions.items() if name != "body"]
    known = len(handlers) == len(node.kwargs["kinds"]) and len(node.regions) == len(handlers) + 1
    return known and not any(n.op == "tg.reraise" for r in handlers for n in r.nodes)


class _Fork:
    """One Try while its body is taken apart. ``cells``: what the body has put into each cell, and by which setting.

    ``caught``: nodes whose failures a Try inside takes, whose handler is not a branch: they are not for the handlers of this one.
    """

    def __init__(self, node: Node, caught: set[Node]):
        self.node, self.count, self.caught = node, 0, caught
        self.handlers = [r for name, r in node.regions.items() if name != "body"]
        self.kinds = [kind.value for kind in node.kwargs["kinds"]]
        self.cells: dict[Value, tuple[int, Sequence[Any]]] = {}
        self.lost = False  # whether a branch of the body has put something into a cell

    def run(self, nodes: list[Node]) -> list[Any]:
        """Append what the Try becomes; what stands for its outputs."""
        body: list[Node] = []
        outs = splice(self.node.regions["body"], self.node.args, body, self.node.grad)
        return self._rest(body, outs, nodes)

    def _rest(self, body: list[Node], outs: list[Any], nodes: list[Node]) -> list[Any]:
        """Append the nodes of the body that are left, up to one that may fail; that is a branch with all that follows in it."""
        for i, node in enumerate(body):
            made = list[Node]()
            unseen = self.lost or self.count >= MOST or node in self.caught
            failure = None if unseen else _failure(node, made)
            handled = failure and self._handled(failure)
            if handled:
                self.count += 1
                nodes += made
                rest = body[i + 1 :] if failure.gone else body[i:]
                return self._branch(failure, handled, rest, outs, nodes)
            if unseen or (failure and any(issubclass(failure.kind, k) for k in self.kinds)):
                self.caught.add(node)
            self._note(node)
            nodes.append(node)
        return outs

    def _note(self, node: Node) -> None:
        if node.op == "tg.cell_set":
            self.cells[node.args[0]] = node.args[1], node.args[2]
        self.lost |= any(_sets(r) for r in node.regions.values())

    def _handled(self, failure: _Failure) -> tuple[list[Node], list[Any]] | None:
        """The nodes and results of the handler of an exception, for what the body holds here."""
        cells = {**self.cells, **dict(failure.sets)}
        for kinds, handler in zip(self.kinds, self.handlers):
            if issubclass(failure.kind, kinds):
                try:
                    return self._copy(handler, cells)
                except _Unknown:
                    return None
        return None

    def _copy(
        self, handler: Graph, cells: Mapping[Value, tuple[int, Sequence[Any]]]
    ) -> tuple[list[Node], list[Any]]:
        env = _Known(zip(handler.inputs, self.node.args, strict=True))
        nodes: list[Node] = []
        for node in handler.nodes:
            if node.op == "tg.caught":
                continue
            if node.op == "tg.cell_tag":
                tag = cells.get(env[node.args[0]], (0, ()))[0]
                env[node.outputs[0]] = _Tag(tag)
            elif node.op == "tg.cell_get":
                cell, tag, index, _ = node.args
                last, values = cells.get(env[cell], (0, ()))
                if last == tag:
                    env[node.outputs[0]] = values[index]
            elif node.op == "tg.choose" and type(at := env.get(node.args[0])) is _Tag:
                chosen = node.args[1][at.number]
                env[node.outputs[0]] = env[chosen] if isinstance(chosen, Value) else chosen
            else:
                nodes.append(_copied(node, env))
        return nodes, [_told(env[v]) for v in handler.outputs]

    def _branch(self, failure: _Failure, handled: tuple[list[Node], list[Any]], rest: list[Node], outs: list[Any], nodes: list[Node]) -> list[Any]:  # fmt: skip
        then: list[Node] = []
        first = [] if failure.gone else rest[:1]
        for node in first:
            self._note(node)
            then.append(node)
        following = rest[len(first) :]
        went_on = then, self._rest(following, outs, then)
        types = [v.type for v in self.node.outputs]
        sides = (handled, went_on) if failure.when else (went_on, handled)
        given = list(dict.fromkeys(v for side in sides for v in _free(*side)))
        made = Node("If", (failure.test, *given), None, types, location=self.node.location, grad=self.node.grad)  # fmt: skip
        made.regions = {name: _region(name, side, given, types) for name, side in zip(("then", "orelse"), sides)}  # fmt: skip
        nodes.append(made)
        if not self.caught.isdisjoint(then):
            self.caught.add(made)
        return list(made.outputs)


class _Known(dict[Value, Any]):
    """What stands for the values of a handler."""

    def __missing__(self, key: Value) -> Any:
        raise _Unknown


@dataclass(frozen=True)
class _Tag:
    number: int


def _told(x: Any) -> Any:
    if type(x) is _Tag:
        raise _Unknown
    return x


def _copied(node: Node, env: _Known) -> Node:
    """A copy of a node of a handler; some of its values may be constants here."""
    found = {v: _told(env[v]) for v in node.inputs}
    if node.regions and any(not isinstance(x, Value) for x in found.values()):
        raise _Unknown
    places = {v: x if isinstance(x, Value) else v for v, x in found.items()}
    copy = copy_node(node, places)
    constants = {v: x for v, x in found.items() if not isinstance(x, Value)}
    if constants:
        copy.replace_inputs(lambda v: constants.get(v, v))
    env.update(zip(node.outputs, copy.outputs))
    return copy


def _sets(graph: Graph) -> bool:
    return any(n.op == "tg.cell_set" or any(map(_sets, n.regions.values())) for n in graph.nodes)


def _free(nodes: list[Node], outs: list[Any]) -> list[Value]:
    """The values from outside of some nodes that they, or what is made of them, need."""
    made = {v for n in nodes for v in n.outputs}
    needed = [v for n in nodes for v in n.inputs] + [v for v in outs if isinstance(v, Value)]
    return [v for v in needed if v not in made]


def _region(name: str, side: tuple[list[Node], list[Any]], given: list[Value], types: list[Any]) -> Graph:  # fmt: skip
    nodes, outs = side
    made = Graph(name)
    env = {v: Value(v.type) for v in given}
    made.inputs, made.input_names = list(env.values()), [""] * len(given)
    made.nodes = [copy_node(n, env) for n in nodes]
    for x, kind in zip(outs, types, strict=True):
        if not isinstance(x, Value):
            made.nodes.append(Node("py.constant", (x,), None, (kind,)))
        made.outputs.append(env[x] if isinstance(x, Value) else made.nodes[-1].outputs[0])
    return made


# ---- what can be told


def _failure(node: Node, nodes: list[Node]) -> _Failure | None:
    """When a node fails, and how; ``nodes`` gets what computes the test."""
    if node.op == "If":
        return _raising(node, nodes)
    if node.op == "tg.assert":
        kind = _class(node.args[1])
        return (kind and isinstance(node.args[0], Value) and _Failure(kind, node.args[0], False, True)) or None  # fmt: skip
    form = _FORMS.get(node.op)
    test = form and form(node, nodes)
    return _Failure(*test) if test else None


def _class(kind: Any) -> type[BaseException] | None:
    if isinstance(kind, OpaqueObject):
        return type(kind.value)
    found = AssertionFailed if kind == "tg.AssertionFailed" else getattr(builtins, kind, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _raising(node: Node, made: list[Node]) -> _Failure | None:
    """A branch that does nothing but raise, beside one that does nothing."""
    if node.outputs:
        return None
    for name, other, when in (("then", "orelse", True), ("orelse", "then", False)):
        nodes = node.regions[name].nodes
        if node.regions[other].nodes or not nodes or nodes[-1].op != "tg.raise":
            continue
        kind = _class(nodes[-1].args[0])
        found = None if kind is None else _before(node, nodes[:-1], node.regions[name], made)
        if found is not None:
            return _Failure(kind, node.args[0], when, True, found)
    return None


def _before(node: Node, nodes: list[Node], region: Graph, made: list[Node]) -> Any:
    """What a branch puts into cells before it raises; None where it does more. What that is made of goes before the branch."""
    env, out = dict[Value, Any](zip(region.inputs, node.args[1:])), []
    for n in nodes:
        if n.op == "tg.cell_set":
            out.append((env[n.args[0]], (n.args[1], [env.get(v, v) for v in n.args[2]])))
        elif n.regions or not (node_effects(n).removable or cannot_fail(n)):
            return None
        else:
            made.append(copy_node(n, env))
    return tuple(out)


def _emit(nodes: list[Node], op: str, *args: Any, kind: Any = BOOL) -> Value:
    nodes.append(Node(op, args, None, (kind,)))
    return nodes[-1].outputs[0]


Test = tuple[type[BaseException], Any, bool] | None


def _divisor(node: Node, nodes: list[Node]) -> Test:
    by = node.args[1]
    if not isinstance(by, Value) or not isinstance(by.type, ScalarType):
        return None
    return ZeroDivisionError, _emit(nodes, "py.ne", by, 0), False


def _inside(at: Any, n: Any, nodes: list[Node]) -> Value:
    low = -n if type(n) is int else _emit(nodes, "py.neg", n, kind=INT)
    first, last = _emit(nodes, "py.ge", at, low), _emit(nodes, "py.lt", at, n)
    return _emit(nodes, "py.and_", first, last)


def _select(node: Node, nodes: list[Node]) -> Test:
    x, dim, at = node.args
    if not isinstance(at, Value) or at.type != INT:
        return None
    n = x.type.shape[dim]
    n = _emit(nodes, "py.size", x, dim, kind=INT) if n is None else n
    return IndexError, _inside(at, n, nodes), False


def _get(node: Node, nodes: list[Node]) -> Test:
    items, at = node.args
    if isinstance(at, Value) and at.type != INT:
        return None
    n = _emit(nodes, "tg.list_size", items, kind=INT)
    return IndexError, _inside(at, n, nodes), False


def _pop(node: Node, nodes: list[Node]) -> Test:
    items, at = node.args
    if isinstance(at, Value):
        return None
    n = _emit(nodes, "tg.list_size", items, kind=INT)
    return IndexError, _inside(at, n, nodes), False


def _domain(word: str) -> Callable[[Node, list[Node]], Test]:
    def form(node: Node, nodes: list[Node]) -> Test:
        (x,) = node.args
        if not isinstance(x, Value):
            return None
        return ValueError, _emit(nodes, f"py.{word}", x, 0), True

    return form


_FORMS: dict[str, Callable[[Node, list[Node]], Test]] = {
    **dict.fromkeys(("py.truediv", "py.floordiv", "py.mod"), _divisor), "aten.select.int": _select,
    "tg.list_get": _get, "tg.list_pop": _pop, "py.math.sqrt": _domain("lt"), "py.math.log": _domain("le"),
}  # fmt: skip
