"""State that an iteration computes anew of other state before it differentiates one by the other.

``while loss > tol: g = grad(loss, w, create_graph=True); w = w - g; loss = f(w)``: the gradient is one of a value of the iteration before. Inside of the body ``loss``
and ``w`` are two placeholders; what leads from one to the other is a **slice** of the body (``passes.slices``), which each iteration runs at
its start, on the state that it begins with. So the derivative is one of what the iteration itself has computed, of any order. Where a branch or loop of the body gives both, the
slice stands in its regions (``passes.relations``), or these leave both as they were.

What a slice uses besides is state of its own, in ``cells``. Before the loop the code must have computed the value in the same way; where it has not, the
first iteration may be apart.
"""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import GradientError, Location
from ..gradients.outer_gradients import Anew
from ..graph.ir import Graph, Value
from ..graph.ordering import graph_effects
from ..graph.rewrite import copied
from ..graph.types import ScalarType, TensorType
from ..passes.relations import Base, Carrying, Computed, Relation, Scope, Unlike, computed, relation
from ..passes.slices import Slice, between, matching, with_contents
from ..symbols.funcgraph import FuncGraph, Storage, current_graph
from ..symbols.journal import Location as Place
from ..symbols.symbolic import SymTensor, argument, value_of
from ..values import flattening, locations
from .joining import as_value
from .loop_contents import Name, tensors_of


@dataclass
class _Part:
    """How a value follows from the tensors ``cut``: ``inputs`` are names of these, objects of the graph around, and cells."""

    graph: Graph
    cut: list[Name]
    inputs: list[Any]

    @property
    def cells(self) -> list[Place]:
        return [cell for _, cell in self.held]

    @property
    def held(self) -> list[tuple[Value, Place]]:
        return [(v, x) for v, x in zip(self.graph.inputs, self.inputs) if isinstance(x, Place)]

    @property
    def given(self) -> list[tuple[Value, _Given]]:
        return [(v, x) for v, x in zip(self.graph.inputs, self.inputs) if isinstance(x, _Given)]

    def matched(
        self, place: Computed, given: dict[Value, Value], around: Scope
    ) -> dict[Value, Value] | None:
        """What stands for the values of the part where a graph has computed the same; what it uses besides does not follow from what it is differentiated by."""
        here = {token: v for v, token in reversed(place.scope.given.items())}
        known = {
            v: here.get(_same_in_all(x)) or place.scope.lowered(x, around) for v, x in given.items()
        }
        cuts = dict(zip(self.cut, place.cuts))
        known |= {
            v: cuts[x] for v, x in zip(self.graph.inputs, self.inputs) if isinstance(x, tuple)
        }
        found = matching(self.graph, place.end, known)
        if found is None:
            return None
        led = place.scope.led(place.cuts)
        return None if any(found.get(v) is None or found[v] in led for v, _ in self.held) else found


@dataclass
class _Given:
    """Something from outside of the loop; of a tensor that regions read as a resource its ``storage``."""

    x: Any
    storage: Storage | None = None

    def value(self, graph: FuncGraph) -> Value:
        return argument(graph, self.x) if self.storage is None else graph.reference(self.storage)


