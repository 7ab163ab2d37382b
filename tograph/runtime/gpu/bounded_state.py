"""Variables, choices, assertions and the numbers that sizes are, for ``bounding``: a variable is what it holds at this point.

A ``try`` is its body: what it would catch fails the whole run, which the host then does as it was written. So what a handler finds of the body is
nothing here, and so are changes of Python objects ahead of what may fail, which a call that does not fail makes at its end.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..graph.ir import Graph, Node, Value
from ..graph.types import BOOL, INT, ScalarType, TensorType, Type
from ..kernels.loop_ir import Unsupported
from .bounding import Bounding, Handler, Rep, adder
from .bounding_regions import all_joined
from .forms import Items, Nothing, Plain

HANDLERS: dict[str, Handler] = {}
handler = adder(HANDLERS)


@handler("tg.read")
def _read(b: Bounding, node: Node) -> list[Rep]:
    return [b.argument(node.args[0])]


@handler("tg.assign")
def _assign(b: Bounding, node: Node) -> list[Rep]:
    x, value = node.args
    rep = b.of(value)
    if rep.form != b.of(x).form:
        raise Unsupported("a variable that is set to a value of another size or type")
    b.current[x] = rep
    return []


@handler("tg.written")
def _written(b: Bounding, node: Node) -> list[Rep]:
    """A tensor's new content, which has the history of the old one for autograd."""
    return [b.of(node.args[1])]


@handler("tg.choose")
def _choose(b: Bounding, node: Node) -> list[Rep]:
    """One of several values by a number: branches that only choose."""
    tag, options = node.args
    if isinstance(node.outputs[0].type, ScalarType):
        return b.closed(node)
    reps = [b.of(x) for x in options]
    form = all_joined([r.form for r in reps])
    *rest, last = [b.fit(r, form) for r in reps]
    at = b.plain(tag)
    for i, parts in reversed(list(enumerate(rest))):
        test = b.emit("py.eq", (b.emit("py.int", (at,), INT), i), BOOL)
        last = _either(b, test, parts, last, form.types)
    return [Rep(form, last)]


def _either(b: Bounding, test: Value, then: Sequence[Value], orelse: Sequence[Value], kinds: Sequence[Type]) -> list[Value]:  # fmt: skip
    regions = {}
    for name, first in (("then", 0), ("orelse", len(kinds))):
        made = Graph(name)
        made.inputs = [Value(t) for t in (*kinds, *kinds)]
        made.outputs = made.inputs[first : first + len(kinds)]
        regions[name] = made
    node = Node("If", (test, *then, *orelse), {}, kinds, regions=regions, location=b.location)
    b.nodes.append(node)
    return list(node.outputs)


# ---- what fails


@handler("Try")
def _try(b: Bounding, node: Node) -> list[Rep]:
    body = node.regions["body"]
    for v, a in zip(body.inputs, node.args, strict=True):
        b.env[v] = b.of(a)
        if isinstance(a, Value) and a in b.current:
            b.current[v] = b.current[a]
    made = b.inline(body)
    for v, a in zip(body.inputs, node.args, strict=True):
        if v in b.current and isinstance(a, Value):
            b.current[a] = b.current.pop(v)
    return made


@handler("tg.cell_new")
def _cell_new(b: Bounding, node: Node) -> list[Rep]:
    return [Rep(Nothing(), [])]


@handler("tg.cell_set")
def _cell_set(b: Bounding, node: Node) -> list[Rep]:
    return []


@handler("tg.commit")
def _commit(b: Bounding, node: Node) -> list[Rep]:
    if b.calls and not b.raises(node):
        raise Unsupported("changes of Python objects that a Python function may see")
    return []


@handler("tg.assert")
def _assert(b: Bounding, node: Node) -> list[Rep]:
    rep = b.of(node.args[0])
    test = rep.value
    if not isinstance(rep.form, Plain):
        raise Unsupported("an assertion about a size that is known only at run time")
    if isinstance(rep.form.type, TensorType):
        if rep.form.type.shape:
            test = b.emit("aten.all.default", (test,), b.tensor(torch.bool))
        test = b.emit("py.bool", (test,), BOOL)
    b.require(test)
    return []


@handler("aten._linalg_check_errors.default")
def _check_errors(b: Bounding, node: Node) -> list[Rep]:
    """A matrix that has no solution or factor fails the run; the host says which."""
    codes = b.plain(node.args[0])
    wrong = b.emit("aten.any.default", (codes,), b.tensor(torch.bool))
    b.require(b.emit("py.not", (b.emit("py.bool", (wrong,), BOOL),), BOOL))
    return []


@handler("tg.raise")
def _raise(b: Bounding, node: Node) -> list[Rep]:
    b.emit("py.position", (1, 1), INT)
    return []


@handler("py.mul", "py.floordiv")
def _multiple(b: Bounding, node: Node) -> list[Rep]:
    """Products of a number and a constant, and their quotients, as sizes of views are."""
    n, factor = map(b.plain, node.args)
    if isinstance(n, Value) and n.type == INT and type(factor) is int and factor > 0:
        base, before = b.multiples.get(n, (n, 1))
        if node.op == "py.mul":
            return [Rep(Plain(INT), [b.multiple(n, factor)])]
        if before % factor == 0:
            return [Rep(Plain(INT), [b.multiple(base, before // factor)])]
    return b.closed(node)


@handler("py.size")
def _size(b: Bounding, node: Node) -> list[Rep]:
    rep = b.of(node.args[0])
    if isinstance(rep.form, Items) or not rep.parts:
        raise Unsupported("the size of a list's item")
    sizes = rep.sizes
    return [Rep(Plain(INT), [sizes[node.args[1] % len(sizes)]])]
