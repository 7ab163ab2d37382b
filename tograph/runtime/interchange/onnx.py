"""A graph as an ONNX model with ``If`` and ``Loop``.

Model. Every value is a tensor; Python numbers are 0-d tensors (int64, double, bool). A region becomes a subgraph that sees
the names around it, as ONNX allows, so its inputs are the names of what it is given. A ``While`` is a ``Loop`` whose condition
is computed before the loop and at the end of its body. Captured tensors are initializers, with the values they have now.
One op of the graph is one entry of ``onnx_ops.TABLE``.

Not there: writes to variables, prints, assertions, exceptions, lists, optionals, random numbers.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

from ...errors import InterchangeError
from ..ir import Graph, Node, Value
from ..types import ScalarType, TensorType, Type
from . import onnx_ops

OPSET = 18
ELEMENTS = {
    torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 5, torch.int32: 6, torch.int64: 7, torch.bool: 9,
    torch.float16: 10, torch.float64: 11, torch.bfloat16: 16,
}  # fmt: skip


def to_onnx(graph: Graph, captured: list[torch.Tensor], path: Any) -> None:
    """Write the model. Raises InterchangeError, at the user's line, for an op that has no entry.

    Needs the package ``onnx``.
    """
    onnx = importlib.import_module("onnx")
    writer = Writer(onnx)
    count = len(graph.inputs) - len(captured)
    inputs = []
    for i, value in enumerate(graph.inputs):
        label = graph.input_names[i] if i < len(graph.input_names) else ""
        name = writer.name(value, label)
        if i < count:
            inputs.append(writer.info(name, value.type))
        else:
            writer.initializers.append(writer.tensor(captured[i - count], name))
    writer.graph(graph)
    outputs = [writer.output(v) for v in graph.outputs]
    infos = [writer.info(name, v.type) for name, v in zip(outputs, graph.outputs)]
    body = onnx.helper.make_graph(writer.nodes, graph.name, inputs, infos, writer.initializers)
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(
        body, opset_imports=opsets, producer_name="tograph", ir_version=9
    )
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


class Writer:
    """The ONNX nodes of one graph; ``emit`` adds a node and gives the name of its output."""

    def __init__(self, onnx: Any, outer: Writer | None = None):
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.initializers: list[Any] = outer.initializers if outer else []
        self.names: dict[Value, str] = outer.names if outer else {}
        self.dtypes: dict[str, torch.dtype] = outer.dtypes if outer else {}
        self.counter: list[int] = outer.counter if outer else [0]
        self.at: Node | None = None

    # ---- names and types

    def fresh(self, wish: str = "v") -> str:
        self.counter[0] += 1
        return f"{wish}_{self.counter[0]}"

    def name(self, value: Value, wish: str = "") -> str:
        """The name of a value; a number and a tensor have one each."""
        if value not in self.names:
            taken = wish in self.names.values() or not wish
            self.names[value] = self.fresh(wish or "v") if taken else wish
            self.dtypes[self.names[value]] = value.type.dtype
        return self.names[value]

    def info(self, name: str, kind: Type) -> Any:
        """A name with its type, as ONNX declares it."""
        if isinstance(kind, TensorType):
            shape = [f"{name}_{i}" if n is None else n for i, n in enumerate(kind.shape)]
        elif isinstance(kind, ScalarType):
            shape = []
        else:
            raise self.error(f"a value of type {kind}")
        return self.onnx.helper.make_tensor_value_info(name, self.element(kind.dtype), shape)

    def element(self, dtype: torch.dtype) -> int:
        if dtype not in ELEMENTS:
            raise self.error(f"the dtype {dtype}")
        return ELEMENTS[dtype]

    def error(self, what: str) -> InterchangeError:
        return InterchangeError("ONNX", what, self.at.location if self.at else None)

    def tensor(self, x: torch.Tensor, name: str) -> Any:
        """A constant tensor."""
        x = x.detach().cpu().contiguous()
        raw = x.view(torch.uint8).numpy().tobytes() if x.dim() else x.reshape(1).view(torch.uint8).numpy().tobytes()  # fmt: skip
        self.dtypes[name] = x.dtype
        return self.onnx.helper.make_tensor(name, self.element(x.dtype), tuple(x.shape), raw, raw=True)  # fmt: skip

    # ---- nodes

    def emit(self, op: str, *inputs: str, dtype: torch.dtype | None = None, count: int = 1, **attributes: Any) -> Any:  # fmt: skip
        """Add a node. ``dtype`` is that of its outputs: that of the first input by default."""
        outs = [self.fresh() for _ in range(count)]
        self.nodes.append(self.onnx.helper.make_node(op, list(inputs), outs, **attributes))
        known = dtype or (self.dtypes.get(inputs[0], torch.int64) if inputs else torch.int64)
        self.dtypes.update(dict.fromkeys(outs, known))
        return outs[0] if count == 1 else outs

    def constant(self, data: Any, dtype: torch.dtype = torch.int64) -> str:
        """A constant of numbers."""
        name = self.fresh("c")
        self.initializers.append(self.tensor(torch.tensor(data, dtype=dtype), name))
        return name

    def cast(self, name: str, dtype: torch.dtype) -> str:
        if self.dtypes[name] == dtype:
            return name
        return self.emit("Cast", name, dtype=dtype, to=self.element(dtype))

    def value(self, x: Any, dtype: torch.dtype | None = None) -> str:
        """The name of an argument: a value, or a number as a 0-d constant."""
        if isinstance(x, Value):
            name = self.name(x)
            return name if dtype is None else self.cast(name, dtype)
        if dtype is None:
            dtype = {bool: torch.bool, int: torch.int64, float: torch.float64}[type(x)]
        return self.constant(x, dtype)

    # ---- graphs

    def graph(self, graph: Graph) -> None:
        for node in graph.nodes:
            self.at = node
            made = self.node(node)
            for value, name in zip(node.outputs, made):
                self.names[value] = self.cast(name, value.type.dtype)

    def node(self, node: Node) -> list[str]:
        if node.op in _REGIONS:
            return _REGIONS[node.op](self, node)
        lower = onnx_ops.TABLE.get(node.op)
        if lower is None:
            raise self.error(node.op)
        made = lower(self, node, *node.args, **node.kwargs)
        return made if isinstance(made, list) else [made]

    def output(self, value: Value) -> str:
        """A name that a node of this graph makes: outputs may not be inputs, nor names from around."""
        return self.emit("Identity", self.name(value))

    def bind(self, graph: Graph, names: list[str]) -> None:
        """Give the inputs of a region the names of what it is given."""
        for value, name in zip(graph.inputs, names):
            self.names[value] = self.cast(name, value.type.dtype)

    def given(self, node: Node, args: tuple) -> list[str]:
        return [self.value(a) for a in args]

    def branch(self, graph: Graph, names: list[str]) -> Any:
        """A region without inputs of its own."""
        inner = Writer(self.onnx, self)
        inner.bind(graph, names)
        inner.graph(graph)
        outs = [inner.output(v) for v in graph.outputs]
        infos = [inner.info(n, v.type) for n, v in zip(outs, graph.outputs)]
        return self.onnx.helper.make_graph(inner.nodes, self.fresh(graph.name), [], infos)


def _if(w: Writer, node: Node) -> list[str]:
    names = w.given(node, node.args[1:])
    then, orelse = (w.branch(node.regions[n], names) for n in ("then", "orelse"))
    pred = w.emit("Reshape", w.value(node.args[0], torch.bool), w.constant([], torch.int64))
    outs = [w.fresh() for _ in node.outputs]
    if not outs:
        return []
    w.nodes.append(w.onnx.helper.make_node("If", [pred], outs, then_branch=then, else_branch=orelse))  # fmt: skip
    w.dtypes.update({o: v.type.dtype for o, v in zip(outs, node.outputs)})
    return outs


def _condition(w: Writer, graph: Graph, names: list[str]) -> str:
    w.bind(graph, names)
    w.graph(graph)
    return w.emit("Reshape", w.value(graph.outputs[0], torch.bool), w.constant([], torch.int64))


def _while(w: Writer, node: Node) -> list[str]:
    cond, body = node.regions["cond"], node.regions["body"]
    carried = node.kwargs["carried"]
    names = w.given(node, node.args)
    kinds = [v.type for v in node.outputs]
    names[:carried] = [w.cast(n, k.dtype) for n, k in zip(names, kinds)]
    first = _condition(w, cond, names)
    inner = Writer(w.onnx, w)
    trip, going = inner.fresh("trip"), inner.fresh("going")
    state = [inner.fresh("state") for _ in range(carried)]
    inner.dtypes.update({s: k.dtype for s, k in zip(state, kinds)})
    inner.bind(body, [*state, *names[carried:]])
    inner.graph(body)
    new = [inner.output(v) for v in body.outputs]
    again = inner.emit("Identity", _condition(inner, cond, [*new, *names[carried:]]))
    declare = w.onnx.helper.make_tensor_value_info
    given = [declare(trip, ELEMENTS[torch.int64], []), declare(going, ELEMENTS[torch.bool], [])]
    given += [inner.info(s, k) for s, k in zip(state, kinds)]
    made = [declare(again, ELEMENTS[torch.bool], [])] + [inner.info(n, k) for n, k in zip(new, kinds)]  # fmt: skip
    loop = w.onnx.helper.make_graph(inner.nodes, w.fresh("body"), given, made)
    outs = [w.fresh() for _ in kinds]
    w.nodes.append(w.onnx.helper.make_node("Loop", ["", first, *names[:carried]], outs, body=loop))
    w.dtypes.update({o: k.dtype for o, k in zip(outs, kinds)})
    return outs


def _call(w: Writer, node: Node) -> list[str]:
    graph = node.regions["function"]
    w.bind(graph, w.given(node, node.args))
    w.graph(graph)
    return [w.name(v) for v in graph.outputs]


_REGIONS = {"If": _if, "While": _while, "Call": _call}
