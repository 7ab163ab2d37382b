"""What a call saves in some runs only, without Optionals.

A slot of an ``If`` or ``Case`` that some branches leave empty (``alternatives``) is read where one of the others ran, and nowhere else. So
between the forward and the backward graph of a call it can be a plain tensor, whose content in the other runs nobody
looks at, wherever its type says how large it is. Programs then take and give tensors and numbers only, which machine
code checks and hands over; an Optional is a list to native code, and Python takes those apart at every call.

    %5: optional<f32[8]> = If(%p, %x) {                        %5: f32[8] = If(%p, %x) {
      then(%1: f32[8]) {                                         then(%1: f32[8]) {
        %2: f32[8] = aten.sin.default(%1)                          %2: f32[8] = aten.sin.default(%1)
        %3: optional<f32[8]> = tg.optional_some(%2)                return %2
        return %3                                   ->           }
      }                                                          orelse(%1: f32[8]) {
      orelse(%1: f32[8]) {                                         %4: f32[8] = aten.empty.memory_format([8], ...)
        %4: optional<f32[8]> = tg.optional_none()                  return %4
        return %4                                                }
      }                                                        }
    }
"""

from __future__ import annotations

from typing import Any

from ..graph import types
from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import set_control_inputs
from ..graph.rewrite import Renaming, lead
from ..graph.types import OptionalType, ScalarType, TensorType, Type
from ..graph.uses import readers
from .graphs import append
from .vjp import Pullback

SOME, NONE, GET = "tg.optional_some", "tg.optional_none", "tg.optional_get"


def unwrap(pullback: Pullback, count: int) -> None:
    """Change what the forward graph saves, its outputs from ``count`` on, and what the backward graph takes of it.

    Example: ``unwrap(vjp(graph, [0]), len(graph.outputs))``
    """
    forward, backward = pullback.forward, pullback.backward
    first, made = len(pullback.kept), dict[Value, Value]()
    readers, plain = Readers(), set[Value]()
    for k in range(count, len(forward.outputs)):
        value, taken = forward.outputs[k], backward.inputs[first + k - count]
        if isinstance(value.type, OptionalType) and _plain(value) and readers.only_read(backward, taken):  # fmt: skip
            forward.outputs[k] = _content(forward, value, made)
            plain.add(taken)
    if made:
        _take_plain(backward, plain, Renaming())
        for graph in (forward, backward):
            set_control_inputs(graph)


def _core(kind: Type) -> Type:
    return _core(kind.element) if isinstance(kind, OptionalType) else kind


# ---- the side that saves


def _plain(value: Value) -> bool:
    """Whether it is known where an Optional comes from, and how large its content is."""
    kind, node = _core(value.type), value.node
    if isinstance(kind, TensorType):
        if None in kind.shape:
            return False
    elif not isinstance(kind, ScalarType) or kind.kind not in (int, float, bool):
        return False
    if node is None:
        return False
    if node.op == SOME:
        return not isinstance(node.args[0].type, OptionalType) or _plain(node.args[0])
    if node.op in ALTERNATIVES:
        return all(_plain(r.outputs[value.index]) for r in node.regions.values())
    return node.op == NONE


def _content(graph: Graph, value: Value, made: dict[Value, Value]) -> Value:
    """What stands for the Optional: its content, or anything of that type."""
    if value not in made:
        node = value.node
        assert node is not None
        if node.op == SOME:
            [x] = node.args
            made[value] = _content(graph, x, made) if isinstance(x.type, OptionalType) else x
        elif node.op == NONE:
            made[value] = _anything(graph, _core(value.type))
        else:
            made[value] = _chosen(node, value, made)
    return made[value]


def _chosen(node: Node, value: Value, made: dict[Value, Value]) -> Value:
    """The content as a further output of the op, or as the output that has it anyway where there is one."""
    kind, regions = _core(value.type), list(node.regions.values())
    ends = [r.outputs[value.index] for r in regions]
    filled = [k for k, end in enumerate(ends) if end.node is None or end.node.op != NONE]
    contents = {k: _content(regions[k], ends[k], made) for k in filled}
    for j, v in enumerate(node.outputs):
        if v.type == kind and all(regions[k].outputs[j] is x for k, x in contents.items()):
            return v
    for k, region in enumerate(regions):
        found = contents[k] if k in contents else _anything(region, kind)
        region.outputs = [*region.outputs, found]
    node.outputs.append(Value(kind, node, len(node.outputs)))
    return node.outputs[-1]


def _anything(graph: Graph, kind: Type) -> Value:
    """A value that nobody looks at."""
    if isinstance(kind, ScalarType):
        return append(graph, "py.constant", kind.kind(0), type=kind)
    assert isinstance(kind, TensorType)
    given: dict[str, Any] = {"dtype": kind.dtype, "device": types.device_of(kind)}
    return append(graph, "aten.empty.memory_format", list(kind.shape), type=kind, **given)


# ---- the side that reads


class Readers:
    """The nodes of graphs that take a value, found once for each graph: there may be as many slots as nodes."""

    def __init__(self) -> None:
        self._of: dict[Graph, dict[Value, list[Node]]] = {}

    def _nodes(self, graph: Graph, value: Value) -> list[Node]:
        if graph not in self._of:
            self._of[graph] = readers(graph)
        return self._of[graph].get(value, [])

    def only_read(self, graph: Graph, value: Value) -> bool:
        """Whether nothing but the content of an Optional is asked for."""
        return value not in graph.outputs and all(self._reads(graph, n, value) for n in self._nodes(graph, value))  # fmt: skip

    def _reads(self, graph: Graph, node: Node, value: Value) -> bool:
        if node.op == GET:
            content = node.outputs[0]
            return not isinstance(content.type, OptionalType) or self.only_read(graph, content)
        if node.op not in ALTERNATIVES or value in node.args[: lead(node)]:
            return False
        return all(self.only_read(r, v) for r in node.regions.values() for v in _inside(node, r, {value}))  # fmt: skip


def _inside(node: Node, region: Graph, values: set[Value]) -> set[Value]:
    """The inputs of a region that are among ``values``."""
    given = zip(node.args[lead(node) :], region.inputs, strict=True)
    return {v for a, v in given if isinstance(a, Value) and a in values}


def _take_plain(graph: Graph, values: set[Value], names: Renaming) -> None:
    """Let ``values`` be the contents themselves."""
    nodes = list[Node]()
    for value in values:
        value.type = _core(value.type)
    for node in graph.nodes:
        names.apply(node)
        if node.op == GET and node.args[0] in values:
            names[node.outputs[0]] = node.args[0]
            continue
        if node.regions and not values.isdisjoint(node.inputs):
            for region in node.regions.values():
                _take_plain(region, _inside(node, region, values), names)
        nodes.append(node)
    graph.nodes = nodes
    names.outputs(graph)
