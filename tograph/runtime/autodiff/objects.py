"""Graph values as the objects that torch's autograd works on, and back."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from ..graph.ir import Graph, Value, all_nodes
from ..graph.types import ListType, OptionalType, ScalarType, TensorType, Type
from ..symbols.carrier import carrier, differentiable
from ..symbols.funcgraph import FuncGraph, current_graph
from ..symbols.symbolic import argument
from ..values.flattening import symbolic
from ..values.structure import Handle


def object_of(value: Value, graph: FuncGraph) -> Any:
    """A value as an object: the tensor that carries it in autograd where there is one."""
    found = graph.sources.get(value)
    return plain_object(value, graph) if found is None else found


def plain_object(value: Value, graph: FuncGraph) -> Any:
    """A value as a new object that depends on nothing."""
    if isinstance(value.type, (ListType, OptionalType)) and differentiable(value.type):
        return carrier(value, graph)
    return symbolic(value, graph, connected=False)


def value_in(x: Any, graph: FuncGraph) -> Any:
    """What stands for an object in the arguments of a node of ``graph``."""
    if isinstance(x, Handle):
        return graph.resolve(x.ref)
    if type(x) in (list, tuple):
        return type(x)(value_in(a, graph) for a in x)
    return argument(graph, x)


def emit(op: str, *args: Any, type: Type) -> Any:
    """Record an op on objects; its output is an object, connected in autograd."""
    graph = current_graph()
    values = [value_in(a, graph) for a in args]
    return object_of(graph.emit(op, *values, type=type), graph)


def emit_many(
    op: str, args: tuple, kwargs: dict, types: list[Type], regions: Any = None, loose: Collection[int] = ()
) -> list[Any]:  # fmt: skip
    """``emit`` for an op with several outputs, or with regions. ``loose``: arguments that eager PyTorch has not saved (``unsaved``)."""
    graph = current_graph()
    values = tuple(value_in(a, graph) for a in args)
    if regions:
        if not torch.is_grad_enabled() and not graph.replaying:
            for region in regions.values():
                without_gradient(region)
        values = tuple(v if isinstance(v, Value) else _constant(v, graph) for v in values)
    options = {k: value_in(v, graph) for k, v in kwargs.items()}
    node = graph.add(op, values, options, types, regions=regions)
    if loose:
        graph.root.loose[node] = frozenset(loose)
    return [object_of(v, graph) for v in node.outputs]


def without_gradient(region: Graph) -> None:
    """What is computed in a region has no history: gradients are off, as they are for a gradient without ``create_graph``."""
    for node in all_nodes(region):
        node.grad = False


def _constant(x: Any, graph: FuncGraph) -> Value:
    return graph.emit("py.constant", x, type=ScalarType(type(x)))


def type_of(x: Any) -> Type:
    """The graph type of an object."""
    return value_in(x, current_graph()).type


def zeros_like(x: Any) -> Any:
    """Zeros of the type of an object: of a list or an optional, element by element."""
    if isinstance(x, torch.Tensor) and isinstance(type_of(x), TensorType):
        if all(type(n) is int for n in x.shape):
            return torch.zeros(x.shape, dtype=x.dtype, device=x.device)
        return torch.zeros_like(x)
    return emit("tg.handle_zeros", x, type=type_of(x))
