"""Making expressions of the loop IR: hash-consed, so that equal expressions are one, with Python's operators.

``Term`` wraps an ``Expr`` so that formulas read as they are written on paper: ``x / (1 + (-x).exp())``. A Python number
beside a term takes the term's dtype. No operator here promotes: both sides have one dtype, which ``Maker.cast`` gives.
"""

from __future__ import annotations

import math
from typing import Any

from .loop_ir import FLOATS, TESTS, Affine, Expr, Unsupported, rounded


class Maker:
    """Hands out expressions; two with the same content are the same object."""

    def __init__(self) -> None:
        self._known: dict[Any, Expr] = {}

    def make(self, op: str, dtype: str, args: tuple[Expr, ...] = (), **fields: Any) -> Expr:
        value = fields.get("value")
        exact = (type(value), repr(value)) if value is not None else None  # tells 0.0, -0.0 and 0
        key = (op, dtype, args, exact, fields.get("name"), fields.get("address"))
        found = self._known.get(key)
        if found is None:
            found = Expr(op, dtype, args, number=len(self._known), **fields)
            self._known[key] = found
        return found

    def term(self, e: Expr) -> Term:
        return Term(self, e)

    def const(self, value: Any, dtype: str) -> Term:
        """A constant: rounded to ``dtype`` by the renderer; integers wrap."""
        if isinstance(value, complex):
            raise Unsupported("a complex number")
        if dtype == "bool":
            value = bool(value)
        elif dtype in FLOATS:
            value = float(value)
        elif not math.isfinite(value):
            raise Unsupported(f"{value} as an integer")
        else:
            value = int(value)
        return Term(self, self.make("const", dtype, value=value))

    def index(self, address: Affine) -> Term:
        """The value of an affine expression of the loop variables, as i64."""
        return Term(self, self.make("index", "i64", address=address))

    def reduce(self, kind: str, x: Term, dtype: str | None = None) -> Term:
        return Term(self, self.make("reduce", dtype or x.dtype, (x.expr,), name=kind))

    def scan(self, kind: str, x: Term) -> Term:
        return Term(self, self.make("scan", x.dtype, (x.expr,), name=kind))


class Term:
    """An expression with operators. Comparisons give bool terms."""

    __slots__ = ("expr", "maker")
    __hash__ = None

    def __init__(self, maker: Maker, expr: Expr):
        self.maker, self.expr = maker, expr

    @property
    def dtype(self) -> str:
        return self.expr.dtype

    @property
    def floating(self) -> bool:
        return self.dtype in FLOATS

    def of(self, other: Any) -> Expr:
        """``other`` as an expression of this term's dtype."""
        return other.expr if isinstance(other, Term) else self.maker.const(other, self.dtype).expr

    def op(self, name: str, *others: Any) -> Term:
        """A pointwise op on this term and others of its dtype."""
        args = (self.expr, *map(self.of, others))
        dtype = "bool" if name in TESTS else self.dtype
        return Term(self.maker, self.maker.make(name, dtype, args))

    def cast(self, dtype: str) -> Term:
        """The value in another dtype: C's conversion; to bool it is ``!= 0``."""
        if dtype == self.dtype:
            return self
        if self.expr.op == "const" and dtype in ("f32", "f64") and self.dtype != "bool":
            value = self.expr.value
            exact = rounded(value, self.dtype) if self.floating else value
            return self.maker.const(exact, dtype)
        if dtype == "bool":
            return self.op("ne", 0)
        return Term(self.maker, self.maker.make("cast", dtype, (self.expr,)))

    def where(self, then: Any, orelse: Any) -> Term:
        """``then`` where this bool term is true."""
        typed = then if isinstance(then, Term) else orelse
        args = (self.expr, typed.of(then), typed.of(orelse))
        return Term(self.maker, self.maker.make("select", typed.dtype, args))

    def fma(self, factor: Any, addend: Any) -> Term:
        """``self * factor + addend`` with one rounding where the machine has it."""
        return self.op("fma", factor, addend)

    def __neg__(self) -> Term:
        return self.op("neg")

    def __add__(self, other: Any) -> Term:
        return self.op("add", other)

    def __sub__(self, other: Any) -> Term:
        return self.op("sub", other)

    def __mul__(self, other: Any) -> Term:
        return self.op("mul", other)

    def __truediv__(self, other: Any) -> Term:
        return self.op("div", other)

    def _right(self, name: str, other: Any) -> Term:
        return Term(self.maker, self.of(other)).op(name, self)

    def __radd__(self, other: Any) -> Term:
        return self._right("add", other)

    def __rsub__(self, other: Any) -> Term:
        return self._right("sub", other)

    def __rmul__(self, other: Any) -> Term:
        return self._right("mul", other)

    def __rtruediv__(self, other: Any) -> Term:
        return self._right("div", other)

    def __lt__(self, other: Any) -> Term:
        return self.op("lt", other)

    def __le__(self, other: Any) -> Term:
        return self.op("le", other)

    def __gt__(self, other: Any) -> Term:
        return self.op("gt", other)

    def __ge__(self, other: Any) -> Term:
        return self.op("ge", other)

    def __eq__(self, other: Any) -> Term:
        return self.op("eq", other)

    def __ne__(self, other: Any) -> Term:
        return self.op("ne", other)

    def __and__(self, other: Any) -> Term:
        return self.op("and", other)

    def __or__(self, other: Any) -> Term:
        return self.op("or", other)

    def __xor__(self, other: Any) -> Term:
        return self.op("xor", other)

    def __invert__(self) -> Term:
        return self.op("not" if self.dtype == "bool" else "bitnot")

    def __getattr__(self, name: str) -> Any:
        """Any other op of the loop IR by its name: ``x.exp()``, ``x.min(y)``."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *others: self.op(name, *others)
