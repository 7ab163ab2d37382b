"""Functions that call themselves otherwise than at their end, until a staged condition holds: calls of a graph by itself.

``fib(n - 1) + fib(n - 2)`` has no form as a loop. The function is traced once, with parameters of the kinds that all its calls have, and a call of
itself in it is a node (``tg.recursion``). What such a call gives is not known at first: those paths count as if they did not return, so
that the others tell. Then it is traced anew with what these gave, until nothing changes.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch

from ..errors import RecursiveCallError, StructureError
from ..runtime import control_flow
from ..runtime.control_flow.containers import containers
from ..runtime.graph.ir import Value
from ..runtime.graph.ordering import graph_effects
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library.recursive_calls import Callee, emit
from ..runtime.library.staged_string import StagedString
from ..runtime.recording.tracing import recording
from ..runtime.symbols.funcgraph import FuncGraph, Ref, Storage, current_graph, user_location
from ..runtime.symbols.symbolic import SymTensor
from ..runtime.values import flattening, pytrees
from ..runtime.values.growing import StagedList
from ..runtime.values.joins import equal, join, opened, text_of
from ..runtime.values.pytrees import has_identity
from ..runtime.values.records import open_list
from ..runtime.values.structure import (
    Choice,
    Const,
    Leaf,
    Spec,
    Tree,
    is_staged_list,
    is_union,
    leaf_types,
    spec_of,
)
from .shared_results import Sources, shared, sources_of, tensors

ROUNDS = 12

_REFUSED = (
    "'{0}' calls itself until a condition holds that only the run knows, and {1}: write it as a while loop, "
    "with a list as a stack if needed, or let the call be the last thing that the function does (`return {0}(...)`), which becomes a loop"
)


def refused(name: str, why: str) -> RecursiveCallError:
    return RecursiveCallError(_REFUSED.format(name, why), user_location())


def recursive_call(
    run: Callable[..., Any], function: types.FunctionType, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """A call of a function that is in ``Root.recursive``."""
    root = current_graph().root
    given = _parameters(function, args, kwargs)
    callee = root.callees.get(function.__code__)
    if callee is not None and current_graph().within(callee.inside):
        return _again(callee, given)
    return _first(run, function, given)


def _parameters(function: types.FunctionType, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """The values of all parameters, in order; those of ``*rest`` in one."""
    signature = inspect.signature(function)
    if any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        raise refused(function.__name__, "it takes any keywords (`**`)")
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return list(bound.arguments.values())


def _first(run: Callable[..., Any], function: types.FunctionType, given: list[Any]) -> Any:
    name = function.__name__
    specs, result, endless = [_spec(x) for x in given], None, False
    sources, watched, requires = Sources(), list[Any](), False
    for _ in range(ROUNDS):
        callee = Callee(name, specs, result, endless)
        callee.sources, callee.watched = sources, watched
        region, made = _traced(callee, run, function)
        if callee.wider is not None:
            specs = callee.wider
            continue
        if region.raised and endless:
            break
        if region.raised:
            endless = True
            continue
        _check(name, region)
        requires |= _requires_grad(region)
        found = _open(spec_of(region.result))
        joined = found if result is None else _joined(result, found)
        before = sources.facts(), bool(watched)
        sources = sources.joined(sources_of(region.result, made, function, region.graph))
        watched = _watched(region) if _requires_grad(region) else []
        if (
            result is not None
            and equal(joined, result)
            and before == (sources.facts(), bool(watched))
        ):
            break
        result = joined
    else:
        raise refused(name, "what it takes or gives is of ever more kinds")
    return _called_first(callee, region, given, requires)


def _called_first(callee: Callee, region: Any, given: list[Any], requires: bool) -> Any:
    """The call from outside; ``requires``: what the function gives requires a gradient."""
    graph = current_graph()
    try:
        values = _closed(callee, region, given, graph)
    except StructureError:
        raise refused(callee.name, "it gives an object that is known outside of it") from None
    connected = any(v in graph.sources for v in values)
    if requires and not connected and torch.is_grad_enabled():
        raise refused(callee.name, "it makes the leaf of a gradient that it gives")
    if callee.result is None:
        raise control_flow.Unreachable
    found = flattening.unflatten(callee.result, iter(values), flattening.plain_maker(graph))
    return shared(callee.name, found, callee.sources, given)


def _traced(
    callee: Callee, run: Callable[..., Any], function: types.FunctionType
) -> tuple[Any, list[Any]]:
    """The function as a region, with parameters of the specs; and these."""
    made: list[Any] = []
    before: list[Any] = []
    root = current_graph().root

    def begin(graph: FuncGraph) -> None:
        callee.inside = graph
        values = [graph.input(t) for s in callee.specs for t in leaf_types(s)]
        rest = iter(values)
        make = flattening.plain_maker(graph)
        made.extend(flattening.unflatten(s, rest, make) for s in callee.specs)
        before.extend(map(_content, made))

    def call() -> Any:
        return _called(run, function, made)

    outer = root.callees.get(function.__code__)
    root.callees[function.__code__] = callee
    try:
        region = control_flow.trace_region("function", call, begin)
    finally:
        if outer is None:
            del root.callees[function.__code__]
        else:
            root.callees[function.__code__] = outer
    names = sorted({p.name for p, _ in region.changed.values()})
    if names or [_content(x) for x in made] != before:
        what = ", ".join(map(repr, names)) or "what it is given"
        raise refused(callee.name, f"it changes {what}, which is known outside of it")
    return region, made


def _called(run: Callable[..., Any], function: types.FunctionType, given: list[Any]) -> Any:
    """A call with the values of all parameters."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    for parameter, x in zip(inspect.signature(function).parameters.values(), given, strict=True):
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += x
        elif parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = x
        else:
            args.append(x)
    return run(*args, **named)


