"""A graph as an ONNX model with ``If`` and ``Loop``.

Model. Every value is a tensor; Python numbers are 0-d tensors (int64, double, bool). A region becomes a subgraph that sees
the names around it, as ONNX allows, so its inputs are the names of what it is given. A ``While`` is a ``Loop`` whose condition
is computed before the loop and at the end of its body. Captured tensors are initializers, with the values they have now.
One op of the graph is one entry of ``onnx_ops.TABLE`` or ``onnx_lists.TABLE``. A list is a sequence, an optional a flag and a
value. A tensor that is written into is one more output, ``NAME.next``: what it holds afterwards. A captured one is also an input,
with the value that it has now as its default, so that a caller can hand each call's result to the next.

Not there: prints, assertions, exceptions, random and complex numbers.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ...errors import InterchangeError
from ..graph.ir import Graph, Node, Value
from ..graph.rewrite import copied
from ..graph.types import ListType, ScalarType, TensorType, Type
from ..passes import optimize
from ..passes.inline import inline
from ..passes.prune import prune
from . import onnx_gradients, onnx_lists, onnx_ops, onnx_places, onnx_views
from .elements import close_elements
from .failures import Failure, failures
from .optionals import optionals
from .state import WRITE, cases, states
from .without import advice, without

SYSTEM = "ONNX"
_FILLED_BY = (onnx_gradients, onnx_places, onnx_views)  # more entries of ``onnx_ops.TABLE``

OPSET = 18
ELEMENTS = {
    torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 5, torch.int32: 6, torch.int64: 7, torch.bool: 9,
    torch.float16: 10, torch.float64: 11, torch.bfloat16: 16,
}  # fmt: skip


def prepared(graph: Graph, leave_out: Sequence[str] = ()) -> tuple[Graph, list[Failure]]:
    """The graph in the ops and values that ONNX has, and its checks: see ``failures``."""
    made = without(inline(copied(graph)), leave_out)
    made = optionals(cases(optimize(made, inference=False)), SYSTEM)
    checks = failures(made)
    return prune(close_elements(states(made, SYSTEM))), checks


def to_onnx(graph: Graph, captured: list[torch.Tensor], path: Any, leave_out: Sequence[str] = ()) -> None:  # fmt: skip
    """Write the model. Raises InterchangeError, at the user's line, for an op that has no entry.

    ``leave_out``: see ``without``. Needs the package ``onnx``.
    """
    onnx = importlib.import_module("onnx")
    count = len(graph.inputs) - len(captured)
    graph, checks = prepared(graph, leave_out)
    writer = Writer(onnx)
    code = graph.inputs.pop() if checks else None
    if code is not None:
        writer.names[code] = writer.constant(0)
    written = {n.args[0] for n in graph.nodes if n.op == WRITE} - {code}
    inputs, states_ = [], []
    for i, value in enumerate(graph.inputs):
        label = graph.input_names[i] if i < len(graph.input_names) else ""
        name = writer.name(value, label or (f"state_{i - count}" if value in written else ""))
        if i < count or value in written:
            inputs.append(writer.info(name, value.type))
        if i >= count:
            writer.initializers.append(writer.tensor(captured[i - count], name))
        if value in written:
            states_.append((value, f"{name}.next"))
    writer.graph(graph)
    failed = writer.names[code] if code is not None else None
    outputs = [(writer.output(v, "", writer.guarded(v, failed, checks)), v.type) for v in graph.outputs]  # fmt: skip
    outputs += [(writer.output(v, name, writer.guarded(v, failed, checks)), v.type) for v, name in states_]  # fmt: skip
    infos = [writer.info(name, kind) for name, kind in outputs]
    body = onnx.helper.make_graph(writer.nodes, graph.name, inputs, infos, writer.initializers)
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(
        body, opset_imports=opsets, producer_name="tograph", ir_version=9
    )
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def dtype_of(kind: Type) -> torch.dtype:
    """The dtype of a value, of its items for a list."""
    if isinstance(kind, ListType):
        return torch.float32 if kind.element is None else kind.element.dtype
    return kind.dtype


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
            self.dtypes[self.names[value]] = dtype_of(value.type)
        return self.names[value]

    def info(self, name: str, kind: Type) -> Any:
        """A name with its type, as ONNX declares it."""
        if isinstance(kind, TensorType):
            shape = [f"{name}_{i}" if n is None else n for i, n in enumerate(kind.shape)]
        elif isinstance(kind, ScalarType):
            shape = []
        elif isinstance(kind, ListType):
            items = kind.element.shape if isinstance(kind.element, TensorType) else ()
            return self.onnx.helper.make_tensor_sequence_value_info(name, self.element(dtype_of(kind)), items)  # fmt: skip
        else:
            raise self.error(f"a value of type {kind}")
        return self.onnx.helper.make_tensor_value_info(name, self.element(kind.dtype), shape)

    def element(self, dtype: torch.dtype) -> int:
        if dtype.is_complex:
            raise self.error(f"{dtype}", "Keep real and imaginary parts in tensors of their own.")
        if dtype not in ELEMENTS:
            raise self.error(f"the dtype {dtype}")
        return ELEMENTS[dtype]

    def error(self, what: str, advice: str = "") -> InterchangeError:
        return InterchangeError(SYSTEM, what, self.at.location if self.at else None, advice)

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
            if node.op == WRITE:
                self.write(node)
                continue
            made = self.node(node)
            for value, name in zip(node.outputs, made):
                self.names[value] = self.cast(name, dtype_of(value.type))

    def node(self, node: Node) -> list[str]:
        if node.op in _REGIONS:
            return _REGIONS[node.op](self, node)
        lower = onnx_ops.TABLE.get(node.op) or onnx_lists.TABLE.get(node.op)
        if lower is None:
            raise self.error(node.op, advice(node.op))
        made = lower(self, node, *node.args, **node.kwargs)
        return made if isinstance(made, list) else [made]

    def write(self, node: Node) -> None:
        """From here on the target is the value that is written into it."""
        target, value = node.args
        dtype = dtype_of(target.type)
        shape = self.emit("Shape", self.name(target), dtype=torch.int64)
        self.names[target] = self.emit("Expand", self.value(value, dtype), shape)

    def output(self, value: Value, wish: str = "", name: str = "") -> str:
        """A name that a node of this graph makes: outputs may not be inputs, nor names from around."""
        name = name or self.name(value)
        if not wish:
            return self.emit("Identity", name)
        self.nodes.append(self.onnx.helper.make_node("Identity", [name], [wish]))
        return wish

    def guarded(self, value: Value, failed: str | None, checks: list[Failure]) -> str:
        """The value, from a place that exists only where no check failed; the node that fails has the check's text as its name."""
        name = self.name(value)
        if failed is None:
            return name
        items = value.type if isinstance(value.type, ListType) else None
        out = name
        for i, check in enumerate(checks, 1):
            here = self.emit("Equal", failed, self.constant(i), dtype=torch.bool)
            at = self.cast(here, torch.int64)
            out = self._checked(out, at, f"{check.text}{_where(check)}", items)
        return out

    def _checked(self, name: str, at: str, label: str, items: ListType | None) -> str:
        """The value where ``at`` is 0; an error of the runtime otherwise."""
        label = f"{label} #{self.fresh('check')}"
        zero = self.fresh()
        places = self.constant([0])
        self.nodes.append(
            self.onnx.helper.make_node("Gather", [places, at], [zero], axis=0, name=label)
        )
        self.dtypes[zero] = torch.int64
        if items is not None:  # a loop of no iterations
            return onnx_lists.built(self, items, name, zero, lambda inner, i, items: items)
        shape = self.emit("Add", self.emit("Shape", name, dtype=torch.int64), zero)
        return self.emit("Reshape", name, shape, allowzero=1)

    def bind(self, graph: Graph, names: list[str]) -> None:
        """Give the inputs of a region the names of what it is given."""
        for value, name in zip(graph.inputs, names):
            self.names[value] = self.cast(name, dtype_of(value.type))

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


