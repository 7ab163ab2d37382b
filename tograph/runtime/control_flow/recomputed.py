"""State that an iteration computes anew of other state before it differentiates one by the other.

``while loss > tol: g = grad(loss, w, create_graph=True); w = w - g; loss = f(w)``: the gradient is one of a value of the iteration before. Inside of the body ``loss``
and ``w`` are two placeholders; what leads from one to the other is a **slice** of the body (``passes.slices``), which each iteration runs at
its start, on the state that it begins with. So the derivative is one of what the iteration itself has computed, of any order.

What a slice uses besides is state of its own, in ``cells``. Before the loop the code must have computed the value in the same way; where it has not, the
first iteration may be apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import GradientError, Location
from ..gradients.outer_gradients import Anew
from ..graph.ir import Graph, Value
from ..graph.ordering import graph_effects
from ..graph.rewrite import copied
from ..graph.types import ScalarType, TensorType
from ..passes.slices import Slice, between, led_to, matching, with_contents
from ..symbols.funcgraph import FuncGraph, Storage, current_graph
from ..symbols.journal import Location as Place
from ..symbols.symbolic import SymTensor, argument, value_of
from ..values import flattening, locations
from .joining import as_value
from .loop_histories import Name, tensors_of


@dataclass
class _Part:
    """How a value follows from the tensors ``cut``: ``inputs`` are names of these, objects of the graph around, and cells."""

    graph: Graph
    cut: list[Name]
    inputs: list[Any]

    @property
    def cells(self) -> list[Place]:
        return [x for x in self.inputs if isinstance(x, Place)]


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

    def __call__(self) -> Any:
        for name, part in self.parts.items():
            self._begin(name, part)
        result = self.body()
        self.left = {name: self._end(name, cut) for name, cut in self.wanted.items()}
        return result

    def ask(self, asked: Sequence[Anew], state: Sequence[Place], depends: Any) -> bool:
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
        first = sorted(found, key=lambda name: sum((name, other) in depends for other in found))
        self.wanted = {name: found[name] for name in first}
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
            found = None if part is None else self._matched(name, part, graph)
            if part is not None and found is not None:
                self._fill(part, found, graph)
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

    def _end(self, name: Name, cut: set[Name]) -> _Part | None:
        """How the iteration has computed a value: the known part where that is so."""
        graph, part = current_graph(), self.parts.get(name)
        if part is not None and set(part.cut) == cut:
            found = self._matched(name, part, graph)
            if found is not None:
                self._fill(part, found, graph)
                return part
        order = sorted(cut, key=str)
        tensors = [self._tensor(n) for n in order]
        x = self.places[name[0]].get()
        if not isinstance(x, torch.Tensor) or any(t is None for t in tensors):
            return None
        end, values = value_of(x, graph), [value_of(t, graph) for t in tensors if t is not None]
        given = _given(graph)
        made = between(graph.graph, end, values, given)
        if made is None or not all(map(_held, made.graph.inputs)):
            return None
        return self._part(made, dict(zip(values, order)), order, given)

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

    def _matched(self, name: Name, part: _Part, graph: FuncGraph) -> dict[Value, Value] | None:
        """What stands for the values of a part in a graph that has computed the same; what it uses besides does not follow from what it is differentiated by."""
        known: dict[Value, Value] = {}
        x = self.places[name[0]].get()
        if not isinstance(x, torch.Tensor):
            return None
        end = value_of(x, graph)
        for v, given in zip(part.graph.inputs, part.inputs):
            if isinstance(given, tuple):
                t = self._tensor(given)
                if t is None:
                    return None
                known[v] = value_of(t, graph)
            elif isinstance(given, _Given):
                known[v] = given.value(graph)
        found = matching(part.graph, end, known)
        if found is None:
            return None
        led = led_to(graph.graph, [known[v] for v, n in zip(part.graph.inputs, part.inputs) if isinstance(n, tuple)])  # fmt: skip
        held = [found.get(v) for v, c in zip(part.graph.inputs, part.inputs) if isinstance(c, Place)]  # fmt: skip
        return None if any(v is None or v in led for v in held) else found

    def _fill(self, part: _Part, found: dict[Value, Value], graph: FuncGraph) -> None:
        for v, cell in zip(part.graph.inputs, part.inputs):
            if isinstance(cell, Place):
                cell.set(flattening.symbolic(found[v], graph))


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


def REPLAY(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a graph for objects. Set by ``autodiff``."""
    raise NotImplementedError
