"""Variables, assertions and the numbers that sizes are, for ``bounding``: a variable is what it holds at this point."""

from __future__ import annotations

import torch

from ..graph.ir import Node, Value
from ..graph.types import BOOL, INT, TensorType
from ..kernels.loop_ir import Unsupported
from .bounding import Bounding, Handler, Rep, adder
from .forms import Items, Plain

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
    b.position(b.emit("py.int", (b.emit("py.not", (test,), BOOL),), INT), 1)
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
