"""Leaves that the iterations of a loop make, of which they compute other state: ``x = (x - g).detach().requires_grad_()``, then ``loss = f(x)``.

A gradient of ``loss`` with respect to ``x`` that a later iteration takes is one of what the iteration that made ``x`` computed of it. So the body gets
an input for each place where it makes such a leaf: behind it the value has the history of this input (``tg.written``), which nothing reads. Going through the
iterations backwards, the cotangent of this input is the gradient in the first one, counted from the end, that made the leaf.
Where a branch says whether one is made, the body gives a flag for each place that may have made it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ...errors import GradientError, Location
from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import always_fails
from ..graph.rewrite import add_input, carried, copied, lead, splice
from ..graph.types import BOOL, TensorType, Type, device_of
from ..symbols.funcgraph import FuncGraph
from ..symbols.root import Root
from .dependence import dependences
from .graphs import append
from .parting import Parts

Flag = bool | Value
Rows = dict[int, dict[Value, Flag]]  # by place of the state
Scope = tuple[Graph, Node | None]  # a region, and the node that it belongs to


class NotFollowed(Exception):
    """What makes a leaf is not known."""


class MadeLeaves:
    """Those that the body of ``node``, a ``While`` that is not recorded yet, makes.

    ``tokens``: the inputs that are their histories, by the value of the leaf; ``places``: for each place of the state that is followed, and others that a leaf may
    come there from, the leaves that an iteration may leave there, and inputs of the body that it may pass on, each with whether it does. ``every``: what is no leaf in such a place is not followed; else it has no history there.
    """

    def __init__(
        self,
        node: Node,
        graph: FuncGraph,
        start: Callable[[], Value] | None = None,
        every: bool = True,
    ):
        self.node, self.graph, self.start, self.every = node, graph, start, every
        self.known = graph.root.leaves  # the nodes that used the value of a leaf before it was one
        self.tokens: dict[Value, Value] = {}
        self.outer: dict[Value, Value] = {}  # what the tokens are outside of the node
        self.aliases: dict[Value, Value] = {}  # of leaves with such a history
        self.places: dict[int, Rows] = {}
        self._place = 0

    def follow(self, places: Sequence[int], location: Location | None) -> None:
        """Let the leaves in these places of the state have histories."""
        for i in places:
            if i not in self.places:
                self._place = i
                try:
                    self.places[i] = self.rows(i)
                except NotFollowed:
                    error = GradientError(_REFUSED, location)
                    error.again = True  # what was computed of it may be computed anew
                    raise error from None

    def leaves_of(self, region: Graph, v: Value, state: Value | None) -> dict[Value, Flag]:
        """Let the leaves that a value of a region of the node may be have histories; each with whether it is that one."""
        return self._made(((region, None),), v, state)

    def rows(self, place: int) -> Rows:
        """Let the leaves that may be in a place of the state have histories."""
        body, found, todo = self.node.regions["body"], Rows(), [place]
        while todo:
            q = todo.pop(0)
            found[q] = self._made(((body, None),), body.outputs[q], body.inputs[q])
            more = [body.inputs.index(v) for v in found[q] if v.node is None]
            todo += [r for r in more if r not in found and r not in todo]
        return found

    @property
    def histories(self) -> list[int]:
        """The positions of the tokens among the inputs of the body."""
        inputs = self.node.regions["body"].inputs
        return [inputs.index(token) for token in self.tokens.values()]

    @property
    def flags(self) -> list[Value]:
        """The flags that an iteration has to keep."""
        rows = [row for found in self.places.values() for row in found.values()]
        return [f for row in rows for f in row.values() if isinstance(f, Value)]

    def kept(self, p: Parts, present: Sequence[int]) -> Kept:
        """Let the forward part, whose last outputs before what is saved are the flags, keep these too. ``present``: the inputs of which there are cotangents."""
        flags, body = self.flags, self.node.regions["body"]
        last = len(p.forward.outputs) - len(p.saved)
        keep(p, p.forward.outputs[last - len(flags) : last])
        order = [i for i in present if i in self.histories]
        cells = iter(range(len(p.saved) - len(flags), len(p.saved)))
        sums = []
        for i, found in self.places.items():
            sums.append(Sum(body.inputs[i].type, []))
            for q, row in found.items():
                sums[-1].rows.append(Row(q, [], []))
                for v, flag in row.items():
                    cell = next(cells) if isinstance(flag, Value) else None
                    if v.node is None:
                        sums[-1].rows[-1].moves.append((body.inputs.index(v), cell))
                        continue
                    at = body.inputs.index(self.tokens[v])
                    sums[-1].rows[-1].leaves.append((order.index(at) if at in order else None, cell))  # fmt: skip
        return Kept(list(self.places), sums)

    def _made(self, scopes: tuple[Scope, ...], v: Value, state: Value | None) -> dict[Value, Flag]:
        """Which leaves a value may be, each with whether it is."""
        graph, owner = scopes[-1]
        v = self.aliases.get(v, v)
        if v is state or (owner is None and v in graph.inputs and self.node.op != "While"):
            return {}
        if owner is None and v in graph.inputs[: carried(self.node)]:
            return {v: True}  # of another place
        if v in graph.inputs and owner is not None:
            if graph.inputs.index(v) < carried(owner):
                raise NotFollowed
            outer = owner.args[lead(owner) + graph.inputs.index(v)]
            if not isinstance(outer, Value):
                raise NotFollowed
            found = self._made(scopes[:-1], outer, state)
            name = next(k for k, r in owner.regions.items() if r is graph)
            return {x: add_input(owner, f)[name] if isinstance(f, Value) else f for x, f in found.items()}  # fmt: skip
        if v.node is not None and v.node.op == "tg.read":
            return self._made(scopes, v.node.args[0], state)
        if self._has_token(scopes, v):
            self.known.setdefault(v, [])
        if v in self.known and v.node in graph.nodes:
            self._token(scopes, v)
            return {v: True}
        return self._computed(scopes, v, state)

    def _computed(
        self, scopes: tuple[Scope, ...], v: Value, state: Value | None
    ) -> dict[Value, Flag]:
        op = None if v.node is None or "gradient" in v.node.regions else v.node.op
        if op in (*ALTERNATIVES, "Call"):
            return self._chosen(scopes, v, state)
        if op == "While":
            return self._looped(scopes, v, state)
        if self.every:
            raise NotFollowed
        return {}

    def _has_token(self, scopes: tuple[Scope, ...], v: Value) -> bool:
        """Whether a value has the history of a token of the node: that of a leaf, also where a body is recorded anew."""
        if v.node is None or v.node.op != "tg.written":
            return False
        token = first_of(v.node.args[0])
        for graph, owner in reversed(scopes):
            if token not in graph.inputs:
                return False
            node = self.node if owner is None else owner
            token = node.args[lead(node) + graph.inputs.index(token)]
        return token in self.graph.root.starts

    def _looped(self, scopes: tuple[Scope, ...], v: Value, own: Value | None) -> dict[Value, Flag]:
        """Of a loop in the body: the leaf that its last iteration made, or what it began with where it had none.

        Its iterations have one token, so what they give may be computed from no state: then it is that of the last one alone.
        """
        node, graph = v.node, scopes[-1][0]
        assert node is not None
        body = node.regions["body"]
        # Lists are what a gradient has saved of the iterations.
        state = {i for i, x in enumerate(node.outputs) if isinstance(x.type, TensorType)}
        if any(depends & state for i, depends in enumerate(dependences(body)) if i in state):
            raise NotFollowed
        made = self._made((*scopes, (body, node)), body.outputs[v.index], own)
        if any(flag is not True for flag in made.values()) or not made:
            raise NotFollowed
        nodes: list[Node] = []
        (some,) = splice(copied(node.regions["cond"], True), node.args, nodes, False)
        block = Graph("block")
        none = append(block, "py.not", some, type=BOOL)
        found: dict[Value, Flag] = dict.fromkeys(made, some)
        start = node.args[v.index]
        # What stands for a variable that the iterations make is no leaf.
        constant = start.node is not None and not start.node.inputs and start not in self.known
        for leaf, flag in () if constant else self._made(scopes, start, own).items():
            both = isinstance(flag, Value)
            found[leaf] = append(block, "py.and_", none, flag, type=BOOL) if both else none
        at = graph.nodes.index(node)
        graph.nodes[at:at] = [*nodes, *block.nodes]
        return found

    def _chosen(
        self, scopes: tuple[Scope, ...], v: Value, state: Value | None
    ) -> dict[Value, Flag]:
        node = v.node
        assert node is not None
        regions = [r for r in node.regions.values() if not always_fails(r)]
        rows = [self._made((*scopes, (r, node)), r.outputs[v.index], state) for r in regions]
        return {
            leaf: self._flag(node, regions, [row.get(leaf, False) for row in rows])
            for leaf in dict.fromkeys(leaf for row in rows for leaf in row)
        }

    def _flag(self, node: Node, regions: list[Graph], flags: list[Flag]) -> Flag:
        """What the regions say, as a further output of their node."""
        if all(flag is True for flag in flags):
            return True
        by_region = dict(zip(map(id, regions), flags))
        for region in node.regions.values():
            flag = by_region.get(id(region), False)
            region.outputs.append(flag if isinstance(flag, Value) else append(region, "py.constant", flag, type=BOOL))  # fmt: skip
        node.outputs.append(Value(BOOL, node, len(node.outputs)))
        return node.outputs[-1]

    def _token(self, scopes: tuple[Scope, ...], v: Value) -> None:
        """Give a leaf the history of a new input of the body."""
        node = v.node
        if v in self.tokens or node is None:
            return
        inner = self.tokens[v] = self._input(v, scopes[0][0])
        for graph, owner in scopes[1:]:
            assert owner is not None
            inner = add_input(owner, inner)[next(k for k, r in owner.regions.items() if r is graph)]
        graph = scopes[-1][0]
        if self._has_token(scopes, v):  # of another place that it is in
            both = append(Graph("leaf"), "aten.add.Tensor", node.args[0], inner, type=v.type)
            graph.nodes.insert(graph.nodes.index(node), both.node)
            node.args, self.aliases[v] = (both, *node.args[1:]), v
            return
        made = append(Graph("leaf"), "tg.written", inner, v, type=v.type)
        at = graph.nodes.index(node) + 1
        self.aliases[made], self.known[made] = v, []
        for other in graph.nodes[at:]:
            if other not in self.known[v]:
                other.replace_inputs(lambda x: made if x is v else x)
        graph.outputs = [made if x is v else x for x in graph.outputs]
        graph.nodes.insert(at, made.node)

    def _input(self, leaf: Value, region: Graph) -> Value:
        """A new input of the node, of the type of a leaf, as ``region`` has it; nothing reads it."""
        if self.start is not None:
            start = self.start()
        else:
            first = self.node.args[self._place]
            start = self.graph.emit("aten.detach.default", first, type=leaf.type)
        self.outer[leaf] = start
        self.graph.root.starts.add(start)
        given = add_input(self.node, start)
        return next(given[k] for k, r in self.node.regions.items() if r is region)


def first_of(token: Any) -> Any:
    """The first of the histories that a leaf has."""
    while (
        isinstance(token, Value) and token.node is not None and token.node.op == "aten.add.Tensor"
    ):
        token = token.node.args[0]
    return token


class Row(NamedTuple):
    """What an iteration may leave in a place: ``leaves``, for each its part of the cotangents, and the cell that says whether it does; or what other places begin with (``moves``)."""

    place: int
    leaves: list[tuple[int | None, int | None]]
    moves: list[tuple[int, int | None]]


class Sum(NamedTuple):
    """The gradient of the leaf in the place of the first of the ``rows``."""

    type: Type
    rows: list[Row]


class Kept(NamedTuple):
    """What an iteration backwards adds to the gradients of the leaves in ``places``: once for each, where one was made."""

    places: list[int]
    sums: list[Sum]

    def starts(self, zeros: Sequence[Any]) -> list[Any]:
        """What the state of the loop backwards begins with: the gradients, each with whether one comes, and whether the leaf comes from an iteration before, by the place that it was in then."""
        pairs = zip(zeros, self.sums)
        return [x for zero, s in pairs for x in (zero, False, True, *[False] * (len(s.rows) - 1))]

    def split(self, found: Sequence[Any]) -> list[tuple[Any, Any, Sequence[Any]]]:
        """The same of what is the end of a list: the gradients, each with these flags."""
        rest = iter(found[len(found) - sum(2 + len(s.rows) for s in self.sums) :])
        return [(next(rest), next(rest), [next(rest) for _ in s.rows]) for s in self.sums]

    def add_up(
        self,
        graph: Graph,
        cells: Sequence[Value],
        parts: Sequence[Value],
        told: Mapping[int, Value],
        totals: list[Value],
        added: list[Value],
    ) -> None:
        """Record it. ``told``: of parts that only some iterations give, whether this one does."""
        for kind, rows in self.sums:
            total, opens = Value(kind), {row.place: Value(BOOL) for row in rows}
            some = Value(BOOL)
            totals += [total, some, *opens.values()]
            left: dict[int, list[Value]] = {q: [] for q in opens}
            for q, leaves, moves in rows:
                for part, cell in leaves:
                    if part is not None:
                        here = _both(graph, opens[q], cell, cells)
                        taken = _where(graph, here, parts[part])
                        total = append(graph, "aten.add.Tensor", total, taken, type=kind)
                        if part in told:
                            here = append(graph, "py.and_", here, told[part], type=BOOL)
                        some = append(graph, "py.or_", some, here, type=BOOL)
                for r, cell in moves:
                    left[r].append(_both(graph, opens[q], cell, cells))
                known = [cell for _, cell in (*leaves, *moves)]
                if None not in known:
                    left[q].append(_still_open(graph, opens[q], [cells[c] for c in known if c is not None]))  # fmt: skip
            added += [total, some, *(any_of(graph, flags) for flags in left.values())]


def any_open(graph: Graph, opens: Sequence[Value]) -> Value:
    """Whether the leaf comes from before all iterations."""
    return any_of(graph, list(opens))


def _both(graph: Graph, open_: Value, cell: int | None, cells: Sequence[Value]) -> Value:
    return open_ if cell is None else append(graph, "py.and_", open_, cells[cell], type=BOOL)


def any_of(graph: Graph, flags: Sequence[Value]) -> Value:
    if not flags:
        return append(graph, "py.constant", False, type=BOOL)
    total = flags[0]
    for flag in flags[1:]:
        total = append(graph, "py.or_", total, flag, type=BOOL)
    return total


def stays_leaf(old: Graph, new: Graph, root: Root) -> None:
    """What a graph gives in place of a leaf that an ``old`` one made is that leaf, in regions too; not where it was used before it was one."""
    known = (root.origin or root).anew
    known[new] = known.get(old, old)
    for leaves in (root.leaves, root.left_leaves):
        for v, x in zip(old.outputs, new.outputs) if leaves else ():
            _stays_leaf(v, x, leaves)


def _stays_leaf(v: Value, x: Value, leaves: dict[Value, list[Node]]) -> None:
    if v in leaves:
        if not leaves[v]:
            leaves.setdefault(x, [])
        return
    ours, theirs = v.node, x.node
    if ours is None or theirs is None or ours.op != theirs.op:
        return
    for name in ours.regions.keys() & theirs.regions.keys():
        if name not in ("cond", "gradient"):  # which give other things than the op
            of, to = ours.regions[name].outputs[v.index], theirs.regions[name].outputs[x.index]
            _stays_leaf(of, to, leaves)


def keep(p: Parts, flags: Sequence[Value]) -> None:
    """Let a trip save flags of its own, behind what it saves."""
    at = len(p.kept) + len(p.saved)
    p.backward.inputs[at:at] = [Value(BOOL) for _ in flags]
    p.backward.input_names = [""] * len(p.backward.inputs)
    p.saved = [*p.saved, *flags]


def _still_open(graph: Graph, open_: Value, flags: Sequence[Value]) -> Value:
    """Whether an iteration left the place as it was: none of ``flags`` holds."""
    for flag in flags:
        other = append(graph, "py.not", flag, type=BOOL)
        open_ = append(graph, "py.and_", open_, other, type=BOOL)
    return open_


def _where(graph: Graph, test: Value, x: Value) -> Value:
    assert isinstance(x.type, TensorType)
    kind = TensorType(torch.bool, (), x.type.device)
    mask = append(graph, "aten.scalar_tensor.default", test, type=kind, dtype=torch.bool, device=device_of(x.type))  # fmt: skip
    return append(graph, "aten.where.ScalarOther", mask, x, 0, type=x.type)


_REFUSED = (
    "a gradient that is taken inside of a staged loop is one of a value that an earlier iteration computed, with respect to a tensor that an earlier "
    "iteration made, in a way that is not followed: a loop in the body made it which computes its state from that of the iteration before, or it is no leaf. Compute the value in the iteration that takes the gradient, "
    "at the start of the body."
)
