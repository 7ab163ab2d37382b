"""Complex tensors as two real ones: where a graph computes with them, loops and branches included, each is a pair for native code.

A complex tensor is one thing in memory where it enters, leaves, is printed, and where torch is asked for an op (``tg.part`` and
``tg.complex`` are the ways in and out). Results that are views of each other stay so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..graph.families import FORMATS
from ..graph.ir import Graph, Node, Value, all_nodes, map_values
from ..graph.rewrite import copied, lead
from ..graph.types import ListType, OptionalType, TensorType
from .calls import may_call
from .complex_emit import REAL, Emit, Pair, is_complex
from .complex_ops import FORMS, REALS, fills
from .values import Decline
from .views import VIEWS

_SAID = frozenset(["tg.print", *FORMATS, "tg.raise"])
_SAME = frozenset(["tg.identity", "tg.choose"])
_CONJUGATES = frozenset(
    ["aten._conj.default", "aten._neg_view.default", "aten.view_as_complex.default"]
)


def paired(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which complex tensors are pairs; Decline where it does something else with one."""
    if not any(map(is_complex, (*graph.inputs, *(v for n in all_nodes(graph) for v in n.outputs)))):
        return graph
    made = copied(graph)
    _Pairing({}).graph(made, None)
    return made


class _Pairing:
    """One graph or region. ``pairs``: the parts of its complex values; ``wholes``: those that are one thing in memory."""

    def __init__(self, pairs: dict[Value, Pair]):
        self.pairs = pairs
        self.wholes: dict[Value, Value] = {}
        self.nodes: list[Node] = []
        self.made: dict[
            Value, tuple[Node, tuple]
        ] = {}  # the nodes of the graph as it was, with their arguments

    def graph(self, graph: Graph, outer: Any) -> None:
        """Rewrite a graph; in a region (``outer``) parts come in and go out."""
        for v in graph.inputs if outer is None else ():
            if is_complex(v):
                self.wholes[v] = v
        if outer is not None:
            graph.inputs = self._inputs(graph.inputs)
            graph.input_names = []
        self.made = {v: (n, n.args) for n in graph.nodes for v in n.outputs}
        for node in graph.nodes:
            self.node(node)
        found = list[Value]()
        for v in graph.outputs:
            found += [self._result(v)] if outer is None else self._parts(v)
        graph.outputs, graph.nodes = found, self.nodes
        graph.over = ()

    def _inputs(self, inputs: list[Value]) -> list[Value]:
        out = []
        for v in inputs:
            if is_complex(v):
                self.pairs[v] = parts = tuple(Value(_real(v.type)) for _ in range(2))
                out += parts
            else:
                _check(v)
                out.append(v)
        return out

    def _parts(self, v: Any) -> list[Any]:
        if not is_complex(v):
            return [v]
        emit = Emit(self.nodes, _like(v), self.pair)
        return [emit.whole(p, v.type) for p in self.pair(v)]

    # ---- values

    def pair(self, v: Any) -> Pair:
        """The parts of a value or number; those of a real one are it and zero."""
        if isinstance(v, complex):
            return v.real, v.imag
        if not is_complex(v):
            return v, 0.0
        if v not in self.pairs:
            whole, kind = self.wholes[v], _real(v.type)
            made = [Node("tg.part", (whole, k), None, [kind]) for k in range(2)]
            self.nodes += made
            self.pairs[v] = tuple(n.outputs[0] for n in made)
        return self.pairs[v]

    def whole(self, v: Value) -> Value:
        """A complex value as one thing in memory."""
        if v not in self.wholes:
            made = Node("tg.complex", tuple(self._parts(v)), None, [v.type])
            self.nodes.append(made)
            self.wholes[v] = made.outputs[0]
        return self.wholes[v]

    def _result(self, v: Value) -> Value:
        """A result of the graph; a view as one of the tensor that it is of."""
        chain, base = [], v
        while base in self.made and self.made[base][0].op in VIEWS.keys() | _CONJUGATES:
            node, args = self.made[base]
            chain.append((node, args[1:], base.index))
            base = args[0]
        if not any(map(is_complex, (v, base))):
            return v
        if any(n.op in _CONJUGATES for n, _, _ in chain):
            raise Decline("a result that is the conjugate of a complex tensor")
        found = self.whole(base)
        for node, rest, index in reversed(chain):
            kinds = [o.type for o in node.outputs]
            self.nodes.append(Node(node.op, (found, *rest), node.kwargs, kinds))
            found = self.nodes[-1].outputs[index]
        return found

    # ---- nodes

    def node(self, node: Node) -> None:
        """Append what a node becomes."""
        for v in (*node.inputs, *node.outputs):
            _check(v)
        if not any(map(is_complex, (*node.inputs, *node.outputs))):
            for region in node.regions.values():
                _Pairing({}).graph(region, node)
            self.nodes.append(node)
        elif node.regions:
            self._regions(node)
        elif node.op == "py.size":
            self._measured(node)
        elif node.op in _SAID or node.op == "tg.read":
            self._asked(node)
        elif node.op in _SAME:
            self._moved(node)
        elif node.op in VIEWS and len(node.outputs) > 1:
            self._split(node)
        elif node.op.startswith("aten."):
            self._computed(node)
        else:
            self._constant(node)

    def _constant(self, node: Node) -> None:
        if node.op not in FORMS:
            raise Decline(f"{node.op} of complex numbers has no native form")
        self._computed(node)

    def _computed(self, node: Node) -> None:
        out = node.outputs[0]
        forms: Any = FORMS if is_complex(out) else REALS
        tensor = len(node.outputs) == 1 and isinstance(out.type, TensorType)
        form = forms.get(node.op) if tensor and (fills(node) or not _is_open(node)) else None
        for v in node.inputs if form else ():
            self.pair(v)
        count = len(self.nodes)
        found = form and form(Emit(self.nodes, node, self.pair))
        if not found:
            del self.nodes[count:]
            self._asked(node)
        elif is_complex(out):
            emit = Emit(self.nodes, node, self.pair)
            self.pairs[out] = emit.spread(found[0]), emit.spread(found[1])
        else:
            self._rename(out, found)

    def _rename(self, old: Value, new: Value) -> None:
        made = Node("tg.identity", (new,), None, [old.type])
        made.outputs = [old]
        old.node, old.index = made, 0
        self.nodes.append(made)

    def _asked(self, node: Node) -> None:
        """Let torch, or a print, have complex tensors as they are."""
        if node.op.startswith("aten.") and not may_call(node):
            raise Decline(f"{node.op} of complex numbers has no native form")
        whole = {v: self.whole(v) for v in node.inputs if is_complex(v)}
        node.args = map_values(lambda v: whole.get(v, v), node.args)
        node.kwargs = map_values(lambda v: whole.get(v, v), node.kwargs)
        self.nodes.append(node)
        self.wholes.update((v, v) for v in node.outputs if is_complex(v))

    def _measured(self, node: Node) -> None:
        """The size of a complex tensor is that of its parts."""
        x, *rest = node.args
        node.args = (self.wholes[x] if x in self.wholes else self._parts(x)[0], *rest)
        self.nodes.append(node)

    def _moved(self, node: Node) -> None:
        (out,), parts = node.outputs, []
        if not all(is_complex(v) for v in node.inputs if isinstance(v.type, TensorType)):
            raise Decline("a choice among complex and other tensors")
        for k in range(2):
            part = {v: self._parts(v)[k] for v in dict.fromkeys(node.inputs) if is_complex(v)}
            args = map_values(lambda v, part=part: part.get(v, v), node.args)
            made = Node(node.op, args, node.kwargs, [_real(out.type)], location=node.location)
            self.nodes.append(made)
            parts.append(made.outputs[0])
        self.pairs[out] = parts[0], parts[1]

    def _split(self, node: Node) -> None:
        """Several views of one tensor (``unbind``, ``split``), of each of its parts."""
        columns = []
        for part in self._parts(node.args[0]):
            kinds = [_real(v.type) for v in node.outputs]
            made = Node(node.op, (part, *node.args[1:]), node.kwargs, kinds, location=node.location)
            self.nodes.append(made)
            columns.append(made.outputs)
        self.pairs.update(zip(node.outputs, zip(*columns)))

    def _regions(self, node: Node) -> None:
        first = lead(node)
        count = node.kwargs.get("carried", 0)
        args, carried = [], 0
        for i, a in enumerate(node.args[first:]):
            found = self._parts(a)
            args += found
            carried += len(found) if i < count else 0
        if "carried" in node.kwargs:
            node.kwargs = {**node.kwargs, "carried": carried}
        if any(map(is_complex, node.args[:first])):
            raise Decline("a complex condition")
        node.args = (*node.args[:first], *args)
        for region in node.regions.values():
            _Pairing({}).graph(region, node)
        outputs = []
        for v in node.outputs:
            if is_complex(v):
                self.pairs[v] = parts = tuple(Value(_real(v.type)) for _ in range(2))
                outputs += parts
            else:
                outputs.append(v)
        for i, v in enumerate(outputs):
            v.node, v.index = node, i
        node.outputs = outputs
        self.nodes.append(node)


def _real(kind: TensorType) -> TensorType:
    return replace(kind, dtype=REAL[kind.dtype])


def _like(v: Value) -> Node:
    """A node that gives such a value."""
    return Node("aten.alias.default", (v,), None, [v.type])


def _is_open(node: Node) -> bool:
    """Whether it has a tensor with a size that only the run knows."""
    return any(None in getattr(v.type, "shape", ()) for v in (*node.inputs, *node.outputs))


def _check(v: Value) -> None:
    """Lists and optionals of complex tensors have no form."""
    kind = v.type
    while isinstance(kind, (ListType, OptionalType)):
        kind = kind.element
    if isinstance(kind, TensorType) and kind.dtype.is_complex and not is_complex(v):
        raise Decline(f"a value of type {v.type}")
