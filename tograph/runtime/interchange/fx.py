"""A graph as a ``torch.fx.GraphModule``: ATen ops, ``torch.cond`` and ``torch.while_loop``; accepted by ``torch.export``.

Model. Every value is a tensor: Python numbers of the graph are 0-d tensors (int64, float64, bool), and an op that takes one as
a number gets the form that takes a tensor. Captured tensors are attributes of the module. Branches and loop bodies are
modules of their own that take all they use as operands; a result of theirs never is an operand (it is cloned), as the
higher-order ops demand.

What has no such form is rewritten first (``prepared``): writes of branches and loops are their results, a ``Case`` is nested
branches, an optional a flag and a value, a list a tensor of rows and a length. An assertion or a raised exception is
``aten._assert_async.msg``: a RuntimeError that names the exception's type and text.

Not there: prints, staged ``try``, calls of Python.
"""

from __future__ import annotations

import importlib
import keyword
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import InterchangeError
from ..graph.ir import Graph, Node, Value, map_values
from ..graph.ops import OpaqueObject, overload
from ..graph.rewrite import copied
from ..graph.types import OBJECT, ScalarType, TensorType
from ..passes import optimize
from ..passes.inline import inline
from .elements import close_elements
from .failures import has_checks
from .list_rules import buffers
from .messages import exception_name, message
from .numbers import LOWER, NUMBER_ARGUMENTS, Emit
from .optionals import optionals
from .state import cases, states
from .without import advice, without

aten = torch.ops.aten


SYSTEM = "torch.fx"


def prepared(graph: Graph, list_capacity: int | None = None, leave_out: Sequence[str] = ()) -> Graph:  # fmt: skip
    """The graph in the ops and values that torch.fx has."""
    made = without(inline(copied(graph)), leave_out)
    made = states(cases(optimize(made, inference=False)), SYSTEM)
    made = buffers(close_elements(optionals(made, SYSTEM)), SYSTEM, list_capacity)
    return optimize(made, inference=False)


def to_fx(graph: Graph, captured: list[torch.Tensor], list_capacity: int | None = None, leave_out: Sequence[str] = ()) -> Any:  # fmt: skip
    """The module: it takes the tensors of the arguments and returns a tuple of the graph's outputs, flat.

    ``list_capacity``: how many items a list may have whose length nothing else bounds. ``leave_out``: see ``without``. Raises
    InterchangeError for an op that has no counterpart.
    """
    graph = prepared(graph, list_capacity, leave_out)
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
    _check_results(graph)
    return writer.finish([writer.env[v] for v in graph.outputs])


def _check_results(graph: Graph) -> None:
    """InterchangeError for a text among the results."""
    for v in graph.outputs:
        if str(OBJECT) in str(v.type):
            at = v.node.location if v.node is not None else None
            raise InterchangeError(SYSTEM, "a text that the graph makes, as a result", at)


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
        self.sizes: dict[Value, Any] = {}  # numbers that are sizes of tensors, as such
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
        return self.returning(tuple(outputs))

    def returning(self, results: Any) -> Any:
        """The module of what was written, with a tuple of results or one."""
        each = results if isinstance(results, tuple) else (results,)
        for out in each if self.nested else ():
            # torch 2.11 asks whether results of a loop's body share memory: by an example of each, and of that only its storage
            out.meta.setdefault("example_value", torch.empty(0, device="meta"))
        self.graph.output(results)
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
            if not node.outputs:
                continue
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
            raise InterchangeError(SYSTEM, node.op, node.location, advice(node.op))
        args = map_values(self.env.__getitem__, node.args)
        return lower(Emit(self.emit, node), *args)

    def _torch(self, node: Node) -> Any:
        args = map_values(self.env.__getitem__, node.args)
        kwargs = map_values(self.env.__getitem__, node.kwargs)
        function = overload(node.op)
        staged = [v for v in node.inputs if isinstance(v.type, ScalarType)]
        if any(isinstance(x, OpaqueObject) for x in (*args, *kwargs.values())):
            raise InterchangeError(SYSTEM, node.op, node.location)
        if not staged:
            return self._listed(node, self.emit(function, *args, **kwargs))
        lower = NUMBER_ARGUMENTS.get(node.op)
        if lower is not None:
            return lower(Emit(self.emit, node), *args, **kwargs)
        tensors = {a.name for a in function._schema.arguments if str(a.type) == "Tensor"}
        names = [a.name for a in function._schema.arguments]
        numbers = lambda name, tree, x: x if name in tensors else map_values(self.number, tree)  # noqa: E731
        args = tuple(map(numbers, names, node.args, args))
        kwargs = {k: numbers(k, node.kwargs[k], x) for k, x in kwargs.items()}
        made = self._listed(node, self.emit(function, *args, **kwargs))
        kind = node.outputs[0].type
        if (
            len(node.outputs) == 1
            and isinstance(kind, TensorType)
            and self._as_tensor(node, tensors)
        ):
            made = self.emit(aten._to_copy.default, made, dtype=kind.dtype)
        return made

    def _as_tensor(self, node: Node, tensors: set[str]) -> bool:
        """Whether a number is given where the op takes a tensor, which has a say in the dtype of the result."""
        names = [a.name for a in overload(node.op)._schema.arguments]
        return any(n in tensors and isinstance(a, Value) and isinstance(a.type, ScalarType) for n, a in zip(names, node.args))  # fmt: skip

    def number(self, value: Value) -> Any:
        """A number of the graph where an op takes a number and no tensor: the size that it is, or the tensor's item."""
        if not isinstance(value.type, ScalarType):
            return self.env[value]
        if value not in self.sizes:
            self.sizes[value] = self.emit(aten._local_scalar_dense.default, self.env[value])
        return self.sizes[value]

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
        if not outputs:  # a branch that only checks something
            outputs = [inner.emit(aten.full.default, [], False, dtype=torch.bool)]
        if not tensor:
            return inner.finish(outputs)
        pred = inner.emit(aten._to_copy.default, outputs[0], dtype=torch.bool)
        return inner.returning(inner.emit(aten.reshape.default, pred, []))

    def keep(self, node: Node, made: Any) -> Any:
        """The results of a region op. With checks inside, something with an effect uses one: torch.export drops it otherwise."""
        first = self.emit(operator.getitem, made, 0) if len(node.outputs) < 2 or has_checks(node) else None  # fmt: skip
        if has_checks(node):
            true = self.emit(aten.ones_like.default, first, dtype=torch.bool)
            self.emit(aten._assert_async.msg, self.emit(aten.all.default, true), "checked")
        return first if len(node.outputs) < 2 else made

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


