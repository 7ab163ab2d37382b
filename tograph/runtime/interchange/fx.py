"""A graph as a ``torch.fx.GraphModule``: ATen ops, ``torch.cond`` and ``torch.while_loop``; accepted by ``torch.export``.

Model. Every value is a tensor: Python numbers of the graph are 0-d tensors (int64, float64, bool), and an op that takes one as
a number gets the form that takes a tensor. Captured tensors are attributes of the module. Branches and loop bodies are
modules of their own that take all they use as operands; a result of theirs never is an operand (it is cloned), as the
higher-order ops demand.

Not there: prints, assertions, exceptions, lists, optionals, writes inside of branches and loops.
"""

from __future__ import annotations

import importlib
import keyword
import operator
from collections.abc import Callable
from typing import Any

import torch

from ...errors import InterchangeError
from ..ir import Graph, Node, Value, map_values
from ..ops import OpaqueObject, overload
from ..types import ScalarType, TensorType
from .numbers import LOWER, NUMBER_ARGUMENTS, Emit

aten = torch.ops.aten


def to_fx(graph: Graph, captured: list[torch.Tensor]) -> Any:
    """The module: it takes the tensors of the arguments and returns a tuple of the graph's outputs, flat.

    Raises InterchangeError for an op that has no counterpart.
    """
    fx = importlib.import_module("torch.fx")
    root = torch.nn.Module()
    count = len(graph.inputs) - len(captured)
    names = []
    for i, x in enumerate(captured):
        name = f"captured_{i}"
        if isinstance(x, torch.nn.Parameter):
            root.register_parameter(name, x)
        else:
            root.register_buffer(name, x)
        names.append(name)
    writer = _Writer(fx, root, graph.name)
    labels = _labels(graph.input_names[:count], count)
    for value, label in zip(graph.inputs[:count], labels):
        writer.env[value] = writer.graph.placeholder(label)
    for value, name in zip(graph.inputs[count:], names):
        writer.env[value] = writer.graph.get_attr(name)
    writer.nodes(graph)
    return writer.finish([writer.env[v] for v in graph.outputs])


def _labels(names: list[str], count: int) -> list[str]:
    """A parameter name for each input: the user's where it is one and free."""
    out: list[str] = []
    for i, name in enumerate([*names, *[""] * (count - len(names))]):
        free = name.isidentifier() and not keyword.iskeyword(name) and name not in out
        out.append(name if free else f"x{i}")
    return out


