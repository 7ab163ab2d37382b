"""Python's numbers in loops that are one kernel: 64 bits, and an error code for what would leave them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.ir import Node, Value
from . import triton_ops
from .loop_formulas import dtype_of
from .loop_ir import DIVISION_BY_ZERO, INDEX_OUT_OF_RANGE, Unsupported
from .triton_ops import typed

FULL = 5  # the error code of a list that has no room for another item
OVERFLOW = 4  # the error code of a number that leaves its type
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
        if op == "py.not":
            return f"{given[0][0]} == 0"
        if op in ("py.bool", "py.int", "py.float", "py.truth"):
            text, dtype = given[0]
            if op == "py.int" and dtype in ("f16", "bf16", "f32", "f64"):
                raise Unsupported("int() of a float in a kernel's loop")
            return triton_ops.cast(text, dtype, kind) if dtype != kind else text
        if op in _NUMBERS:
            common = "f64" if any(d == "f64" for _, d in given) else "i64"
            a, b = (self._as(x, d, common) for x, d in given)
            return f"{a} {_NUMBERS[op]} {b}"
        if op in ("py.and_", "py.or_") and kind == "bool":
            return f"{given[0][0]} {'&' if op == 'py.and_' else '|'} {given[1][0]}"
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