def _if(self: _Writer, node: Node) -> Any:
    pred = self.emit(aten.reshape.default, self.env[node.args[0]], [])
    then, orelse = (self.attribute(self.module(g, g.name), g.name) for g in node.regions.values())
    given = tuple(self.operands(node, node.args[1:]))
    made = self.emit(_higher("cond"), pred, then, orelse, given)
    return self.keep(node, made)


def _while(self: _Writer, node: Node) -> Any:
    cond = self.attribute(self.module(node.regions["cond"], "cond", tensor=True), "cond")
    body = self.attribute(self.module(node.regions["body"], "body"), "body")
    given = self.operands(node, node.args)
    carried = node.kwargs["carried"]
    made = self.emit(_higher("while_loop"), cond, body, tuple(given[:carried]), tuple(given[carried:]))  # fmt: skip
    return self.keep(node, made)


def _assign(self: _Writer, node: Node) -> Any:
    target, value = (self.env[v] for v in node.args)
    return self.emit(aten.copy_.default, self.emit(aten.detach.default, target), value)


def _constant(self: _Writer, node: Node) -> Any:
    data, dtype, device = node.args
    x = torch.tensor(data, dtype=dtype, device=device)
    if x.dim() == 0:
        return self.emit(aten.full.default, [], data, dtype=dtype, device=device)
    return self.emit(aten.clone.default, self.attribute(x, "constant"))


def _assert(self: _Writer, node: Node) -> None:
    condition, kind, args = node.args[:3]
    given = self.env[condition] if isinstance(condition, Value) else condition
    if isinstance(condition, Value) and isinstance(condition.type, TensorType):
        given = self.emit(aten.all.default, given)
    self.emit(aten._assert_async.msg, Emit(self.emit, node).number(given), f"{exception_name(kind)}: {message(args)}")  # fmt: skip


def _size(self: _Writer, node: Node) -> Any:
    x, dim = node.args
    made = self.emit(aten.sym_size.int, self.env[x], dim)
    self.sizes[node.outputs[0]] = made
    return self.emit(aten.scalar_tensor.default, made, dtype=torch.int64)


def _raise(self: _Writer, node: Node) -> None:
    never = self.emit(aten.full.default, [], False, dtype=torch.bool)
    self.emit(aten._assert_async.msg, never, f"{exception_name(node.args[0])}: {message(node.args[1])}")  # fmt: skip


_SPECIAL: dict[str, Callable[[_Writer, Node], Any]] = {
    "If": _if, "While": _while, "tg.assign": _assign, "tg.constant": _constant, "tg.assert": _assert, "tg.raise": _raise,
    "py.size": _size, "py.format": lambda self, node: None,
}  # fmt: skip