class _Writer:
    """One fx graph being written."""

    def __init__(self, fx: Any, root: torch.nn.Module, name: str, nested: bool = False):
        self.fx, self.root, self.name, self.nested = fx, root, name, nested
        self.graph = fx.Graph()
        self.env: dict[Value, Any] = {}
        self.count = 0

    def emit(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return self.graph.call_function(function, args, kwargs)

    def finish(self, outputs: list[Any]) -> Any:
        inputs = {n for n in self.graph.nodes if n.op in ("placeholder", "get_attr")}
        given: set[Any] = set()
        for i, out in enumerate(outputs):
            if self.nested and (out in inputs or out in given):
                outputs[i] = self.emit(aten.clone.default, out)
            given.add(out)
        self.graph.output(tuple(outputs))
        return self.fx.GraphModule(self.root, self.graph, self.name)

    def attribute(self, x: Any, prefix: str) -> Any:
        """A module or a constant tensor as an attribute."""
        name = f"{prefix}_{self.count}"
        self.count += 1
        if isinstance(x, torch.Tensor):
            self.root.register_buffer(name, x, persistent=False)
        else:
            self.root.add_module(name, x)
        return self.graph.get_attr(name)

    def nodes(self, graph: Graph) -> None:
        for node in graph.nodes:
            made = self.node(node)
            if len(node.outputs) == 1:
                self.env[node.outputs[0]] = made
            else:
                for i, value in enumerate(node.outputs):
                    self.env[value] = self.emit(operator.getitem, made, i)

    def node(self, node: Node) -> Any:
        special = _SPECIAL.get(node.op)
        if special is not None:
            return special(self, node)
        if node.op.startswith(("aten.", "op.")):
            return self._torch(node)
        lower = LOWER.get(node.op)
        if lower is None:
            raise InterchangeError("torch.fx", node.op, node.location)
        args = map_values(self.env.__getitem__, node.args)
        return lower(Emit(self.emit, node), *args)

    def _torch(self, node: Node) -> Any:
        args = map_values(self.env.__getitem__, node.args)
        kwargs = map_values(self.env.__getitem__, node.kwargs)
        function = overload(node.op)
        staged = [v for v in node.inputs if isinstance(v.type, ScalarType)]
        if any(isinstance(x, OpaqueObject) for x in (*args, *kwargs.values())):
            raise InterchangeError("torch.fx", node.op, node.location)
        if not staged:
            return self._listed(node, self.emit(function, *args, **kwargs))
        lower = NUMBER_ARGUMENTS.get(node.op)
        if lower is not None:
            return lower(Emit(self.emit, node), *args, **kwargs)
        for argument, given in zip(function._schema.arguments, node.args):
            if isinstance(given, Value) and given in staged and str(argument.type) != "Tensor":
                raise InterchangeError("torch.fx", f"{node.op} with a number that is known only when the graph runs", node.location)  # fmt: skip
        made = self.emit(function, *args, **kwargs)
        kind = node.outputs[0].type
        if len(node.outputs) == 1 and isinstance(kind, TensorType):
            made = self.emit(aten._to_copy.default, made, dtype=kind.dtype)
        return made

    def _listed(self, node: Node, made: Any) -> Any:
        """An op that returns a list of one tensor."""
        returns = overload(node.op)._schema.returns
        one = (
            len(node.outputs) == 1 and len(returns) == 1 and str(returns[0].type) == "List[Tensor]"
        )
        return self.emit(operator.getitem, made, 0) if one else made

    def module(self, graph: Graph, name: str, tensor: bool = False) -> Any:
        """A region as a module of its own; ``tensor``: it returns one tensor, not a tuple."""
        inner = _Writer(self.fx, torch.nn.Module(), name, nested=True)
        for i, value in enumerate(graph.inputs):
            inner.env[value] = inner.graph.placeholder(f"x{i}")
        inner.nodes(graph)
        outputs = [inner.env[v] for v in graph.outputs]
        if not tensor:
            return inner.finish(outputs)
        pred = inner.emit(aten._to_copy.default, outputs[0], dtype=torch.bool)
        inner.graph.output(inner.emit(aten.reshape.default, pred, []))
        return self.fx.GraphModule(inner.root, inner.graph, name)

    def operands(self, node: Node, args: tuple) -> list[Any]:
        """What a region is given; a constant is a 0-d tensor, and nothing is given twice."""
        out: list[Any] = []
        for arg in args:
            x = self.env[arg] if isinstance(arg, Value) else Emit(self.emit, node).number(arg)
            out.append(self.emit(aten.clone.default, x) if x in out else x)
        return out


def _higher(name: str) -> Any:
    importlib.import_module("torch._higher_order_ops")
    return getattr(torch.ops.higher_order, name)


def _unstated(node: Node) -> None:
    for region in node.regions.values():
        for inner in region.nodes:
            if inner.op == "tg.assign":
                raise InterchangeError("torch.fx", "a write inside of a branch or loop (tg.assign)", inner.location)  # fmt: skip


def _if(self: _Writer, node: Node) -> Any:
    _unstated(node)
    pred = self.emit(aten.reshape.default, self.env[node.args[0]], [])
    then, orelse = (self.attribute(self.module(g, g.name), g.name) for g in node.regions.values())
    given = tuple(self.operands(node, node.args[1:]))
    made = self.emit(_higher("cond"), pred, then, orelse, given)
    return self.emit(operator.getitem, made, 0) if len(node.outputs) == 1 else made


def _while(self: _Writer, node: Node) -> Any:
    _unstated(node)
    cond = self.attribute(self.module(node.regions["cond"], "cond", tensor=True), "cond")
    body = self.attribute(self.module(node.regions["body"], "body"), "body")
    given = self.operands(node, node.args)
    carried = node.kwargs["carried"]
    made = self.emit(_higher("while_loop"), cond, body, tuple(given[:carried]), tuple(given[carried:]))  # fmt: skip
    return self.emit(operator.getitem, made, 0) if len(node.outputs) == 1 else made


def _call(self: _Writer, node: Node) -> Any:
    graph = node.regions["function"]
    for value, x in zip(graph.inputs, self.operands(node, node.args)):
        self.env[value] = x
    self.nodes(graph)
    outs = [self.env[v] for v in graph.outputs]
    return outs[0] if len(outs) == 1 else outs


def _assign(self: _Writer, node: Node) -> Any:
    target, value = (self.env[v] for v in node.args)
    return self.emit(aten.copy_.default, self.emit(aten.detach.default, target), value)


def _constant(self: _Writer, node: Node) -> Any:
    data, dtype, device = node.args
    x = torch.tensor(data, dtype=dtype, device=device)
    if x.dim() == 0:
        return self.emit(aten.full.default, [], data, dtype=dtype, device=device)
    return self.emit(aten.clone.default, self.attribute(x, "constant"))


_SPECIAL: dict[str, Callable[[_Writer, Node], Any]] = {
    "If": _if, "While": _while, "Call": _call, "tg.assign": _assign, "tg.constant": _constant,
}  # fmt: skip