class Recomputed:
    """``wanted``: by the tensor that is to be computed anew those which it is differentiated by; for those ``needed`` there is no other way. ``hopeless``: those that have no slice."""

    def __init__(self, body: Callable[[], Any], location: Location | None):
        self.body, self.location = body, location
        self.places: dict[Any, Place] = {}
        self.wanted: dict[Name, set[Name]] = {}
        self.needed: set[Name] = set()
        self.hopeless: set[Name] = set()
        self.parts: dict[Name, _Part] = {}
        self.left: dict[Name, _Part | None] = {}
        self.began: dict[Name, Base] = {}  # what an iteration begins with

    def __call__(self) -> Any:
        for name, part in self.parts.items():
            self._begin(name, part)
        self.began = {
            name: found
            for name, cut in self.wanted.items()
            if (found := self._now(name, _ordered(cut)))
        }
        result = self.body()
        self.left = {name: self._end(name, cut) for name, cut in self.wanted.items()}
        return result

    def ask(self, asked: Sequence[Anew], state: Sequence[Place]) -> bool:
        """Take over what a trace asked for; whether it is new. An error where the trace had it: the value comes another way, too."""
        found = {name: set(cut) for name, cut in self.wanted.items()}
        for name, by, needed in asked:
            found.setdefault(name, set()).add(by)
            self.needed |= {name} if needed else set()
        if found == self.wanted:
            if not self._new():
                raise self._refused()
            return False
        self.places = {p.key: p for p in state}
        try:
            first = list(graphlib.TopologicalSorter(found).static_order())
        except graphlib.CycleError:
            raise self._refused() from None
        self.wanted = {name: found[name] for name in first if name in found}
        return True

    def _new(self) -> dict[Name, _Part | None]:
        """What the trace left that was not known, or is no slice."""
        left = self.left.items()
        return {n: part for n, part in left if part is None or part is not self.parts.get(n)}

    def grown(self) -> list[Place] | None:
        """After a trace: the cells of slices that are not known yet; None where nothing has changed. An error where there is no slice."""
        new = self._new()
        if not new:
            return None
        graph = current_graph()
        for name, part in new.items():
            if part is not None and self._follows(name, part, graph):
                self.parts[name] = part
            elif name in self.needed:
                raise self._refused()
            else:
                self.hopeless.add(name)
                self.wanted.pop(name)
        self.parts = {name: self.parts[name] for name in self.wanted if name in self.parts}
        return [cell for part in self.parts.values() for cell in part.cells]

    def _refused(self) -> GradientError:
        """An error which there may not be where the first iteration is apart: those behind it make their own state."""
        error = GradientError(_REFUSED, self.location)
        error.apart = True
        return error

    def _tensor(self, name: Name) -> torch.Tensor | None:
        place, number = self.places[name[0]], name[1]
        found = tensors_of(as_value(place.get()))
        return found[number] if number < len(found) else None

    def _begin(self, name: Name, part: _Part) -> None:
        objects = [
            self._tensor(x) if isinstance(x, tuple) else x.get() if isinstance(x, Place) else x.x
            for x in part.inputs
        ]
        again = copied(part.graph, ordered=True)
        read = [v for v, x in zip(again.inputs, part.inputs) if isinstance(x, _Given) and x.storage]
        with_contents(again, read)
        with torch.enable_grad():
            (made,) = REPLAY(again, objects)
        self.places[name[0]].set(made)

    def _now(self, name: Name, order: Sequence[Name]) -> Base | None:
        """The values that a tensor, and those which it is differentiated by, have at this point."""
        tensors = [self._tensor(n) for n in order]
        x, graph = self.places[name[0]].get(), current_graph()
        if not isinstance(x, torch.Tensor) or any(t is None for t in tensors):
            return None
        return value_of(x, graph), [value_of(t, graph) for t in tensors if t is not None]

    def _end(self, name: Name, cut: set[Name]) -> _Part | None:
        """How the iteration has computed a value: the known part where that is so."""
        graph, part, order = current_graph(), self.parts.get(name), _ordered(cut)
        if part is not None and part.cut == order and self._follows(name, part, graph, self.began.get(name)):  # fmt: skip
            return part
        now = self._now(name, order)
        if now is None:
            return None
        given = _given(graph)
        scope = Scope(graph.graph, {v: _same_in_all(v) for v in given}, self.began.get(name))
        found = relation(scope, *now)
        place = next(computed(found), None) if found is not None else None
        made = None if place is None else between(place.scope.graph, place.end, place.cuts, place.scope.given)  # fmt: skip
        if place is None or made is None or not all(map(_held, made.graph.inputs)):
            return None
        part = self._part(made, dict(zip(place.cuts, order)), order, _by_scope(place.scope, given))
        known = {v: x.value(graph) for v, x in part.given}
        same = all(part.matched(other, known, scope) for other in computed(found))
        return part if same else None

    def _part(self, made: Slice, cut: dict[Value, Name], order: list[Name], given: dict[Value, _Given]) -> _Part:  # fmt: skip
        inputs: list[Any] = []
        for v in made.sources:
            if v in cut:
                inputs.append(cut[v])
            elif v in given:
                inputs.append(given[v])
            else:
                inputs.append(locations.item([None], "flag", "what a loop differentiates"))
        return _Part(made.graph, order, inputs)

    def _follows(self, name: Name, part: _Part, graph: FuncGraph, began: Base | None = None) -> bool:  # fmt: skip
        """Whether the graph has computed a value as the part does, wherever it has, or left it as it ``began``; then the cells get what was used besides."""
        now = self._now(name, part.cut)
        if now is None:
            return False
        known = {v: x.value(graph) for v, x in part.given}
        scope = Scope(graph.graph, {x: _same_in_all(x) for v in known.values() for x in _contents(v)}, began)  # fmt: skip
        found = relation(scope, *now)
        if found is None or (began is None and not isinstance(found, Computed)):
            return False
        used: dict[Computed, dict[Value, Value]] = {}
        for place in computed(found):
            matched = part.matched(place, known, scope)
            if matched is None:
                return False
            used[place] = matched
        return self._fill(part, found, used, scope, graph)

    def _fill(self, part: _Part, found: Relation, used: dict[Computed, dict[Value, Value]], scope: Scope, graph: FuncGraph) -> bool:  # fmt: skip
        values: list[Value] = []
        try:
            for v, cell in part.held:
                before = {} if isinstance(found, Computed) else {scope: argument(graph, cell.get())}
                carrying = Carrying(lambda place, v=v: used[place][v], before)
                values.append(carrying.value(found, scope))
        except Unlike:
            return False
        for (_, cell), value in zip(part.held, values):
            new = not isinstance(found, Computed) and value not in graph.sources
            cell.set(CONNECTED(value, graph) if new else flattening.symbolic(value, graph))
        return True


