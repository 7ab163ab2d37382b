"""Who owns the memory of a value: which functional updates may write into their first argument.

Model. A *token* stands for memory that one op made: a tensor's storage, or a list's cells. Each value has the tokens
that it may share. An update may write into its first argument when every token of it is *owned* (made here, not
given from outside and not kept by Python code), no value that was made before and shares one of them is used later, and no
other argument of the update shares one. Then its output shares the tokens.

Regions. The branch of an If sees the tokens of its arguments; they are needed later when something after the If, or
around it, uses them. In a loop all memory from outside is needed later, by the next iteration. State of a loop has a
token of its own, which the body may write into: this is assumed for every state, the body is analysed, and then
each next state must have nothing but its own token or memory made in the same iteration, shared with no other state. States that
break this are not owned, and the analysis is repeated. The initial value of a state that is written must
be owned and not needed after the loop; else it is copied once before the loop (``Plan.copies``).

Nothing in a loop's condition or a Try writes into memory from outside: the body, or the handler, needs it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.ops import lookup
from ..graph.ordering import node_effects
from ..graph.rewrite import holds_tensors, is_torch_op, lead
from ..graph.types import ListType, TensorType
from .forward import READ, writes_anything
from .updates import is_update

ROUNDS = 4
END = 1 << 60  # the place of a graph's outputs
# Views that show one element in several places: nothing can be written through them.
_OVERLAPPING = ("aten.expand.default", "aten.as_strided.default", "aten.unfold.default")


class Token:
    """Memory. ``cells``: a list's, not a tensor's. ``loop``: the innermost loop, or the graph, that made it."""

    __slots__ = ("cells", "loop", "owned", "read")

    def __init__(
        self, loop: Any, cells: bool = False, owned: bool = True, read: Node | None = None
    ):
        self.loop, self.cells, self.owned, self.read = loop, cells, owned, read


OUTSIDE, OUTSIDE_CELLS = Token(None, owned=False), Token(None, True, owned=False)
Tokens = frozenset[Token]
_FOREIGN: Tokens = frozenset((OUTSIDE, OUTSIDE_CELLS))
_NONE: Tokens = frozenset()


_GETS = ("tg.list_get", "tg.list_pop", "tg.array_read")


def _nested(node: Node) -> bool:
    """Whether an op of lists takes or gives a list whose items are lists."""
    kinds = (v.type for v in (*node.inputs, *node.outputs))
    return any(isinstance(k, ListType) and isinstance(k.element, ListType) for k in kinds)


@dataclass
class Plan:
    """``writes``: updates that may write in place. ``copies``: states of loops whose initial value is copied first.

    ``looks``: reads that may look at the resource, because all uses come before the next write.
    """

    writes: set[Node] = field(default_factory=set)
    copies: set[tuple[Node, int]] = field(default_factory=set)
    looks: set[Node] = field(default_factory=set)


class _Frame:
    """One graph while it is analysed. ``last``: the last use of each token by a value that has been made so far."""

    def __init__(self, graph: Graph, outer: _Frame | None, at: int, loop: Any):
        self.outer, self.at, self.loop = outer, at, loop
        self.last: dict[Token, int] = {}
        self.uses: dict[Value, int] = {}
        for i, node in enumerate(graph.nodes):
            for value in node.inputs:
                self.uses[value] = i
        for value in graph.outputs:
            self.uses[value] = END

    def made(self, value: Value, tokens: Tokens, at: int) -> None:
        use = self.uses.get(value, at)
        for token in tokens:
            if use > self.last.get(token, -1):
                self.last[token] = use

    def needed_after(self, token: Token, at: int) -> bool:
        """Whether something after node ``at``, here or around, may need the memory."""
        if self.last.get(token, -1) > at:
            return True
        if self.outer is None:
            return False
        if self.loop is self:
            return token.loop is not self
        return self.outer.needed_after(token, self.at)


class Analysis:
    """The plan of a graph."""

    def __init__(self, graph: Graph):
        self.plan = Plan()
        self.tokens: dict[Value, Tokens] = dict.fromkeys(graph.inputs, _FOREIGN)
        self.dense: set[Value] = set()
        self.written: set[Token] = set()
        self._walk(graph, _Frame(graph, None, 0, graph))

    def of(self, x: Any) -> Tokens:
        return self.tokens.get(x, _NONE) if isinstance(x, Value) else _NONE

    def _walk(self, graph: Graph, frame: _Frame) -> None:
        for value in graph.inputs:
            frame.made(value, self.of(value), -1)
        has_reads = False
        for at, node in enumerate(graph.nodes):
            if node.op == "While":
                self._loop(node, at, frame)
            elif node.regions:
                self._branches(node, at, frame)
            else:
                self._op(node, at, frame)
            for value in node.outputs:
                frame.made(value, self.of(value), at)
            has_reads = has_reads or node.op == READ
        self._looks(graph, frame, has_reads)

    # ---- ops

    def _op(self, node: Node, at: int, frame: _Frame) -> None:
        row = lookup(node.op)
        self.plan.writes.discard(node)
        shared: Tokens = _NONE
        if row.aliases:
            shared = shared.union(*(self.of(v) for v in node.inputs))
        if row.effects.io and row.aliases:
            for token in shared:
                token.owned = False
        if is_update(node) and self._may_write(node, at, frame):
            self.plan.writes.add(node)
            self.written |= self._own(node.args[0])
            nested = _nested(node)
            rest = (t for v in node.inputs for t in self.of(v) if nested or not t.cells)
            cells = isinstance(node.outputs[0].type, ListType)
            self.tokens[node.outputs[0]] = self.of(node.args[0]) | frozenset(rest if cells else ())
            self.dense.add(node.outputs[0])
            return
        spread = is_torch_op(node) and row.aliases
        solid = all(v in self.dense for v in node.inputs if holds_tensors(v.type))
        for value in node.outputs:
            if not holds_tensors(value.type):
                continue
            self.tokens[value] = self._result(node, value, shared, frame)
            if not row.aliases or (spread and solid and node.op not in _OVERLAPPING):
                self.dense.add(value)

    def _result(self, node: Node, value: Value, shared: Tokens, frame: _Frame) -> Tokens:
        if isinstance(value.type, ListType) and node.op.startswith(("tg.list_", "tg.array_")):
            if _nested(node):  # a list in a list is itself there, not its items
                is_item = node.op in _GETS and value is node.outputs[-1]
                return shared | {OUTSIDE_CELLS if is_item else Token(frame.loop, cells=True)}
            items = frozenset(t for t in shared if not t.cells)
            return items | {Token(frame.loop, cells=True)}
        if lookup(node.op).aliases:
            tensor = isinstance(value.type, TensorType)
            return frozenset(t for t in shared if not (tensor and t.cells)) or _FOREIGN
        return frozenset((Token(frame.loop, read=node if node.op == READ else None),))

    def _own(self, base: Any) -> Tokens:
        """The tokens of the memory that an update of ``base`` writes."""
        cells = isinstance(base.type, ListType)
        return frozenset(t for t in self.of(base) if t.cells == cells)

    def _may_write(self, node: Node, at: int, frame: _Frame) -> bool:
        base = node.args[0]
        if not isinstance(base, Value):
            return False
        own = self._own(base)
        if isinstance(base.type, TensorType) and base not in self.dense:
            return False
        if isinstance(base.type, ListType) and frame.outer is None:
            return False  # outside of loops a list is copied a few times at most
        others = [v for v in node.inputs if v is not base]
        if len(others) + 1 != len(node.inputs) or any(self.of(v) & own for v in others):
            return False
        return bool(own) and not any(self._taken(t, at, frame) for t in own)

    def _taken(self, token: Token, at: int, frame: _Frame) -> bool:
        return not token.owned or frame.needed_after(token, at)

    # ---- regions that run once

    def _branches(self, node: Node, at: int, frame: _Frame) -> None:
        args = node.args[lead(node) :]
        outs: list[Tokens] = [_NONE] * len(node.outputs)
        dense = [True] * len(node.outputs)
        protected = _FOREIGN if node.op == "Try" else _NONE
        for region in node.regions.values():
            for value, arg in zip(region.inputs, args):
                self.tokens[value] = self.of(arg) | protected
                if arg in self.dense:
                    self.dense.add(value)
                else:
                    self.dense.discard(value)
            self._walk(region, _Frame(region, frame, at, frame.loop))
            for i, value in enumerate(region.outputs):
                outs[i] |= self.of(value)
                dense[i] = dense[i] and value in self.dense
        for value, tokens, solid in zip(node.outputs, outs, dense):
            if holds_tensors(value.type):
                self.tokens[value] = tokens or _FOREIGN
                if solid:
                    self.dense.add(value)

    # ---- loops

    def _loop(self, node: Node, at: int, frame: _Frame) -> None:
        count = node.kwargs["carried"]
        cond, body = node.regions["cond"], node.regions["body"]
        self._enter(cond, node, [None] * count)
        inner = _Frame(cond, frame, at, None)
        inner.loop = inner
        self._walk(cond, inner)
        owned = [isinstance(v.type, (TensorType, ListType)) for v in node.outputs]
        for attempt in range(ROUNDS):
            if attempt == ROUNDS - 1:
                owned = [False] * count
            inner = _Frame(body, frame, at, None)
            inner.loop = inner
            states = [
                Token(inner, isinstance(v.type, ListType)) if o else None
                for o, v in zip(owned, node.outputs)
            ]
            self._enter(body, node, states)
            self._walk(body, inner)
            kept = self._kept(body, states, inner)
            if kept == owned:
                break
            owned = kept
        self._leave(node, states, at, frame)

    def _enter(self, region: Graph, node: Node, states: list[Token | None]) -> None:
        count = len(states)
        for i, (value, arg) in enumerate(zip(region.inputs, node.args)):
            self.dense.discard(value)
            if i >= count:
                self.tokens[value] = self.of(arg)
                if arg in self.dense:
                    self.dense.add(value)
            elif states[i] is None:
                self.tokens[value] = _FOREIGN if holds_tensors(value.type) else _NONE
            else:
                rest = {OUTSIDE} if isinstance(value.type, ListType) else set()
                self.tokens[value] = frozenset({states[i], *rest})
                self.dense.add(value)

    def _kept(self, body: Graph, states: list[Token | None], frame: _Frame) -> list[bool]:
        """Which states have nothing but their own token, or memory of this iteration that no other state shares."""
        seen: dict[Token, int] = {}
        for value in body.outputs[: len(states)]:
            for token in self.of(value):
                seen[token] = seen.get(token, 0) + 1
        kept = []
        for value, state in zip(body.outputs, states):
            if state is None:
                kept.append(False)
                continue
            mine = [t for t in self.of(value) if t.cells == state.cells]
            fine = all(
                t.owned and seen[t] == 1 and (t is state or (t.loop is frame and t not in states))
                for t in mine
            )
            solid = state.cells or value in self.dense
            kept.append(
                bool(mine)
                and fine
                and solid
                and state.owned
                and seen.get(state, 0) <= (state in mine)
            )
        return kept

    def _leave(self, node: Node, states: list[Token | None], at: int, frame: _Frame) -> None:
        given = Counter(t for a in node.args for t in self.of(a))
        for i, (value, state) in enumerate(zip(node.outputs, states)):
            self.plan.copies.discard((node, i))
            if not holds_tensors(value.type):
                continue
            if state is None:
                self.tokens[value] = _FOREIGN.union(given)
                continue
            begins = node.args[i]
            made = {Token(frame.loop, state.cells)} | ({OUTSIDE} if state.cells else set())
            if state in self.written and not self._may_begin(begins, state, at, frame, given):
                self.plan.copies.add((node, i))
            else:
                made |= self.of(begins)
                if state in self.written:
                    self.written |= self._own(begins)
            self.tokens[value] = frozenset(made)
            if begins in self.dense or (node, i) in self.plan.copies:
                self.dense.add(value)

    def _may_begin(
        self, begins: Any, state: Token, at: int, frame: _Frame, given: Counter[Token]
    ) -> bool:
        """Whether a loop may write into the initial value of a state."""
        if not isinstance(begins, Value) or (not state.cells and begins not in self.dense):
            return False
        own = self._own(begins)
        return bool(own) and not any(given[t] > 1 or self._taken(t, at, frame) for t in own)

    # ---- reads

    def _looks(self, graph: Graph, frame: _Frame, has_reads: bool) -> None:
        """Find the reads whose uses all come before the next write, and whose memory nothing takes over."""
        if not has_reads:
            return
        behind: dict[Value, int] = {}
        anywhere = END
        for at in range(len(graph.nodes) - 1, -1, -1):
            node = graph.nodes[at]
            if node.op == READ:
                self.plan.looks.discard(node)
                limit = min(behind.get(node.args[0], END), anywhere)
                tokens = self.of(node.outputs[0])
                if all(frame.last[t] < limit and t.owned and t not in self.written for t in tokens):
                    self.plan.looks.add(node)
                continue
            effects = node_effects(node)
            ins = node.inputs
            behind.update((ins[i], at) for i in effects.writes)
            if writes_anything(effects):
                anywhere = at
