"""The nodes of a loop that is one kernel as Triton expressions: pointwise ops, folds of the whole vector, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..graph.ir import Node, Value
from . import triton_ops
from .creators import CREATORS
from .loop_formulas import Formulas, dtype_of, size_of
from .loop_ir import DIVISION_BY_ZERO, ITEM_SIZES, Expr, Unsupported, ordered
from .pointwise import ROWS
from .reductions import REDUCERS
from .triton_ops import TYPES, start, typed
from .triton_text import failing, operation


class Expressions:
    """Texts of a node's formula. The class that writes the kernel has the names of values, lines, and what fails."""

    form: str
    partial: bool
    always: bool
    spread: frozenset[Value]
    formulas: Formulas
    names: dict[Value, str]
    helpers: dict[str, None]
    fresh: Callable[[], str]
    line: Callable[[str], None]
    _set: Callable[[Value, str], None]
    _fail: Callable[[str, int], None]

    def is_vector(self, value: Value) -> bool:
        return size_of(value) > 1

    def _formula(self, node: Node) -> None:
        if not (node.op in ROWS or node.op in REDUCERS or node.op in CREATORS):
            raise Unsupported(f"{node.op} in a kernel's loop")
        if len(node.outputs) != 1:
            raise Unsupported(f"{node.op} with several outputs")
        out = node.outputs[0]
        if node.op in ROWS:
            self._check_shapes(node)
        elif not self.spread.isdisjoint((*node.inputs, out)):
            raise Unsupported(f"{node.op} of a vector that is broadcast")
        values = {str(id(v)): v for v in node.inputs}
        term = self.formulas.formula(node).expr
        texts: dict[Expr, tuple[str, bool]] = {}
        for e in ordered([term]):
            texts[e] = self._expression(e, texts, values)
        text, block = texts[term]
        if self.is_vector(out) and not block:
            text = f"tl.full([XBLOCK], {text}, {TYPES[dtype_of(out)]})"
        self._set(out, text)

    def _check_shapes(self, node: Node) -> None:
        """All vectors have the shape of the largest ones, or are broadcast to it."""
        shape = node.outputs[0].type.shape
        if self.spread:
            return
        for v in node.inputs:
            if self.is_vector(v) and v.type.shape != shape:
                raise Unsupported("vectors that broadcast")

    def _expression(self, e: Expr, texts: dict, values: Mapping[str, Value]) -> tuple[str, bool]:
        """(variable or text, whether it is a block) of an expression."""
        if e.op == "variable":
            value = values[e.name]
            return self.names[value], self.is_vector(value)
        if e.op == "const":
            return typed(e.value, e.dtype), False
        args = [texts[a][0] for a in e.args]
        block = any(texts[a][1] for a in e.args)
        if e.op == "reduce":
            return self._reduce(e, args[0], block), False
        if e.op in ("index", "load", "scalar", "scan", "check_index"):
            raise Unsupported(f"{e.op} in a kernel's loop")
        if failing(e):
            bad = f"{args[1]} == 0"
            if block and texts[e.args[1]][1]:
                bad = f"tl.max((({bad}){' & mask' if self.partial else ''}).to(tl.int32), 0) > 0"
            self._fail(bad, DIVISION_BY_ZERO)
        text, helpers = operation(e, args)
        self.helpers.update(dict.fromkeys(helpers))
        name = self.fresh()
        self.line(f"{name} = {text}")
        return name, block

    def _reduce(self, e: Expr, x: str, block: bool) -> str:
        dtype = e.args[0].dtype
        if self.form == "blocks" and e.name not in ("any", "all"):
            raise Unsupported("a reduction in a loop over blocks")
        if self.always:
            return typed(e.name == "any", "bool")
        if not block:
            x = f"tl.full([XBLOCK], {x}, {TYPES[dtype]})"
        if self.partial:
            x = f"tl.where(mask, {x}, tl.full([], {start(e.name, dtype)}, {TYPES[dtype]}))"
        name = self.fresh()
        if e.name in ("any", "all"):
            word = "max" if e.name == "any" else "min"
            text = f"tl.{word}(({x}).to(tl.int32), 0) != 0"
        elif e.name == "sum" and ITEM_SIZES[dtype] >= 4:
            text = f"tl.sum({x}, 0)"
        else:
            helper = triton_ops.COMBINE[e.name]
            self.helpers[helper] = None
            text = f"tl.reduce({x}, 0, _{helper})"
        self.line(f"{name} = {text}")
        return name