def _content(x: Any) -> Any:
    """What a list holds, to compare with later."""
    if isinstance(x, StagedList):
        return list(map(id, x.columns)) if x.handle is not None else list(map(id, list.__iter__(x)))
    if isinstance(x, SymTensor):
        return x.storage_.version
    return list(map(_content, x)) if type(x) is tuple else None


def _again(callee: Callee, given: list[Any]) -> Any:
    """A call of the function by itself."""
    joined = [_covering(a, _spec(x)) for a, x in zip(callee.specs, given, strict=True)]
    if not all(map(equal, joined, callee.specs)):
        wider = callee.wider or callee.specs
        callee.wider = list(map(join, wider, joined))
    if callee.wider is not None or (callee.result is None and not callee.endless):
        raise control_flow.Unreachable  # not known in this round
    graph = current_graph()
    values = [v for x, s in zip(given, callee.specs) for v in flattening.flatten(x, s, graph)]
    if callee.result is None:
        emit(callee, values, None, [], graph)
        raise control_flow.Unreachable
    beside = [_connected(key, x, graph) for key, x in callee.watched]
    made = emit(callee, values, None, leaf_types(callee.result), graph, beside)
    found = flattening.unflatten(callee.result, iter(made), flattening.plain_maker(graph))
    return shared(callee.name, found, callee.sources, given)


def _check(name: str, region: Any) -> None:
    """Refuse a result with a container that is no value of the graph: there is one of it for each call."""
    for _, x in containers(region.result):
        if isinstance(x, set) or pytrees.parts_of(x) is None:
            raise refused(name, f"it gives a {type(x).__name__}")


def _requires_grad(region: Any) -> bool:
    return any(x.requires_grad for x in tensors(region.result))


def _watched(region: Any) -> list[Any]:
    """What the callee captures and autograd watches, with the tensor that carries it."""
    inner, found = region.graph, list[Any]()
    for key in inner.arguments:
        if isinstance(key, Storage):
            found += [(key, x) for x in storage_sources(key, inner)[:1] if x.requires_grad]
            continue
        x = inner.sources.get(inner.captures[key])
        if x is not None and x.requires_grad:
            found.append((_ref(key, inner.outer), x))
    return found


