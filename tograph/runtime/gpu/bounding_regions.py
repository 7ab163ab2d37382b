"""Branches and loops in graphs of tensors of fixed size and numbers, for ``bounding``: what they give has one form, whatever ran.

A value in another form than is wanted is fitted: into memory with room for more, or as an empty list or an absent optional of what it turns out to
be of. State of a loop that gets longer from iteration to iteration has room as a list has; one whose form an iteration finds out is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..graph.ir import Graph, Node, Value, map_values
from ..graph.ordering import graph_effects
from ..graph.rewrite import lead
from ..graph.types import ScalarType, TensorType, Type
from ..kernels.loop_ir import Unsupported
from .forms import Form, Items, Maybe, Nothing, Padded, Plain, Rep, joined


class Regions:
    """Needs of the class that writes nodes."""

    capacity: int
    nodes: list[Node]
    env: dict[Value, Rep]
    current: dict[Value, Rep]
    tried: list[Graph]
    graph: Graph | None
    emit: Callable[..., Any]
    tensor: Callable[..., TensorType]
    undefined: Callable[[TensorType], Value]
    zeros: Callable[[TensorType], Value]
    room: Callable[[Any, int], Any]
    of: Callable[[Any], Rep]
    plain: Callable[[Any], Any]
    run: Callable[[Graph, Graph], list[Rep]]
    enter: Callable[[Graph, Value, Form], None]
    as_value: Callable[[Graph, Any, Type], Value]

    def fit(self, rep: Rep, form: Form) -> list[Any]:
        """The parts of a value in another form that has room for it."""
        if rep.form == form:
            return rep.parts
        if isinstance(form, Padded) and isinstance(rep.form, (Plain, Padded)):
            return self._resized(rep, form)
        shapes = [getattr(f.type, "shape", ()) for f in (form, rep.form) if isinstance(f, Plain)]
        if len(shapes) == 2 and shapes[0] == shapes[1]:
            return rep.parts  # a number for a number of another type
        if isinstance(form, Maybe) and isinstance(rep.form, Maybe):
            return [*self.fit(Rep(rep.form.item, rep.parts[:-1]), form.item), rep.parts[-1]]
        if isinstance(form, Items) and isinstance(rep.form, Items) and isinstance(rep.form.item, Nothing):  # fmt: skip
            return [*map(self.zeros, form.types[:-1]), rep.parts[-1]]
        if isinstance(rep.form, Nothing):
            return [self.undefined(t) if isinstance(t, TensorType) else t.kind(0) for t in form.types]  # fmt: skip
        raise Unsupported("a value whose largest size changes in a loop or branch")

    def _resized(self, rep: Rep, form: Padded) -> list[Any]:
        """A tensor in memory of another largest size; fails where it has no room there."""
        x, kind, sizes = rep.value, rep.form.type, rep.sizes
        if any(isinstance(n, Value) and d not in form.dims for d, n in enumerate(sizes)):
            raise Unsupported("a value whose largest size changes in a loop or branch")
        for d, (n, most) in enumerate(zip(kind.shape, form.type.shape, strict=True)):
            if n <= most:
                continue
            if d not in form.dims:
                raise Unsupported("a value whose largest size changes in a loop or branch")
            sizes[d] = self.room(sizes[d], most + 1)
            kind = self.tensor(kind.dtype, *kind.shape[:d], most, *kind.shape[d + 1 :])
            x = self.emit("aten.slice.Tensor", (x, d, 0, most), kind)
        return [self.padded(x, kind, form.type), *(sizes[d] for d in form.dims)]

    def padded(self, x: Value, kind: TensorType, to: TensorType) -> Value:
        """``x`` with memory of any content after it."""
        for d, (n, most) in enumerate(zip(kind.shape, to.shape, strict=True)):
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
        places = list(graph_effects(node.regions["body"]).writes)
        if graph_effects(node.regions["cond"]).writes:
            raise Unsupported("a loop's condition that writes a variable")
        inside = node.regions["body"].inputs
        args = [self._opened(self.argument(a), v.type) for a, v in zip(node.args, inside)]
        before = self.nodes, self.current, self.graph
        try:
            return self._repeated(node, args, places)
        except (
            Unsupported
        ):  # with room for state that gets larger, or is a list or optional of something
            self.nodes, self.current, self.graph = before
            first = [a.form for a in args]
            grown = self._grown(node, args, places)
            if grown == first:
                raise
        args = [Rep(f, self.fit(a, f)) for a, f in zip(args, grown)]
        return self._repeated(node, args, places)

    def _opened(self, rep: Rep, kind: Type) -> Rep:
        """State whose size changes from iteration to iteration, in memory with room as a list has."""
        known = rep.form.type if isinstance(rep.form, Plain) else None
        if not isinstance(kind, TensorType) or not isinstance(known, TensorType) or None not in kind.shape:  # fmt: skip
            return rep
        dims = tuple(d for d, n in enumerate(kind.shape) if n is None)
        shape = tuple(max(self.capacity, n) if d in dims else n for d, n in enumerate(known.shape))
        form = Padded(replace(known, shape=shape), dims)
        return Rep(form, self.fit(rep, form))

    def _grown(self, node: Node, args: Sequence[Rep], places: Sequence[int]) -> list[Form]:
        """Forms of a loop's arguments that hold what an iteration makes of them too."""
        body, carried = node.regions["body"], node.kwargs["carried"]
        forms = [a.form for a in args]
        for _ in range(2):
            given = [Rep(f, a.parts if f == a.form else [Value(t) for t in f.types]) for a, f in zip(args, forms)]  # fmt: skip
            new, outputs, after = self.region(body, given, [body.inputs[p] for p in places], carried)  # fmt: skip
            self.tried.append(new)
            found = dict(zip([*range(carried), *places], [*outputs, *after]))
            forms = [self._widened(f, found[i].form) if i in found else f for i, f in enumerate(forms)]  # fmt: skip
        return forms

    def _widened(self, before: Form, after: Form) -> Form:
        """The form of both; a dim of two sizes has room for as many elements as a list for items."""
        made = joined(before, after)
        if isinstance(before, Padded):
            made = before if isinstance(made, Padded) and made.dims == before.dims else made
        if made != before and isinstance(made, Padded):
            shape = tuple(max(self.capacity, n) if d in made.dims else n for d, n in enumerate(made.type.shape))  # fmt: skip
            made = Padded(replace(made.type, shape=shape), made.dims)
        return made

    def _repeated(self, node: Node, args: Sequence[Rep], places: Sequence[int]) -> list[Rep]:
        """The loop with state of the forms of its arguments."""
        carried, cond, body = node.kwargs["carried"], node.regions["cond"], node.regions["body"]
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
            self.tried.append(new)
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

    REGIONS: dict[str, Any] = {"If": alternatives, "Case": alternatives, "While": loop}


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
