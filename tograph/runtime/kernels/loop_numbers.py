"""Python's numbers in loops that are one kernel: 64 bits, and an error code for what would leave them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..graph.ir import Node, Value
from . import triton_ops
from .loop_formulas import dtype_of
from .loop_ir import DIVISION_BY_ZERO, FLOATS, INDEX_OUT_OF_RANGE, Unsupported
from .triton_ops import typed

FULL = 5  # the error code of a list that has no room for another item
OVERFLOW = 4  # the error code of a number that leaves its type
HUGE = 'float("inf")'
EXACT = 1 << 53  # ints up to here are floats
_BITS = {"py.and_": "&", "py.or_": "|", "py.xor": "^"}
_NUMBERS = {"py.lt": "<", "py.le": "<=", "py.gt": ">", "py.ge": ">=", "py.eq": "==", "py.ne": "!="}


class Numbers:
    """Texts of ``py.*`` ops. The class that writes the kernel has the names of values, lines, and what fails."""

    names: dict[Value, str]
    helpers: dict[str, None]
    fresh: Callable[[], str]
    line: Callable[[str], None]
    _fail: Callable[[str, int], None]
    sure: bool  # whether the node whose text is made surely does not fail

    def _number(self, node: Node) -> str:
        """Python's arithmetic on 64 bits; what leaves them fails."""
        op, kind = node.op, dtype_of(node.outputs[0])
        if op == "py.constant":
            return typed(node.args[0], kind)
        given = [self._operand(a) for a in node.args]
        if op in _UNARY:
            return _UNARY[op](self, kind, *given[0])
        if op in _NUMBERS:
            common = "f64" if any(d == "f64" for _, d in given) else "i64"
            a, b = (self._as(x, d, common) for x, d in given)
            return f"{a} {_NUMBERS[op]} {b}"
        if op in _BITS and kind in ("bool", "i64"):
            a, b = (self._as(x, d, kind) for x, d in given)
            return f"{a} {_BITS[op]} {b}"
        if op in ("py.truediv", "py.pow", "py.math.pow"):
            return self._quotient(*given) if op == "py.truediv" else self._power(kind, *given)
        if op == "py.range_length" and type(node.args[2]) is int and node.args[2] > 0:
            first, stop = (self._as(x, d, "i64") for x, d in given[:2])
            step = node.args[2]
            return f"tl.where({stop} > {first}, ({stop} - {first} + {step - 1}) // {step}, {typed(0, 'i64')})"  # fmt: skip
        if op in ("py.add", "py.sub", "py.mul") and kind in ("i64", "f64"):
            a, b = (self._as(x, d, kind) for x, d in given)
            return self._arithmetic(op[3:], kind, a, b)
        if op in _INTEGERS and kind == "i64" and len(given) == 2:
            a, b = (self._as(x, d, "i64") for x, d in given)
            return _INTEGERS[op](self, a, b)
        raise Unsupported(f"{op} in a kernel's loop")

    def _choice(self, node: Node) -> str:
        """One of several numbers, by its position."""
        kind = dtype_of(node.outputs[0])
        at, dtype = self._operand(node.args[0])
        at = self._as(at, dtype, "i64")
        *rest, last = [self._as(*self._operand(a), kind) for a in node.args[1]]
        for i, x in reversed(list(enumerate(rest))):
            last = f"tl.where({at} == {i}, {x}, {last})"
        return last

    def _place(self, i: str, n: str) -> str:
        """A position in ``n`` items, negative ones counted from the end; 0 where it fails."""
        if self.sure:
            return f"tl.where({i} < 0, {i} + {n}, {i})"
        bad = f"({i} >= {n}) | ({i} + {n} < 0)"
        self._fail(bad, INDEX_OUT_OF_RANGE)
        return f"tl.where({bad}, 0, tl.where({i} < 0, {i} + {n}, {i}))"

    def _cell(self, i: str, n: str) -> str:
        if self.sure:
            return i
        bad = f"({i} < 0) | ({i} >= {n})"
        self._fail(bad, INDEX_OUT_OF_RANGE)
        return f"tl.where({bad}, 0, {i})"

    def _room(self, i: str, n: str) -> str:
        if self.sure:
            return i
        self._fail(f"{i} >= {n}", FULL)
        return f"tl.where({i} >= {n}, 0, {i})"

    def _stop(self, stop: str, n: str) -> str:
        return f"tl.minimum(tl.maximum(tl.where({stop} < 0, {stop} + {n}, {stop}), 0), {n})"

    def _division(self, word: str, a: str, b: str) -> str:
        """Rounded down; by 0 it fails, and -2**63 by -1, which has no quotient in 64 bits."""
        self._fail(f"{b} == 0", DIVISION_BY_ZERO)
        self._fail(f"({b} == -1) & ({a} < 0) & (({a} - 1) > 0)", OVERFLOW)
        self.helpers |= dict.fromkeys((*triton_ops.NEEDS[word], word))
        return f"_{word}({a}, {b})"

    def _quotient(self, a: tuple[str, str], b: tuple[str, str]) -> str:
        """A float. Of ints it is exact while both are floats."""
        for x, dtype in (a, b):
            if dtype == "i64":
                self._fail(f"({x} > {EXACT}) | ({x} < -{EXACT})", OVERFLOW)
        x, y = (self._as(*v, "f64") for v in (a, b))
        self._fail(f"{y} == 0", DIVISION_BY_ZERO)
        return f"{x} / tl.where({y} == 0, 1.0, {y})"

    def _power(self, kind: str, a: tuple[str, str], b: tuple[str, str]) -> str:
        """A float by libdevice, where C's function gives a finite one; the square of an int."""
        if kind == "i64" and b[0] == typed(2, "i64"):
            x = self._as(*a, "i64")
            return self._arithmetic("mul", "i64", x, x)
        if kind != "f64" or "f64" not in (a[1], b[1]):
            raise Unsupported("a power of ints in a kernel's loop")
        x, y = (self._as(*v, "f64") for v in (a, b))
        name = self.fresh()
        self.line(f"{name} = libdevice.pow({x}, {y})")
        self._fail(f"(tl.abs({name}) < {HUGE}) == 0", OVERFLOW)
        return name

    def _cast(self, kind: str, x: str, dtype: str) -> str:
        return self._as(x, dtype, kind)

    def _whole(self, kind: str, x: str, dtype: str, towards: str = "") -> str:
        """A float as an int, rounded towards 0 or by a function; it fails for what is no number of 64 bits."""
        if dtype not in FLOATS:
            return self._as(x, dtype, kind)
        name = self.fresh()
        x = self._as(x, dtype, "f64")
        self.line(f"{name} = {f'tl.{towards}({x})' if towards else x}")
        outside = f"(tl.abs({name}) < 9223372036854775808.0) == 0"
        self._fail(outside, OVERFLOW)
        return f"tl.where({outside}, 0.0, {name}).to(tl.int64)"

    def _negative(self, kind: str, x: str, dtype: str) -> str:
        x = self._as(x, dtype, kind)
        if kind == "f64":
            return f"{x} * -1.0"
        self._fail(f"({x} < 0) & (0 - {x} == {x})", OVERFLOW)
        return f"0 - {x}"

    def _absolute(self, kind: str, x: str, dtype: str) -> str:
        x = self._as(x, dtype, kind)
        if kind == "i64":
            self._fail(f"({x} < 0) & (0 - {x} == {x})", OVERFLOW)
        return f"tl.abs({x})"

    def _root(self, kind: str, x: str, dtype: str) -> str:
        name = self.fresh()
        self.line(f"{name} = {self._as(x, dtype, 'f64')}")
        self._fail(f"{name} < 0", OVERFLOW)
        return f"tl.sqrt(tl.where({name} < 0, 0.0, {name}))"

    def _operand(self, a: Any) -> tuple[str, str]:
        if isinstance(a, Value):
            return self.names[a], dtype_of(a)
        dtype = "bool" if isinstance(a, bool) else "i64" if isinstance(a, int) else "f64"
        return typed(a, dtype), dtype

    def _as(self, text: str, source: str, to: str) -> str:
        return text if source == to else triton_ops.cast(text, source, to)

    def _arithmetic(self, word: str, kind: str, a: str, b: str) -> str:
        sign = {"add": "+", "sub": "-", "mul": "*"}[word]
        if kind == "f64":
            return f"{a} {sign} {b}"
        if word == "mul":  # exact in 64 bits while both are below 2**31
            self._fail(f"({a} + 2147483648 < 0) | ({a} > 2147483647) | ({b} + 2147483648 < 0) | ({b} > 2147483647)", OVERFLOW)  # fmt: skip
            return f"{a} * {b}"
        if self.sure:
            return f"{a} {sign} {b}"
        name = self.fresh()
        self.line(f"{name} = {a} {sign} {b}")
        other = b if word == "add" else f"~({b})"
        self._fail(f"(({a} ^ {name}) & ({other} ^ {name})) < 0", OVERFLOW)
        return name


