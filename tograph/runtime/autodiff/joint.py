"""The gradient of a graph as a graph: forward and backward recorded together; ``parting`` cuts them apart.

``Joint``: a graph, replayed with autograd on, and behind it its backward: inputs -> outputs, and cotangents -> gradients. Effects and random
draws stand in the forward part, so they happen once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import GradientError, GraphBoolError, Location
from ..gradients import broadcasts
from ..gradients.engine import run_backward
from ..graph.constants import constant_of
from ..graph.ir import Graph, Node, Value
from ..graph.types import BOOL
from ..inference.layouts import taking_sparse
from ..recording.tracing import recording
from ..symbols import journal
from ..symbols.funcgraph import FuncGraph, Storage, current_graph, is_tracing
from ..writes import freed, iterations
from ..writes.freed import executed
from ..writes.stale import bump, settle
from . import missing
from .objects import plain_object, value_in, zeros_like
from .replay import replay


@dataclass
class Joint:
    """``grads`` has a value or None for each index of ``need``; ``cotangents`` an input for each of ``given``, and of ``told``.

    ``told``: what the backward part has to be told of writes, see ``writes``. ``saves``: those of ``given`` in whose history eager PyTorch
    saves tensors, which a gradient frees. ``connected``: the values that require grad. ``ways``: whether a run has a gradient, by place in ``grads``, see ``recording.ways``;
    False: zeros that were filled in. ``unsure``: those of ``given`` of which an input behind the cotangents says whether there is one. ``loose``: see ``unsaved``.
    """

    func: FuncGraph
    inputs: list[Value]
    outputs: list[Value]
    forward: list[Node]
    backward: list[Node]
    need: list[int]
    given: list[int]
    cotangents: list[Value]
    grads: list[Value | None]
    told: list[Any]
    saves: frozenset[int]
    connected: frozenset[Value]
    ways: dict[int, Value]
    filled: frozenset[int] = frozenset()
    unsure: tuple[int, ...] = ()
    loose: dict[Node, frozenset[int]] = field(default_factory=dict)


def engine(
    outputs: Sequence[Any], grads: Sequence[Any], inputs: Sequence[Any], create: bool
) -> list[Any]:
    """The gradients of ``inputs``, on what is recorded.

    Anomaly detection is off: there are no values to look at. Around a call it looks at what the call's backward gives.
    """
    if not outputs or not inputs:
        return [None] * len(inputs)
    if torch.is_anomaly_enabled():
        with torch.autograd.set_detect_anomaly(False):
            return engine(outputs, grads, inputs, create)
    return list(run_backward(outputs, grads, inputs, create))


def differentiate(graph: Graph, *args: Any, **kwargs: Any) -> Joint:
    """``_differentiate``, with errors of the run for derivatives that torch does not have."""
    try:
        return _differentiate(graph, *args, **kwargs)
    except RuntimeError as error:
        if not missing.is_missing(error):
            raise
    return _differentiate(graph, *args, searching=True, **kwargs)


def _differentiate(
    graph: Graph,
    need: Sequence[int],
    given: Collection[int],
    fill: Collection[int] = (),
    again: bool | None = None,
    writes: Writes | None = None,
    failing: str = "",
    lost: Collection[int] | None = None,
    unsure: Collection[int] = (),
    searching: bool = False,
) -> Joint:
    """Record ``graph`` and its gradient: of the outputs ``given`` with respect to the inputs ``need``.

    An output that depends on no input of ``need`` is left out of ``given``. The inputs ``fill`` get zeros where nothing
    depends on them. ``again``: the gradient is to be differentiated (by default: where gradients are on now); formulas
    of torch such as that of ``solve`` use what the forward op kept (a factorisation) only where it is not.

    What a gradient needs and was written in place since is an error when the backward part runs. ``writes`` says what was written after a
    region, each with a key by which its backward part has to be told whether it was (True: it was). ``failing``: the NotImplementedError that the
    backward part is, in place of what torch has no formula for. ``lost``: the outputs for which it is, if not all. ``unsure``: the outputs whose cotangents
    may be zeros that stand for None. ``searching``: see ``missing``.
    """
    again = torch.is_grad_enabled() if again is None else again
    func = FuncGraph(graph.name)
    func.searching = searching
    if is_tracing():
        around = current_graph().root
        func.root.origin = around.origin or around
    with _own(func), recording(func), torch.enable_grad():
        values, inputs = _inputs(graph, func, need)
        outputs, results = _outputs(graph, func, inputs)
        last = func.graph.nodes[-1] if func.graph.nodes else None
        chosen = [i for i in given if _requires_grad(outputs[i]) or (lost and i in lost)]
        wrt, filled = [inputs[i] for i in need], [k for k, i in enumerate(need) if i in fill]
        if failing:
            missing.refuse(failing, outputs, [i for i in chosen if lost is None or i in lost], wrt)
        cotangents = [func.input(results[i].type) for i in chosen]
        asked = {i: func.input(BOOL) for i in sorted(unsure)}
        func.root.ways.update((v, asked[i]) for i, v in zip(chosen, cotangents) if i in asked)
        told = _written_later(writes, graph, inputs, outputs, func)
        ends = [outputs[i] for i in chosen]
        grads, empty = _gradients(func, ends, cotangents, wrt, again, filled)
        ways = {k: func.root.ways[g] for k, g in enumerate(grads) if g in func.root.ways}
        saves = frozenset(i for i, end in zip(chosen, ends) if _saves(end, wrt))
        connected = frozenset(v for v, x in func.sources.items() if x.requires_grad)
        loose = dict(func.root.loose)
    _settle_constants(func)
    parts, told = _parts_at(func, last), _used(told, func)
    cotangents = [*cotangents, *asked.values(), *told.values()]
    return Joint(
        func, values, results, *parts, list(need), chosen, cotangents, grads, list(told), saves, connected, ways, empty, tuple(asked), loose
    )  # fmt: skip


def _used(told: dict[Any, Value], func: FuncGraph) -> dict[Any, Value]:
    """The inputs that a backward part looks at."""
    used = {v for n in func.graph.nodes for v in n.inputs}
    return {key: v for key, v in told.items() if v in used}


def _inputs(graph: Graph, func: FuncGraph, need: Sequence[int]) -> tuple[list[Value], list[Any]]:
    """The inputs of a graph as values of ``func``, and the objects that it is replayed with."""
    names = graph.input_names + [""] * len(graph.inputs)
    values = [func.input(v.type, n) for v, n in zip(graph.inputs, names)]
    inputs = [plain_object(v, func) for v in values]
    for i in need:
        inputs[i].requires_grad_(True)
    return values, inputs


def _outputs(graph: Graph, func: FuncGraph, inputs: list[Any]) -> tuple[list[Any], list[Value]]:
    """What the graph gives for objects: objects that autograd knows, and values of ``func``."""
    outputs = replay(graph, inputs)
    with torch.no_grad():
        return outputs, [_as_value(o, v, func) for o, v in zip(outputs, graph.outputs)]


def _requires_grad(x: Any) -> bool:
    """Whether a gradient of it can be taken: a view that was taken without gradients says that it requires one, but has no place to keep it."""
    if not isinstance(x, torch.Tensor) or not x.requires_grad:
        return False
    return x.grad_fn is not None or not x._is_view()


def _gradients(
    func: FuncGraph,
    outputs: list[Any],
    cotangents: list[Value],
    wrt: list[Any],
    again: bool,
    filled: list[int],
) -> tuple[list[Value | None], frozenset[int]]:
    """Record the backward part: the cotangents of ``wrt``, and those of ``filled`` that are zeros, since nothing depends on them."""
    nodes = executed(outputs, wrt)
    if func.root.writes:
        settle(nodes, True)
    given = [plain_object(v, func) for v in cotangents]
    # torch's gradient of an embedding is sparse
    with broadcasts.checked(nodes), torch.set_grad_enabled(again), taking_sparse():
        found = _backward_of(outputs, given, wrt, again)
        empty = frozenset(k for k in filled if found[k] is None)
        for k in empty:
            found[k] = zeros_like(wrt[k])
        return [None if g is None else value_in(g, func) for g in found], empty


def _saves(output: Any, inputs: Sequence[Any]) -> bool:
    """Whether something is saved that a gradient of ``output`` goes through."""
    return any(map(freed.saves, executed([output], inputs)))


def _parts_at(func: FuncGraph, last: Node | None) -> tuple[list[Node], list[Node]]:
    """The nodes up to ``last``, and those of the backward part behind it."""
    nodes = func.graph.nodes
    at = 0 if last is None else nodes.index(last) + 1
    for node in nodes[at:]:
        node.grad = True  # a gradient is a function like any other: it has a gradient again
    func.closed = True
    return nodes[:at], nodes[at:]


@dataclass
class Writes:
    """What is written over after a region has run, of its inputs and of its outputs: by index a key, or True."""

    inputs: dict[int, Any] = field(default_factory=dict)
    outputs: dict[int, Any] = field(default_factory=dict)


def _written_later(
    writes: Writes | None,
    graph: Graph,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    func: FuncGraph,
) -> dict[Any, Value]:
    """Make tensors count as written; returns the input that tells of it by key.

    An input that ``graph`` itself has written over is not there any more: what its ops saved behind that write are copies.
    """
    told: dict[Any, Value] = {}
    gone = {*graph.over, *(v for node in graph.nodes for v in node.over)}
    writes = writes or Writes()
    sides = (graph.inputs, inputs, writes.inputs), (graph.outputs, outputs, writes.outputs)
    for values, having, keys in sides:
        for i, key in keys.items():
            if values[i] in gone:
                continue
            if key is not True and key not in told:
                told[key] = Value(BOOL)
            flag = True if key is True else told[key]
            if isinstance(having[i], torch.Tensor):
                content = value_in(having[i], func)
                func.written_later[content] = flag
                for x in (having[i], *func.reads.get(content, ())):
                    bump(x, func, lambda flag=flag: flag, None)
    return told


@contextmanager
def _own(func: FuncGraph) -> Iterator[None]:
    """Inside, a graph is replayed, and what is written in place belongs to the joint graph: it is no state of a region around it."""
    changes, func.replaying = journal.push(), True
    try:
        yield
    finally:
        journal.unwind(changes)
        func.root.release()


def _backward_of(
    outputs: Sequence[Any], grads: Sequence[Any], inputs: Sequence[Any], again: bool
) -> list[Any]:
    try:
        return engine(outputs, grads, inputs, again)
    except GraphBoolError as error:
        raise GradientError(
            "torch's formula for a derivative needs a number, such as the size of a list, that is known only when the graph runs",
            _place_of(error.formula, current_graph()) or error.location,
        ) from error


def _place_of(formula: Any, func: FuncGraph) -> Location | None:
    """The line of the first op whose history a node of torch's autograd is in."""
    for node in func.graph.nodes if formula is not None else ():
        found = [func.sources[v] for v in node.outputs if v in func.sources]
        if node.location is not None and formula in iterations.behind(found):
            return node.location
    return None


def _settle_constants(func: FuncGraph) -> None:
    """Real tensors that formulas of torch brought in become constants of the graph."""
    for storage, value in func.captures.items():
        if not isinstance(storage, Storage) or storage.external is None:
            continue
        x = storage.external
        if x.numel() > 64 or x.device.type != "cpu":
            raise GradientError("a formula of torch uses a tensor that is not part of the graph")
        with _disable_current_modes():
            node = Node(*constant_of(x), [value.type])
        node.outputs = [value]
        value.node = node
        func.graph.nodes.insert(0, node)


def _as_value(x: Any, like: Value, func: FuncGraph) -> Value:
    value = value_in(x, func)
    return value if isinstance(value, Value) else func.emit("py.constant", value, type=like.type)
