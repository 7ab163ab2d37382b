"""A graph put into the graph that is being recorded: how a loaded function is called by another function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from ...errors import SharedMemoryError, StagingError
from ..autodiff.replay import replay
from ..graph.ordering import graph_effects
from ..symbols.funcgraph import FuncGraph, Ref, current_graph, user_location, write_moment
from ..symbols.journal import Location
from ..symbols.symbolic import as_symbolic
from ..traces.concrete import ConcreteFunction
from ..values import flattening
from ..values.structure import Handle


def stage(concrete: ConcreteFunction, tensors: list[Any], places: Sequence[Location]) -> Any:
    """The symbolic result of a call while tracing; effects on arguments go to ``places``.

    The graph is recorded again, so gradients pass through it. Tensors that it writes are passed by reference: what is
    read of these has no gradient.
    """
    graph = current_graph()
    given = [*tensors, *concrete.captured_inputs]
    effects = graph_effects(concrete.graph)
    _check_apart(given, effects.writes)
    by_reference = {*effects.reads, *effects.writes}
    inputs = [_reference(x, graph) if i in by_reference else as_symbolic(x) for i, x in enumerate(given)]  # fmt: skip
    with _mode(concrete):
        outputs = iter(replay(concrete.graph, inputs))
    for i in effects.writes:
        _forget(as_symbolic(given[i]).storage_, graph)
    known: dict[Any, Any] = {}
    result = flattening.unflatten(concrete._result, outputs, _same, known)
    for (_, spec), place in zip(concrete._effects, places):
        place.set(flattening.unflatten(spec, outputs, _same, known))
    return result


def _check_apart(given: Sequence[Any], written: Iterable[int]) -> None:
    """SharedMemoryError where a tensor that the graph writes is another input too, by its memory."""
    storages = [as_symbolic(x).storage_ for x in given]
    if any(storages[i] is s for i in written for j, s in enumerate(storages) if i != j):
        raise SharedMemoryError(
            "a loaded function writes an argument that shares memory with another tensor which it takes: pass a clone of one of both",
            user_location(),
        )


def _mode(concrete: ConcreteFunction) -> Any:
    """Gradients on where the function turns them on itself: those of its ops that have none know for themselves."""
    if concrete.mode is not False:
        return nullcontext()
    current_graph().root.enabled = True
    return torch.enable_grad()


def _same(x: Any) -> Any:
    return x


def _reference(x: torch.Tensor, graph: FuncGraph) -> Handle:
    """The input through which a graph writes a tensor."""
    made = as_symbolic(x)
    storage = made.storage_
    if made.chain or (storage.external is None and storage.argument is None):
        raise StagingError(
            "a loaded function that writes into its argument cannot be given a view, or a tensor made in the function around it; "
            "pass a whole argument, variable or parameter",
            user_location(),
        )
    return Handle(Ref(graph.reference(storage), graph))


def _forget(storage: Any, graph: FuncGraph) -> None:
    """A storage was written: it has to be read again."""
    graph.root.assigned.setdefault(id(storage), False)
    at: FuncGraph | None = graph
    while at is not None:
        at.known.pop(storage, None)
        at = at.outer
    storage.version = write_moment()
