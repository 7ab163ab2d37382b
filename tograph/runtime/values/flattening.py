"""Python values into the graph values of a spec and back.

``flatten`` gives the values for each staged leaf of a spec, in order; a ``Choice`` has its tag first, then the leaves of
all options, those that do not count as zeros. ``unflatten`` makes the Python value again, of symbols or of what a run gave.

Invariant: ``flatten`` gives values of the types ``leaf_types(spec)``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ...errors import StructureError
from ..graph.ir import Value
from ..graph.types import INT, ListType, OptionalType, ScalarType, TensorType, Type
from ..inference.shapes import SYMBOLS, contiguous
from ..symbols.funcgraph import FuncGraph, Ref, current_graph, is_tracing
from ..symbols.journal import MISSING
from ..symbols.scalar_nodes import ScalarNode
from ..symbols.scalars import size_of, staged
from ..symbols.symbolic import value_of, wrap
from . import either
from .joins import join, option_for
from .pytrees import blank, fill, is_value_class, parts_of, rebuild
from .structure import (
    STAGED,
    UNSET,
    Again,
    Choice,
    Const,
    Handle,
    Leaf,
    Spec,
    TaggedUnion,
    Tree,
    is_marked,
    is_staged_list,
    is_union,
    leaf_types,
    spec_of,
)


def flatten(x: Any, spec: Spec, graph: FuncGraph) -> list[Value]:
    """The graph values that ``x`` gives for ``spec``, which covers it.

    A content that never counts, because nothing reads it there, is zeros.
    """
    if (x is MISSING or x is UNSET) and not _takes(spec, x):
        return [zero_value(t, graph) for t in leaf_types(spec)]
    if isinstance(spec, Leaf):
        if is_union(x) and not spec.fixed:
            return [_either(x, spec, x.tag_.node.value(graph), graph)]
        return [] if spec.fixed else [leaf_value(x, spec.type, graph)]
    if isinstance(spec, (Const, Again)):
        return []
    if isinstance(spec, Tree):
        return _flatten_tree(x, spec, graph)
    if is_union(x):
        return _flatten_union(x, spec, graph)
    chosen, number = option_for(x, spec), either.slot(spec)
    out = [graph.emit("py.constant", chosen, type=INT)]
    for i, option in enumerate(spec.options):
        if i == chosen:
            out += flatten(x, option, graph)
        elif i == number:
            out.append(either.as_tensor(x, leaf_types(option)[0], graph))
        else:
            out += [zero_value(t, graph) for t in leaf_types(option)]
    return out


def _flatten_tree(x: Any, spec: Tree, graph: FuncGraph) -> list[Value]:
    if type(x) is tuple and is_staged_list(spec):
        x = STAGED.tuples(x)
    if isinstance(x, STAGED.lists) and is_staged_list(spec):
        return STAGED.flatten_list(x, spec, graph)
    if spec.cls is STAGED.texts and not isinstance(x, STAGED.texts):
        return [STAGED.text_value(x, graph)]
    if is_union(x) and is_staged_list(spec) and all(isinstance(o, STAGED.lists) or type(o) in (spec.cls, tuple) for o in x.options_):  # fmt: skip
        columns = zip(*(flatten(o, spec, graph) for o in x.options_))
        tag = x.tag_.node.value(graph)
        return [graph.emit("tg.choose", tag, list(c), type=t) for c, t in zip(columns, leaf_types(spec))]  # fmt: skip
    found = parts_of(x)
    if found is None or len(found[1]) != len(spec.parts):
        raise StructureError(
            f"expected {spec.cls.__name__} of {len(spec.parts)} parts, found {x!r}"
        )
    return [v for p, s in zip(found[1], spec.parts) for v in flatten(p, s, graph)]


def _takes(spec: Spec, x: Any) -> bool:
    options = spec.options if isinstance(spec, Choice) else (spec,)
    return any(isinstance(o, Const) and o.value is x for o in options)


def _flatten_union(x: TaggedUnion, spec: Choice, graph: FuncGraph) -> list[Value]:
    places = _places(x, spec)
    tag = x.tag_.node.value(graph)
    out: list[Value] = []
    if places == list(range(len(places))):
        out.append(graph.emit("py.constant", tag, type=INT) if not isinstance(tag, Value) else tag)
    else:
        out.append(graph.emit("tg.choose", tag, places, type=INT))
    number = either.slot(spec)
    for i, option in enumerate(spec.options):
        if i == number:
            out.append(_either(x, option, tag, graph))
            continue
        sources = [k for k, place in enumerate(places) if place == i]
        rows = [flatten(x.options_[k], option, graph) for k in sources]
        if not rows:
            out += [zero_value(t, graph) for t in leaf_types(option)]
        elif len(rows) == 1:
            out += rows[0]
        else:
            out += _choose(rows, sources, len(places), tag, option, graph)
    return out


def _places(x: TaggedUnion, spec: Choice) -> list[int]:
    """Which option of the spec each option is: its own where these are objects that other places hold, which their forms do not tell apart."""
    if any(map(is_marked, spec.options)):
        return list(range(len(x.options_)))
    return [option_for(o, spec) for o in x.options_]


def _either(x: TaggedUnion, option: Leaf, tag: Any, graph: FuncGraph) -> Value:
    """The tensor that a union of numbers and tensors is, whatever it is."""
    if x.either_ is not None:
        return leaf_value(x.options_[x.either_], option.type, graph)
    row = [leaf_value(o, option.type, graph) for o in x.options_]
    return graph.emit("tg.choose", tag, row, type=option.type)


def _choose(rows, sources, count, tag, option, graph) -> list[Value]:
    columns = []
    for values, kind in zip(zip(*rows), leaf_types(option)):
        table = [values[sources.index(k)] if k in sources else values[0] for k in range(count)]
        columns.append(graph.emit("tg.choose", tag, table, type=kind))
    return columns


def choose(
    tag: Any,
    options: Sequence[Any],
    graph: FuncGraph,
    make: Callable[[Value], Any] | None = None,
    spec: Spec | None = None,
) -> Any:
    """The option that the staged index ``tag`` picks: one value where the options join, else a union.

    ``spec``: what covers all options, if not their join.
    """
    if spec is None:
        spec = functools.reduce(join, map(spec_of, options))
    rows = [flatten(o, spec, graph) for o in options]
    index = tag.node.value(graph)
    columns = [
        graph.emit("tg.choose", index, list(c), type=t)
        for c, t in zip(zip(*rows), leaf_types(spec))
    ]
    return unflatten(spec, iter(columns), make or plain_maker(graph))


def leaf_value(x: Any, kind: Type, graph: FuncGraph) -> Value:
    """The graph value of a tensor, number or handle, made to be of type ``kind``."""
    if isinstance(x, Handle):
        return graph.resolve(x.ref)
    if isinstance(x, torch.Tensor):
        if isinstance(kind, ScalarType):
            raise StructureError(f"expected a Python {kind}, found a tensor")
        return value_of(x, graph)
    value = x.node.value(graph) if isinstance(x, SYMBOLS) else x
    if isinstance(kind, ScalarType):
        value = value.item() if isinstance(value, np.generic) else value
        return value if isinstance(value, Value) else graph.emit("py.constant", value, type=kind)
    if isinstance(kind, TensorType):
        return either.as_tensor(x, kind, graph)
    raise StructureError(f"expected {kind}, found {x!r}")


def zero_value(kind: Type, graph: FuncGraph) -> Value:
    """A value that stands where none is ever read."""
    if isinstance(kind, ScalarType):
        return graph.emit("py.constant", kind.kind(0), type=kind)
    if isinstance(kind, TensorType):
        size = [0 if n is None else n for n in kind.shape]
        made = TensorType(kind.dtype, tuple(size), kind.device)
        return graph.emit(
            "aten.zeros.default",
            size,
            type=made,
            dtype=kind.dtype,
            device=torch.device(kind.device),
        )
    if isinstance(kind, ListType):
        return graph.emit("tg.list_new", type=kind)
    if isinstance(kind, OptionalType):
        return graph.emit("tg.optional_none", type=kind)
    return graph.emit("py.constant", None, type=kind)


def symbolic(value: Value, graph: FuncGraph, connected: bool = True) -> Any:
    """The Python object that stands for a graph value while tracing; ``connected``: in autograd, where it can be."""
    kind = value.type
    if connected and isinstance(kind, TensorType) and value in graph.sources:
        return graph.sources[value]
    if isinstance(kind, ScalarType):
        return staged(ScalarNode(kind.kind, Ref(value, graph)))
    if isinstance(kind, TensorType):
        size = [size_of(value, i, graph) if n is None else n for i, n in enumerate(kind.shape)]
        return wrap(value, contiguous(kind.dtype, size, torch.device(kind.device)), graph)
    return Handle(Ref(value, graph))


def plain_maker(graph: FuncGraph) -> Callable[[Value], Any]:
    """What makes the Python object of a graph value."""
    return lambda value: symbolic(value, graph)


def unflatten(
    spec: Spec,
    values: Iterator[Any],
    make: Callable[[Any], Any],
    known: dict[Any, Any] | None = None,
) -> Any:
    """The Python value of ``spec`` from its graph values; ``make`` turns one of these into an object.

    ``known``: the objects so far that further places show, by their numbers, and those from before the call, by ``("outer", number)``.
    """
    if isinstance(spec, Leaf):
        return spec.const if spec.fixed else make(next(values))
    if isinstance(spec, Const):
        return spec.value
    known = {} if known is None else known
    if isinstance(spec, Tree):
        return _unflatten_tree(spec, values, make, known)
    if isinstance(spec, Again):
        return known[spec.number]
    tag = make(next(values))
    options = [unflatten(o, values, make, known) for o in spec.options]
    if len(options) == 1:
        return options[0]
    return options[tag] if type(tag) is int else TaggedUnion(tag, options, either.slot(spec))


def _unflatten_tree(
    spec: Tree, values: Iterator[Any], make: Callable[[Any], Any], known: dict[Any, Any]
) -> Any:
    if spec.outer is not None:
        found = known.get(("outer", spec.outer))
        if found is not None:
            for _ in leaf_types(spec):
                next(values)
            return found
    if spec.cyclic:
        made = known[spec.number] = blank(spec.cls)
        return fill(made, spec.aux, [unflatten(p, values, make, known) for p in spec.parts])
    made = rebuild(spec.cls, spec.aux, [unflatten(p, values, make, known) for p in spec.parts])
    if spec.number is not None:
        known[spec.number] = made
    if is_value_class(spec.cls) and spec.parts and is_tracing():
        current_graph().root.read_items[id(made)] = made
    return made