def _ref(value: Value, graph: FuncGraph) -> Ref:
    """A captured value where it is from, around the callee."""
    while value in graph.captures and graph.outer is not None:
        graph = graph.outer
    return Ref(value, graph)


def _connected(key: Storage | Ref, x: torch.Tensor, graph: FuncGraph) -> Value:
    """What a call by itself reads from around the callee, for autograd."""
    value = graph.reference(key) if isinstance(key, Storage) else graph.resolve(key)
    graph.sources.setdefault(value, x)
    return value


def _joined(a: Spec, b: Spec) -> Spec:
    """What covers two results; strings that differ are made when the graph runs."""
    found = join(a, b)
    return (text_of(found) if isinstance(found, Choice) else None) or found


def _covering(known: Spec, given: Spec) -> Spec:
    """What covers an argument of a call inside too; what that has of its own is a value of the graph."""
    return known if equal(known, given) else join(known, opened(given))


def _spec(x: Any) -> Spec:
    """What is known of an argument: tensors, numbers, strings, and lists and tuples of these are values, anything else is itself."""
    if isinstance(x, (torch.Tensor, bool, int, float, StagedString, *SYMBOLS)) or is_union(x):
        return spec_of(x)
    if isinstance(x, StagedList):
        return _open_lists(spec_of(x))
    if isinstance(x, tuple) and not has_identity(x):
        whole = spec_of(x)
        if isinstance(whole, Tree):
            return Tree(whole.cls, whole.aux, tuple(map(_spec, x)))
    return Const(x)


def _open_lists(spec: Spec) -> Spec:
    if isinstance(spec, Tree) and issubclass(spec.cls, StagedList) and not is_staged_list(spec):
        return open_list([spec]) or spec
    return spec


def _open(spec: Spec) -> Spec:
    """A result, of which every number and tensor is a value of the graph."""
    if isinstance(spec, Leaf):
        return Leaf(spec.type)
    if isinstance(spec, Choice):
        return functools.reduce(join, map(_open, spec.options))
    spec = _open_lists(spec)
    if isinstance(spec, Tree):
        return Tree(spec.cls, spec.aux, tuple(map(_open, spec.parts)))
    return spec


def _closed(callee: Callee, region: Any, given: list[Any], graph: FuncGraph) -> list[Any]:
    """Finish the callee, and call it."""
    inner = region.graph
    result = callee.result
    with recording(inner):
        outputs = [] if result is None else flattening.flatten(region.result, result, inner)
    kinds = [] if result is None else leaf_types(result)
    count = len([t for s in callee.specs for t in leaf_types(s)])
    keys = list(inner.arguments)
    control_flow.close(inner, keys, outputs, count)
    callee.graph = inner.graph
    if graph_effects(inner.graph).writes:
        raise refused(callee.name, "it changes a tensor that is known outside of it")
    args = [v for x, s in zip(given, callee.specs) for v in flattening.flatten(x, s, graph)]
    captured = [
        _read(k, inner, graph) if isinstance(k, Storage) else inner.arguments[k] for k in keys
    ]
    return emit(callee, args, captured, kinds, graph)


def _read(storage: Storage, inner: FuncGraph, graph: FuncGraph) -> Any:
    """What a tensor from outside holds, connected with autograd as it is in the callee."""
    value = graph.current(storage)
    for other in storage_sources(storage, inner):
        graph.sources.setdefault(value, other)
    return value


def storage_sources(storage: Storage, inner: FuncGraph) -> list[torch.Tensor]:
    """The tensors that carry a storage in the graphs of a callee."""
    graphs = [g for g in inner.root.graphs if g.within(inner)]
    return [x for g in graphs for x in g.sources.values() if _storage(x, inner) is storage]


def _storage(x: torch.Tensor, inner: FuncGraph) -> Storage | None:
    return x.storage_ if isinstance(x, SymTensor) else inner.root.captured.get(id(x))
