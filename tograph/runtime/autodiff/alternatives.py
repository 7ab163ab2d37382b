"""The gradient of ``If``, ``Case``, ``Try`` and ``Call``: the same choice again, over the gradients of the regions.

What a region's gradient needs leaves the region as further outputs of the op. A value of one type that every region has
shares one output, a **slot**; a slot that only some regions fill is an Optional, which is none where another region ran:
what a branch saves is neither computed nor read unless that branch is taken. ``Try`` gives the number of the region
that finished as well, and its gradient is a ``Case`` on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...errors import TographError
from ..graph import types
from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value
from ..graph.overwritten import Writers, any_told
from ..graph.rewrite import copied, copy_node
from ..graph.types import BOOL, INT, OptionalType, TensorType, Type, is_static
from ..recording import ways
from ..symbols.funcgraph import FuncGraph, current_graph
from ..symbols.root import Root
from ..symbols.symbolic import argument
from ..writes import saving
from .connect import REGION_RULES, Call
from .dependence import dependences, from_cells
from .graphs import append
from .joint import Joint, Writes, differentiate
from .made_leaves import stays_leaf
from .objects import emit_many, plain_object, zeros_like
from .parting import Parts, part


@dataclass
class Slot:
    """A further output: the saved value of each region that has one."""

    type: Type
    constant: bool = False
    values: dict[str, Value] = field(default_factory=dict)

    def kind(self, regions: int) -> Type:
        return self.type if len(self.values) == regions else OptionalType(self.type)


@dataclass
class _Taken:
    """What all gradient regions take and give, by index.

    ``kept``: the inputs that they are given. ``given``: the outputs that have cotangents. ``need``: the inputs whose gradients are
    wanted. ``present``: those that have one in some region. ``told``: the writes that they have to be told of. ``ways``: the inputs of which
    they have to say whether there is a gradient.
    """

    kept: list[int]
    given: list[int]
    need: list[int]
    present: list[int]
    told: list[int]
    ways: list[int]


Way = bool | Value


def alternatives(call: Call, grads: list[Any], wanted: list[bool]) -> list[Any]:
    """Cotangents of the inputs of an op whose regions are alternatives."""
    node = call.node
    if "gradient" in node.regions:
        return _by_user(call, grads)
    heads = 1 if node.op in ALTERNATIVES else 0
    need = [i - heads for i in range(heads, len(call.inputs)) if wanted[i]]
    given = [i for i, g in enumerate(grads) if g is not None]
    later, writers = writes_since(call, heads)
    readable = call.readable()
    again = [i for i, v in enumerate(node.args[heads:]) if isinstance(v, Value) and v in readable]
    parts = {
        name: part(_differentiated(node, g, need, given, later), ways=True, readable=again)
        for name, g in node.regions.items()
    }
    call.saves |= any(p.saves for p in parts.values())
    told = [k for k in range(len(writers)) if any(k in p.told for p in parts.values())]
    present = sorted({need[k] for p in parts.values() for k in p.present})
    found: list[Any] = [None] * len(call.inputs)
    if not present:
        return found
    slots = _slots(parts)
    first = _extend(node, parts, slots, call.graph.root)
    saved = call.outputs(range(first, first + len(slots)))
    open_sizes = {j for j in present if not _static(node, j)}
    kept = sorted({j for p in parts.values() for j in p.kept} | open_sizes)
    unsure = {j: _ways(need.index(j), parts) for j in present}
    taken = _Taken(
        kept, given, need, present, told, [j for j, w in unsure.items() if _asked(node, w)]
    )
    regions = {name: _backward(node, name, p, slots, taken) for name, p in parts.items()}
    args = [call.input(j + heads) for j in kept] + saved + [grads[i] for i in given]
    args += [plain_object(any_told(writers[k], call.graph.graph), call.graph) for k in told]
    arriving = _arriving(call, grads, given)
    firm = {j for p in parts.values() for j in p.kept if j not in p.loose}
    loose = [k for k, j in enumerate(kept, heads) if j not in firm]
    made = _emit(call, heads, args, regions, [*range(heads), *loose])
    for j, g in zip(present, made):
        found[j + heads] = g
        told = _told(call, unsure[j], dict(zip(taken.ways, made[len(present) :])).get(j))
        every = [w for w in (told, arriving.get(j)) if w is not None]
        if every:
            ways.tell(g, ways.of_all("py.and_", every, current_graph()))
    return found


def _arriving(call: Call, grads: list[Any], given: list[int]) -> dict[int, Value]:
    """By input of the regions, whether there is a cotangent of one of the outputs that depend on it, where all of these may have none. An ``If`` says in which region they do."""
    graph = current_graph()
    known = {i: graph.root.ways.get(argument(graph, grads[i])) for i in given if isinstance(grads[i], torch.Tensor)}  # fmt: skip
    if not any(known.values()):
        return {}
    rows = [_comes_to(depends, known, given) for depends in map(dependences, call.node.regions.values())]  # fmt: skip
    found: dict[int, Value] = {}
    for j in sorted({j for row in rows for j in row}):
        columns = [row.get(j, {}) for row in rows]
        if call.node.op != "If" or columns[0] == columns[1]:
            columns = [{way: None for column in columns for way in column}]
        ways_ = [_some(column, graph) for column in columns]
        way = ways_[0] if len(ways_) == 1 else _by_region(call, ways_, graph)
        if isinstance(way, Value):
            found[j] = way
    return found


def _comes_to(depends: Sequence[Collection[int]], known: dict[int, Any], given: list[int]) -> dict[int, dict[Any, None]]:  # fmt: skip
    """By input of a region the ways of the cotangents that come to it there."""
    found: dict[int, dict[Any, None]] = {}
    for i in given:
        for j in depends[i]:
            found.setdefault(j, {})[known.get(i)] = None
    return found


def _some(found: dict[Any, None], graph: FuncGraph) -> Way:
    """Whether one of some cotangents is there."""
    if not found or None in found:
        return bool(found)
    return ways.of_all("py.or_", list(found), graph)


def _by_region(call: Call, found: list[Way], graph: FuncGraph) -> Way:
    """What the region that an ``If`` runs says."""
    test = argument(graph, call.input(0))
    flags = [graph.emit(op, test, type=BOOL) for op in ("py.bool", "py.not")]
    both = [
        flag if way is True else ways.of_all("py.and_", [flag, way], graph)
        for flag, way in zip(flags, found)
        if way is not False
    ]
    return ways.of_all("py.or_", both, graph) if both else False


def _ways(k: int, parts: dict[str, Parts]) -> list[Way]:
    """For each region whether it gives a gradient: False, True, or the value that says so."""
    return [k in p.present and p.ways.get(k, True) for p in parts.values()]


def _asked(node: Node, found: list[Way]) -> bool:
    """Whether the regions have to say whether they gave a gradient: the condition of an ``If`` may tell."""
    told = node.op == "If" and not any(isinstance(w, Value) for w in found)
    return not told and not all(w is True for w in found)


def _told(call: Call, found: list[Way], asked: Any) -> Value | None:
    """Whether the region that ran gives a cotangent, if only some do."""
    if all(w is True for w in found):
        return None
    graph = current_graph()
    if asked is not None:
        return argument(graph, asked)
    taken = argument(graph, call.input(0))
    return graph.emit("py.bool" if found[0] else "py.not", taken, type=BOOL)


def _emit(
    call: Call, heads: int, args: list[Any], regions: dict[str, Graph], loose: Collection[int]
) -> list[Any]:
    """Record the choice among the gradients of the regions."""
    node, columns = call.node, zip(*(g.outputs for g in regions.values()))
    kinds = [_join([v.type for v in outputs]) for outputs in columns]
    op, head, kwargs = node.op, [call.input(i) for i in range(heads)], {}
    if node.op == "Try":
        op, head, loose = "Case", call.outputs([len(node.outputs) - 1]), [k + 1 for k in loose]
        regions = {f"branch{k}": g for k, g in enumerate(regions.values())}
    elif node.op == "Call":
        kwargs = {"name": f"{node.kwargs.get('name', 'call')}_backward"}
    return emit_many(op, (*head, *args), kwargs, kinds, regions, loose)


_IN_CELLS = (
    "a gradient that is taken inside of the function goes through what a `try` had computed before it failed: take it outside of the "
    "function, or compute what the handler needs before the `try`"
)


def _differentiated(
    node: Node, region: Graph, need: list[int], given: list[int], later: Writes
) -> Joint:
    """The gradient of a region; an error where that region runs, if torch has no formula for it and there are others."""
    if node.op == "Try" and region is not node.regions["body"]:
        lost = from_cells(region, node.regions["body"], need)
        if lost:
            return differentiate(region, need, given, writes=later, failing=_IN_CELLS, lost=lost)
    try:
        return differentiate(region, need, given, writes=later)
    except NotImplementedError as error:
        if len(node.regions) == 1 or isinstance(error, TographError):
            raise
        return differentiate(region, need, given, writes=later, failing=str(error))


def writes_since(call: Call, heads: int) -> tuple[Writes, list[Writers]]:
    """What has been written over since a node was recorded; the keys are positions in the list of what may have done it."""
    later, writers, found = Writes(), list[Writers](), call.written_since()

    def keys(values: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        for i, v in enumerate(values):
            if isinstance(v, Value) and v in found:
                by = found[v]
                yield i, True if by is None else len(writers)
                writers.extend([] if by is None else [by])

    if found:
        later.inputs.update(keys(call.node.args[heads:]))
        later.outputs.update(keys(call.node.outputs))
    return later, writers


def _by_user(call: Call, grads: list[Any]) -> list[Any]:
    """The gradient that the user wrote: a call of the region that says it."""
    node = call.node
    call.saves = bool(call.kept)
    saving.check(call.kept, [g for g in grads if g is not None])
    region = copied(node.regions["gradient"], ordered=True)
    region.name = "function"
    given = [zeros_like(call.outputs([i])[0]) if g is None else g for i, g in enumerate(grads)]
    own = len(node.outputs) if node.kwargs.get("results") else 0
    args = [*call.outputs(range(own)), *map(call.input, range(own, len(call.inputs))), *given]
    none = node.kwargs.get("none", ())
    kwargs: dict[str, Any] = {"name": "gradient"} | ({"none": none} if none else {})
    if "told" in node.kwargs:
        args += [g is not None and _flag(_way_of(g)) for g in grads]
        kwargs["told"] = len(grads)
    kinds = [v.type for v in region.outputs]
    made = emit_many("Call", tuple(args), kwargs, kinds, regions={"function": region})
    found: list[Any] = [None] * len(call.inputs)
    there = {j: _way_of(g) for j, g in enumerate(grads) if g is not None}
    for k, (i, g) in enumerate(zip(node.kwargs["wrt"], made)):
        by = [way for j, way in there.items() if (j, k) not in none]
        if by:
            found[i] = g
            if all(isinstance(way, Value) for way in by):
                ways.tell(g, ways.of_all("py.or_", by, current_graph()))
    return found


def _flag(way: Way) -> Any:
    return plain_object(way, current_graph()) if isinstance(way, Value) else way


def _way_of(g: Any) -> Way:
    """Whether a cotangent is there: zeros may stand for None."""
    graph = current_graph()
    known = graph.root.ways.get(argument(graph, g)) if isinstance(g, torch.Tensor) else None
    return True if known is None else known


def _static(node: Node, j: int) -> bool:
    return is_static(next(iter(node.regions.values())).inputs[j].type)


def _join(kinds: list[Type]) -> Type:
    out = kinds[0]
    for kind in kinds[1:]:
        out = types.join(out, kind) or out
    return out


def _slots(parts: dict[str, Parts]) -> list[Slot]:
    """A slot for each saved value, shared between regions by type."""
    slots: list[Slot] = []
    for name, p in parts.items():
        for value in p.saved:
            node = value.node
            kind = value.type, node is not None and node.op == "aten.detach.default"
            slot = next(
                (s for s in slots if (s.type, s.constant) == kind and name not in s.values), None
            )
            if slot is None:
                slots.append(slot := Slot(*kind))
            slot.values[name] = value
    return slots


def _extend(node: Node, parts: dict[str, Parts], slots: list[Slot], root: Root) -> int:
    """Make the slots outputs of the op; returns the index of the first."""
    first = len(node.outputs)
    kinds = [s.kind(len(parts)) for s in slots]
    for k, (name, p) in enumerate(parts.items()):
        graph = p.forward
        outs = graph.outputs[:first]
        for slot, kind in zip(slots, kinds):
            if kind == slot.type:
                outs.append(slot.values[name])
            elif name in slot.values:
                outs.append(append(graph, "tg.optional_some", slot.values[name], type=kind))
            else:
                outs.append(append(graph, "tg.optional_none", type=kind))
        if node.op == "Try":
            outs.append(append(graph, "py.constant", k, type=INT))
        graph.outputs = outs
        stays_leaf(node.regions[name], graph, root)
        node.regions[name] = graph
    for kind in kinds + ([INT] if node.op == "Try" else []):
        node.outputs.append(Value(kind, node, len(node.outputs)))
    return first


def _backward(node: Node, name: str, p: Parts, slots: list[Slot], taken: _Taken) -> Graph:
    """The gradient region of one region: (kept inputs, slots, cotangents, flags) -> cotangents of the inputs ``present``."""
    kept, given, need = taken.kept, taken.given, taken.need
    region = node.regions[name]
    graph = Graph(name)
    ins = [Value(region.inputs[j].type) for j in kept]
    stored = [Value(s.kind(len(node.regions))) for s in slots]
    cotangents = [Value(node.outputs[i].type) for i in given]
    flags = {k: Value(BOOL) for k in taken.told}
    graph.inputs = [*ins, *stored, *cotangents, *flags.values()]
    graph.input_names = [""] * len(graph.inputs)
    by_saved = {}
    for slot, value in zip(slots, stored):
        if name in slot.values:
            plain = (
                value
                if value.type == slot.type
                else append(graph, "tg.optional_get", value, type=slot.type)
            )
            by_saved[slot.values[name]] = plain
    sources = [ins[kept.index(j)] for j in p.kept] + [by_saved[v] for v in p.saved]
    sources += [cotangents[given.index(i)] for i in p.given] + [flags[k] for k in p.told]
    env = dict(zip(p.backward.inputs, sources, strict=True))
    graph.nodes += [copy_node(n, env) for n in p.backward.nodes]
    results = dict(zip((need[k] for k in p.present), p.backward.outputs))
    for j in taken.present:
        if j in results:
            graph.outputs.append(env[results[j]])
        else:
            like = None if _static(node, j) else ins[kept.index(j)]
            graph.outputs.append(zeros(graph, region.inputs[j].type, like))
    for j in taken.ways:
        way = p.ways.get(need.index(j), j in results)
        graph.outputs.append(env[way] if isinstance(way, Value) else append(graph, "py.constant", way, type=BOOL))  # fmt: skip
    return graph


def zeros(graph: Graph, kind: Type, like: Value | None) -> Value:
    """Zeros of a type; ``like`` is a value of that type where its sizes are known only at run time."""
    if like is None:
        assert isinstance(kind, TensorType)
        device = types.device_of(kind)
        return append(
            graph,
            "aten.zeros.default",
            list(kind.shape),
            type=kind,
            dtype=kind.dtype,
            device=device,
        )
    op = "aten.zeros_like.default" if isinstance(kind, TensorType) else "tg.handle_zeros"
    return append(graph, op, like, type=kind)


REGION_RULES.update(dict.fromkeys(("If", "Case", "Call", "Try"), alternatives))
