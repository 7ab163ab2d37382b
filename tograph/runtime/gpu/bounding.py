"""Writing a graph whose values are tensors of fixed size and numbers, from one whose values are not: the frame of ``bounded``.

``Bounding`` walks a graph and its regions, and keeps for each old value its ``Rep``: the parts that stand for it. An op is
written by its handler, where a table has one, or as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..graph import ops
from ..graph.ir import Graph, Node, Value, map_values
from ..graph.ordering import graph_effects, node_effects
from ..graph.rewrite import lead
from ..graph.types import INT, ScalarType, TensorType, Type
from ..kernels.loop_ir import Unsupported
from .forms import Form, Padded, Plain, joined
from .resume import HOST_OPS


@dataclass
class Rep:
    """What stands for a value: the parts of a form, each a value or a number."""

    form: Form
    parts: list[Any]

    @property
    def value(self) -> Any:
        """The part of a plain value."""
        return self.parts[0]

    def size(self, d: int) -> Any:
        """The size of a tensor in a dim: an int, or a value that is one."""
        if isinstance(self.form, Padded) and d in self.form.dims:
            return self.parts[1 + self.form.dims.index(d)]
        return self.form.type.shape[d]

    @property
    def sizes(self) -> list[Any]:
        return [self.size(d) for d in range(len(self.form.type.shape))]


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
class Bounding:
    """Writes new nodes at the end of ``nodes``. ``env``: what stands for the old values; ``current``: variables' new values."""

    device: str
    capacity: int
    arrays: bool
    handlers: Mapping[str, Handler]
    nodes: list[Node] = field(default_factory=list)
    env: dict[Value, Rep] = field(default_factory=dict)
    current: dict[Value, Rep] = field(default_factory=dict)
    known: dict[Any, Value] = field(default_factory=dict)
    multiples: dict[Value, tuple[Value, int]] = field(default_factory=dict)
    location: Any = None

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
        return Rep(Padded(x.type, dims), [x, *(sizes[d] for d in dims)])

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
        self.env[v] = Rep(form, list(made))

    def run(self, old: Graph, new: Graph) -> list[Rep]:
        """Write the nodes of ``old`` into ``new``; what stands for its outputs."""
        before, self.nodes = self.nodes, new.nodes
        for node in old.nodes:
            self.location = node.location or self.location
            for v, rep in zip(node.outputs, self.node(node), strict=True):
                self.env[v] = rep
        self.nodes = before
        return [self.of(v) for v in old.outputs]

    def node(self, node: Node) -> list[Rep]:
        try:
            if node.op in _REGIONS:
                return _REGIONS[node.op](self, node)
            if node.op in self.handlers:
                return self.handlers[node.op](self, node)
            return self.closed(node)
        except Unsupported as why:
            raise why if ":" in str(why) else Unsupported(at_line(node, str(why))) from why

    def closed(self, node: Node) -> list[Rep]:
        """A node whose values all are plain."""
        host = node_effects(node).io or not node.outputs
        if node.regions or (host and node.op not in HOST_OPS):
            raise Unsupported(f"{node.op} runs on the host")
        if any(isinstance(self.env[v].form, Padded) for v in node.inputs):
            raise Unsupported(f"{node.op} of a size that is known only at run time")
        args, kwargs = map_values(self.plain, node.args), map_values(self.plain, node.kwargs)
        if any(isinstance(v.type, TensorType) and None in v.type.shape for v in node.outputs):
            raise Unsupported(f"{node.op} gives a size that is known only at run time")
        made = self.emit(node.op, args, *(v.type for v in node.outputs), **kwargs)
        made = made if isinstance(made, tuple) else (made,)
        return [Rep(Plain(v.type), [m]) for v, m in zip(node.outputs, made, strict=True)]

    # ---- regions

    def fit(self, rep: Rep, form: Form) -> list[Any]:
        """The parts of a value in another form that has room for it."""
        if rep.form == form:
            return rep.parts
        if isinstance(form, Padded) and isinstance(rep.form, (Plain, Padded)):
            return [
                self.padded(rep.value, rep.form.type, form.type),
                *(rep.size(d) for d in form.dims),
            ]
        if isinstance(form, Plain) and isinstance(rep.form, Plain):
            return rep.parts  # a number for a number of another type
        raise Unsupported("a value whose largest size changes in a loop or branch")

    def padded(self, x: Value, kind: TensorType, to: TensorType) -> Value:
        """``x`` with memory of any content after it."""
        for d, (n, most) in enumerate(zip(kind.shape, to.shape, strict=True)):
            if n > most:
                raise Unsupported("a size that grows from iteration to iteration")
            if n < most:
                shape = [*to.shape[: d + 1], *kind.shape[d + 1 :]]
                rest = self.undefined(
                    self.tensor(kind.dtype, *shape[:d], most - n, *shape[d + 1 :])
                )
                x = self.emit("aten.cat.default", ([x, rest], d), self.tensor(kind.dtype, *shape))
        return x

    def region(
        self, old: Graph, given: Sequence[Rep], written: Sequence[Value], carried: int = 0
    ) -> tuple[Graph, list[Rep], list[Rep]]:
        """(a new graph without outputs, what stands for the old outputs, for what the variables hold after it).

        ``given``: its arguments, of which the first ``carried`` change from iteration to iteration. Numbers among the others, such
        as the size of a list that is still empty, are as well known inside.
        """
        new = Graph(old.name)
        before, self.current = self.current, {}
        for i, (v, rep) in enumerate(zip(old.inputs, given, strict=True)):
            self.enter(new, v, rep.form)
            if i >= carried:
                known = zip(rep.parts, self.env[v].parts, strict=True)
                parts = [a if isinstance(a, (bool, int, float)) else b for a, b in known]
                self.env[v] = Rep(rep.form, parts)
        for v in written:
            self.current[v] = self.env[v]
        outputs = self.run(old, new)
        after = [self.current[v] for v in written]
        self.current = before
        return new, outputs, after

    def finish(self, graph: Graph, reps: Sequence[Rep], forms: Sequence[Form]) -> None:
        """Set the outputs of a region's graph, in these forms."""
        before, self.nodes = self.nodes, graph.nodes
        for rep, form in zip(reps, forms, strict=True):
            for part, kind in zip(self.fit(rep, form), form.types):
                graph.outputs.append(self.as_value(graph, part, kind))
        self.nodes = before

    def argument(self, x: Any) -> Rep:
        """What a region is given for an argument: of a variable, what it holds now."""
        return self.current[x] if isinstance(x, Value) and x in self.current else self.of(x)

    def alternatives(self, node: Node) -> list[Rep]:
        """If and Case."""
        start = lead(node)
        args = [self.argument(a) for a in node.args[start:]]
        places = sorted({p for g in node.regions.values() for p in graph_effects(g).writes})
        made = {}
        for name, graph in node.regions.items():
            written = [graph.inputs[p] for p in places]
            new, outputs, after = self.region(graph, args, written)
            made[name] = (new, [*outputs, *after])
        forms = [all_joined([reps[k].form for _, reps in made.values()]) for k in range(len(node.outputs) + len(places))]  # fmt: skip
        for new, reps in made.values():
            self.finish(new, reps, forms)
        given = tuple(p for a in args for p in a.parts)
        predicate = map_values(self.plain, node.args[:start])
        reps = self.regions(
            node, (*predicate, *given), {n: g for n, (g, _) in made.items()}, forms, {}
        )
        return self.store(node, places, start, reps)

    def loop(self, node: Node) -> list[Rep]:
        """While. Variables that its body writes are part of the state."""
        carried, cond, body = node.kwargs["carried"], node.regions["cond"], node.regions["body"]
        places = list(graph_effects(body).writes)
        if graph_effects(cond).writes:
            raise Unsupported("a loop's condition that writes a variable")
        args = [self.argument(a) for a in node.args]
        forms = [a.form for a in args]
        order = [
            *range(carried),
            *places,
            *(i for i in range(carried, len(args)) if i not in places),
        ]
        graphs = {}
        for name, graph in (("cond", cond), ("body", body)):
            reordered = Graph(graph.name)
            reordered.inputs = [graph.inputs[i] for i in order]
            reordered.nodes, reordered.outputs = graph.nodes, graph.outputs
            new, outputs, after = self.region(
                reordered,
                [args[i] for i in order],
                [graph.inputs[p] for p in places],
                carried + len(places),
            )
            if name == "body":
                self.finish(new, [*outputs, *after], [forms[i] for i in order[: carried + len(places)]])  # fmt: skip
            else:
                self.finish(new, outputs, [outputs[0].form])
            graphs[name] = new
        state = [forms[i] for i in order[: carried + len(places)]]
        given = tuple(p for i in order for p in self.fit(args[i], forms[i]))
        count = sum(len(f.types) for f in state)
        return self.store(
            node, places, 0, self.regions(node, given, graphs, state, {"carried": count})
        )

    def regions(
        self, node: Node, args: tuple, graphs: dict[str, Graph], forms: Sequence[Form], kwargs: dict
    ) -> list[Rep]:
        types = [t for f in forms for t in f.types]
        made = Node(node.op, args, kwargs, types, regions=graphs, location=node.location)
        self.nodes.append(made)
        same = _lockstep(made) if node.op == "While" else {}
        parts: Iterator[Any] = iter([same.get(v, v) for v in made.outputs])
        return [Rep(f, [next(parts) for _ in f.types]) for f in forms]

    def store(self, node: Node, places: Sequence[int], start: int, reps: list[Rep]) -> list[Rep]:
        """Keep what variables hold after a region; the reps of the node's own outputs."""
        for p, rep in zip(places, reps[len(node.outputs) :], strict=True):
            self.current[node.args[start + p]] = rep
        return reps[: len(node.outputs)]


_REGIONS: dict[str, Any] = {
    "If": Bounding.alternatives,
    "Case": Bounding.alternatives,
    "While": Bounding.loop,
}


def _lockstep(node: Node) -> dict[Value, Value]:
    """Numbers of a loop's state that begin equal and grow by the same step: for each the first of its kind.

    Lists that get an item in every iteration are of one size; ops on several of them need to know.
    """
    body = node.regions["body"]
    first: dict[Any, Value] = {}
    same: dict[Value, Value] = {}
    for out, start, before, after in zip(node.outputs, node.args, body.inputs, body.outputs):
        made = after.node
        steps = made is not None and made.op == "py.add" and made.args[0] is before and type(made.args[1]) is int  # fmt: skip
        if isinstance(out.type, ScalarType) and steps:
            key = (start if isinstance(start, Value) else repr(start), made.args[1])
            same[out] = first.setdefault(key, out)
    return same


def all_joined(forms: Sequence[Form]) -> Form:
    first, *rest = forms
    for form in rest:
        first = joined(first, form)
    return first


def at_line(node: Node, text: str) -> str:
    return f"{node.location[0]}:{node.location[1]}: {text}" if node.location else text