def _ordered(cut: Iterable[Name]) -> list[Name]:
    return sorted(cut, key=str)


def _contents(v: Value) -> list[Value]:
    """A value, and the resource that it was read from: regions read that."""
    read = v.node is not None and v.node.op == "tg.read"
    return [v, v.node.args[0]] if v.node is not None and read else [v]


def _same_in_all(v: Value) -> Any:
    """What tells that values of several scopes are the same: a read of a resource is one wherever it stands."""
    return ("read", v.node.args[0]) if v.node is not None and v.node.op == "tg.read" else v


def _by_scope(scope: Scope, given: dict[Value, _Given]) -> dict[Value, _Given]:
    """What is given, by the values of a scope."""
    by_token: dict[Any, _Given] = {}
    for v, x in given.items():
        by_token[_same_in_all(v)] = x
        if x.storage is not None:
            by_token.setdefault(("read", v), _Given(x.x))
    return {v: by_token[token] for v, token in scope.given.items() if token in by_token}


def _given(graph: FuncGraph) -> dict[Value, _Given]:
    """The values of a body that are what they are in every iteration, each with the object that it is outside."""
    found: dict[Value, _Given] = {}
    written = {graph.graph.inputs[i] for i in graph_effects(graph.graph).writes}
    for key, value in graph.captures.items():
        if not isinstance(key, Storage):
            found[value] = _Given(flattening.symbolic(key, _home(key, graph)))
        elif value not in written:
            read = graph.known.get(key)
            x = graph.sources.get(value if read is None else read) if key.external is None else key.external  # fmt: skip
            x = SymTensor(key.meta, key) if x is None else x
            found[value] = _Given(x, key)
            if read is not None:
                found[read] = _Given(x)
    return found


def _home(value: Value, graph: FuncGraph) -> FuncGraph:
    """The graph that a captured value belongs to."""
    at = graph
    while value in at.captures and at.outer is not None:
        at = at.outer
    return at


def _held(v: Value) -> bool:
    """Whether a value may be state of a loop."""
    return isinstance(v.type, (TensorType, ScalarType))


_REFUSED = (
    "a gradient that is taken inside of a staged loop is one of a value that an earlier iteration computed, with respect to a tensor that an earlier "
    "iteration made, and how the value follows from the tensor is not the same in every iteration, or does more than compute. Compute the value in the iteration that takes the gradient, "
    "at the start of the body."
)


def CONNECTED(value: Value, graph: FuncGraph) -> Any:
    """A further output of a construct that was recorded before, connected in autograd. Set by ``autodiff``."""
    raise NotImplementedError


def REPLAY(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a graph for objects. Set by ``autodiff``."""
    raise NotImplementedError
