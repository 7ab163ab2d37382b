"""A graph put into the graph that is being recorded: how a loaded function is called by another function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...errors import StagingError
from .. import structure
from ..blocked import block
from ..concrete import ConcreteFunction
from ..funcgraph import FuncGraph, _versions, current_graph, user_location
from ..ir import Graph, Node, Value, graph_effects, map_values
from ..journal import Location
from ..symbolic import as_symbolic


def stage(concrete: ConcreteFunction, tensors: list[Any], places: Sequence[Location]) -> Any:
    """The symbolic result of a call while tracing; effects on arguments go to ``places``."""
    graph = current_graph()
    given = [*tensors, *concrete.captured_inputs]
    effects = graph_effects(concrete.graph)
    by_reference = {*effects.reads, *effects.writes}
    env = {
        v: _reference(x, graph) if i in by_reference else structure.value_of(x, graph)
        for i, (v, x) in enumerate(zip(concrete.graph.inputs, given))
    }
    made = _copy_nodes(concrete.graph.nodes, env)
    graph.graph.nodes += made
    for i in effects.writes:
        _forget(as_symbolic(given[i]).storage_, graph)
    differentiable = [x for x in given if x.requires_grad]
    values = iter(env[v] for v in concrete.graph.outputs)

    def symbolic(value: Value) -> Any:
        x = structure.symbolic(value, graph)
        where = user_location()
        return block(x, concrete.name, where, differentiable) if isinstance(x, torch.Tensor) else x

    result = structure.unflatten(concrete._result, values, symbolic)
    for (_, spec), place in zip(concrete._effects, places):
        place.set(structure.unflatten(spec, values, symbolic))
    return result


def _reference(x: torch.Tensor, graph: FuncGraph) -> Value:
    """The input through which a graph writes a tensor."""
    made = as_symbolic(x)
    storage = made.storage_
    if made.chain or (storage.external is None and storage.argument is None):
        raise StagingError(
            "a loaded function that writes into its argument cannot be given a view, or a tensor made in the function around it; "
            "pass a whole argument, variable or parameter",
            user_location(),
        )
    return graph.reference(storage)


def _forget(storage: Any, graph: FuncGraph) -> None:
    """A storage was written: it has to be read again."""
    graph.root.assigned.add(id(storage))
    at: FuncGraph | None = graph
    while at is not None:
        at.known.pop(storage, None)
        at = at.outer
    storage.version = next(_versions)


def _copy_nodes(nodes: Sequence[Node], env: dict[Value, Any]) -> list[Node]:
    """Copies of nodes whose arguments are taken from ``env``, which gets their outputs; control edges are computed anew."""
    made = []
    for node in nodes:
        args, kwargs = map_values(env.__getitem__, (node.args, node.kwargs))
        regions = {n: _copy_graph(g) for n, g in node.regions.items()}
        types = [v.type for v in node.outputs]
        new = Node(
            node.op, args, kwargs, types, regions=regions, location=node.location, grad=node.grad
        )
        env.update(zip(node.outputs, new.outputs))
        made.append(new)
    return made


def _copy_graph(graph: Graph) -> Graph:
    made = Graph(graph.name)
    made.inputs = [Value(v.type) for v in graph.inputs]
    made.input_names = list(graph.input_names)
    env: dict[Value, Any] = dict(zip(graph.inputs, made.inputs))
    made.nodes = _copy_nodes(graph.nodes, env)
    made.outputs = [env[v] for v in graph.outputs]
    return made