_UNARY: dict[str, Callable[[Numbers, str, str, str], str]] = {
    **dict.fromkeys(("py.bool", "py.float", "py.truth", "py.pos"), Numbers._cast),
    **dict.fromkeys(("py.int", "py.trunc", "py.math.trunc"), Numbers._whole),
    **dict.fromkeys(("py.floor", "py.math.floor"), functools.partial(Numbers._whole, towards="floor")),
    **dict.fromkeys(("py.ceil", "py.math.ceil"), functools.partial(Numbers._whole, towards="ceil")),
    "py.not": lambda b, kind, x, dtype: f"{x} == 0",
    "py.neg": Numbers._negative,
    "py.abs": Numbers._absolute,
    "py.math.fabs": lambda b, kind, x, dtype: f"tl.abs({b._as(x, dtype, 'f64')})",
    "py.invert": lambda b, kind, x, dtype: f"~{b._as(x, dtype, kind)}",
    "py.math.sqrt": Numbers._root,
}  # fmt: skip

_INTEGERS: dict[str, Callable[[Numbers, str, str], str]] = {
    "py.position": Numbers._place,
    "py.cell": Numbers._cell,
    "py.room": Numbers._room,
    "py.slice_stop": Numbers._stop,
    "py.min": lambda b, x, y: f"tl.minimum({x}, {y})",
    "py.max": lambda b, x, y: f"tl.maximum({x}, {y})",
    "py.floordiv": lambda b, x, y: b._division("floordiv", x, y),
    "py.mod": lambda b, x, y: b._division("mod", x, y),
}
