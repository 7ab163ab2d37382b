"""Writing a graph whose values are tensors of fixed size and numbers, from one whose values are not: the frame of ``bounded``.

``Bounding`` walks a graph and its regions, and keeps for each old value its ``Rep``: the parts that stand for it. An op is
written by its handler, where a table has one, or as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ..graph import ops
from ..graph.families import FAILURES
from ..graph.ir import Graph, Node, Value, map_values
from ..graph.ordering import node_effects
from ..graph.types import BOOL, INT, ScalarType, TensorType, Type, is_open
from ..kernels.loop_ir import Unsupported
from .bounding_regions import Regions
from .forms import Form, Padded, Plain, Rep
from .resume import HOST_OPS
from .steps import located

Handler = Callable[["Bounding", Node], list[Rep]]


def adder(table: dict[str, Handler]) -> Callable[..., Callable[[Handler], Handler]]:
    """A decorator that puts a function into a table, under the names of ops."""

    def handler(*names: str) -> Callable[[Handler], Handler]:
        def add(function: Handler) -> Handler:
            table.update(dict.fromkeys(names, function))
            return function

        return add

    return handler


@dataclass
class Bounding(Regions):
    """Writes new nodes at the end of ``nodes``. ``env``: what stands for the old values; ``current``: variables' new values."""

    device: str
    capacity: int
    arrays: bool
    calls: bool  # whether the host calls Python functions
    handlers: Mapping[str, Handler]
    nodes: list[Node] = field(default_factory=list)
    env: dict[Value, Rep] = field(default_factory=dict)
    current: dict[Value, Rep] = field(default_factory=dict)
    known: dict[Any, Value] = field(default_factory=dict)
    multiples: dict[Value, tuple[Value, int]] = field(default_factory=dict)
    location: Any = None
    largest: dict[Value, int] = field(default_factory=dict)  # of numbers that are sizes
    tried: list[Graph] = field(default_factory=list)  # kept, as ``known`` goes by their identity
    graph: Graph | None = None  # the old graph whose nodes are written

    # ---- writing nodes

    def emit(self, op: str, args: tuple, *types: Type, **kwargs: Any) -> Any:
        """A new node; its output, or a tuple of them. What is computed with numbers is computed once in a graph."""
        key = (id(self.nodes), op, tuple(a if isinstance(a, Value) else repr(a) for a in args))
        once = op.startswith("py.") and not kwargs and ops.lookup(op).effects.mergeable
        if once and key in self.known:
            return self.known[key]
        node = Node(op, args, kwargs, types, location=self.location)
        self.nodes.append(node)
        if once:
            self.known[key] = node.outputs[0]
        return node.outputs[0] if len(types) == 1 else tuple(node.outputs)

    def tensor(self, dtype: torch.dtype, *shape: int) -> TensorType:
        return TensorType(dtype, shape, self.device)

    def require(self, test: Value) -> None:
        """Fail where a number is false."""
        self.position(self.emit("py.int", (self.emit("py.not", (test,), BOOL),), INT), 1)

    def same(self, n: Any, m: Any) -> bool:
        """Whether two sizes are equal; where only the run knows, it fails if they are not."""
        if n is m or (type(n) is int and type(m) is int):
            return n == m
        self.require(self.emit("py.eq", (n, m), BOOL))
        return True

    def position(self, i: Any, n: Any) -> Any:
        """``i`` counted from the start of ``n`` items; fails out of range."""
        if type(i) is int and type(n) is int and -n <= i < n:
            return i % n
        return self.emit("py.position", (i, n), INT)

    def number(self, op: str, a: Any, b: Any) -> Any:
        """A sum, difference or product of ints, some of which are known."""
        known = {"py.add": int.__add__, "py.sub": int.__sub__, "py.mul": int.__mul__}
        if type(a) is int and type(b) is int:
            return known[op](a, b)
        if op == "py.mul" and isinstance(a, Value) and type(b) is int:
            return self.multiple(a, b)
        return self.emit(op, (a, b), INT)

    def multiple(self, n: Value, factor: int) -> Any:
        """``n * factor``, remembered as that: sizes are compared."""
        n, before = self.multiples.get(n, (n, 1))
        factor *= before
        if factor == 1:
            return n
        made = self.emit("py.mul", (n, factor), INT)
        self.multiples[made] = (n, factor)
        return made

    def undefined(self, kind: TensorType) -> Value:
        """Memory with any content."""
        return self.emit("aten.empty.memory_format", (list(kind.shape),), kind, dtype=kind.dtype, device=torch.device(kind.device))  # fmt: skip

    def zeros(self, kind: TensorType) -> Value:
        return self.emit("aten.zeros.default", (list(kind.shape),), kind, dtype=kind.dtype, device=torch.device(kind.device))  # fmt: skip

    def sized(self, x: Value, sizes: dict[int, Any]) -> Rep:
        """A tensor of which the dims in ``sizes`` have these sizes; ints there are not open."""
        dims = tuple(
            sorted(d for d, n in sizes.items() if isinstance(n, Value) or n != x.type.shape[d])
        )
        if not dims:
            return Rep(Plain(x.type), [x])
        self._note(x.type, {d: sizes[d] for d in dims})
        return Rep(Padded(x.type, dims), [x, *(sizes[d] for d in dims)])

    def _note(self, kind: TensorType, sizes: Mapping[int, Any]) -> None:
        """What the largest sizes of a tensor tell of numbers."""
        for d, n in sizes.items():
            if isinstance(n, Value):
                self.largest[n] = min(kind.shape[d] or 0, self.largest.get(n, kind.shape[d] or 0))

    def most(self, n: Any) -> int:
        """The largest that a size can be. One that nothing is known of has room as a list has; the run fails where that is too little."""
        if not isinstance(n, Value):
            return n
        if n not in self.largest:
            self.require(self.emit("py.ge", (n, 0), BOOL))
            self.room(n, self.capacity + 1)
            self.largest[n] = self.capacity
        return self.largest[n]

    def room(self, i: Any, n: int) -> Any:
        """The place of a new item in memory for ``n``; fails where there is no room."""
        return i if type(i) is int and i < n else self.emit("py.room", (i, n), INT)

    def as_value(self, graph: Graph, part: Any, kind: Type) -> Value:
        """A part as a value that a graph can give."""
        if isinstance(part, Value):
            return part
        assert isinstance(kind, ScalarType)
        graph.nodes.append(Node("py.constant", (part,), {}, [kind], location=self.location))
        return graph.nodes[-1].outputs[0]

    def of(self, x: Any) -> Rep:
        """What stands for an argument."""
        if isinstance(x, Value):
            return self.env[x]
        if isinstance(x, (bool, int, float)):
            return Rep(Plain(ScalarType(type(x))), [x])
        raise Unsupported(f"a constant {x!r} as a value")

    def plain(self, x: Any) -> Any:
        """An argument that has one part."""
        if not isinstance(x, Value):
            return x
        found = self.env[x]
        if not isinstance(found.form, Plain):
            raise Unsupported(f"a value of type {x.type}")
        return found.value

    # ---- graphs

    def enter(self, graph: Graph, v: Value, form: Form) -> None:
        """Inputs for the parts of an old input."""
        made = [Value(t) for t in form.types]
        graph.inputs += made
        if isinstance(form, Padded):
            self._note(form.type, dict(zip(form.dims, made[1:])))
        self.env[v] = Rep(form, list(made))

    def run(self, old: Graph, new: Graph) -> list[Rep]:
        """Write the nodes of ``old`` into ``new``; what stands for its outputs."""
        before, self.nodes = self.nodes, new.nodes
        outputs = self.inline(old)
        self.nodes = before
        return outputs

    def inline(self, old: Graph) -> list[Rep]:
        """Write the nodes of ``old`` here; what stands for its outputs."""
        around, self.graph = self.graph, old
        for node in old.nodes:
            self.location = node.location or self.location
            for v, rep in zip(node.outputs, self.node(node), strict=True):
                self.env[v] = rep
        self.graph = around
        return [self.of(v) for v in old.outputs]

    def raises(self, node: Node) -> bool:
        """Whether the graph that a node is in ends in an error behind it."""
        assert self.graph is not None
        behind = self.graph.nodes[self.graph.nodes.index(node) :]
        return any(n.op in FAILURES for n in behind)

    def node(self, node: Node) -> list[Rep]:
        try:
            if node.op in self.REGIONS:
                return self.REGIONS[node.op](self, node)
            if node.op in self.handlers:
                return self.handlers[node.op](self, node)
            return self.closed(node)
        except Unsupported as why:
            raise why if ":" in str(why) else Unsupported(located(node.location, str(why))) from why

    def closed(self, node: Node) -> list[Rep]:
        """A node whose values all are plain."""
        host = node_effects(node).io or not node.outputs
        if node.regions or (host and node.op not in HOST_OPS):
            raise Unsupported(f"{node.op} runs on the host")
        if any(isinstance(self.env[v].form, Padded) for v in node.inputs):
            raise Unsupported(f"{node.op} of a size that is known only at run time")
        args, kwargs = map_values(self.plain, node.args), map_values(self.plain, node.kwargs)
        if any(is_open(v.type) for v in node.outputs):
            raise Unsupported(f"{node.op} gives a size that is known only at run time")
        made = self.emit(node.op, args, *(v.type for v in node.outputs), **kwargs)
        made = made if isinstance(made, tuple) else (made,)
        return [Rep(Plain(v.type), [m]) for v, m in zip(node.outputs, made, strict=True)]