def _where(check: Failure) -> str:
    return (
        "" if check.location is None else f" ({Path(check.location[0]).name}:{check.location[1]})"
    )


def _if(w: Writer, node: Node) -> list[str]:
    names = w.given(node, node.args[1:])
    then, orelse = (w.branch(node.regions[n], names) for n in ("then", "orelse"))
    pred = w.emit("Reshape", w.value(node.args[0], torch.bool), w.constant([], torch.int64))
    outs = [w.fresh() for _ in node.outputs]
    if not outs:  # nothing in it has an effect: what would have is refused
        return []
    w.nodes.append(w.onnx.helper.make_node("If", [pred], outs, then_branch=then, else_branch=orelse))  # fmt: skip
    w.dtypes.update({o: dtype_of(v.type) for o, v in zip(outs, node.outputs)})
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
    names[:carried] = [w.cast(n, dtype_of(k)) for n, k in zip(names, kinds)]
    first = _condition(w, cond, names)
    inner = Writer(w.onnx, w)
    trip, going = inner.fresh("trip"), inner.fresh("going")
    state = [inner.fresh("state") for _ in range(carried)]
    inner.dtypes.update({s: dtype_of(k) for s, k in zip(state, kinds)})
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
    w.dtypes.update({o: dtype_of(k) for o, k in zip(outs, kinds)})
    return outs


_REGIONS = {"If": _if, "While": _while}
