"""Python's numbers as machine numbers: ``py.*`` ops.

An int is 64 bits and a float is a double. Wherever Python's answer would leave that (an int that overflows), or Python
would raise (a zero divisor, a domain error), the code fails: the host then runs the graph with Python's own numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .code import literal
from .scalar_parts import cast
from .values import Decline, Reg
from .walks import counted

EXACT = 1 << 53  # ints up to here are doubles too


class Numbers:
    """``code`` and ``fail`` of the function that is being written."""

    def __init__(self, code, fail: Callable[[str], None]):
        self.code, self.fail = code, fail

    def run(self, op: str, kind: str, args: Sequence[Reg]) -> Reg:
        """The result, of dtype ``kind`` (i64, f64 or bool), of ``py.op`` on registers."""
        name = op.removeprefix("py.")
        if any(a.dtype == "text" for a in args) and name != "select":
            raise Decline(f"{op} of a text has no machine form")
        if name.startswith("math."):
            return self._math(name[5:], kind, args)
        if name in _COMPARE:
            return self._compare(name, *args)
        if name in ("bool", "int", "float"):
            return self._convert(name, args[0])
        if name == "not":
            return self._bool(self.code.do(f"xor i1 {self.truth(args[0])}, true"))
        if name == "select":
            return self._select(kind, *args)
        if name == "range_length":
            return self._range_length(*args)
        rule = getattr(self, f"_{name.rstrip('_')}", None)
        if rule is None or len(args) > 2:
            raise Decline(f"{op} has no machine form")
        return rule(kind, *args)

    # ---- helpers

    def _bool(self, text: str) -> Reg:
        return Reg(text, "bool")

    def number(self, x: Reg, kind: str) -> str:
        """``x`` as a register of dtype ``kind``; an int that is no double fails."""
        if kind == "f64" and x.dtype == "i64":
            self._exact(x.text)
        return cast(self.code, x.text, x.dtype, kind)

    def _exact(self, x: str) -> None:
        if x.lstrip("-").isdigit():
            if abs(int(x)) > EXACT:
                raise Decline("an int that is no float")
            return
        moved = self.code.do(f"add i64 {x}, {EXACT}")
        self.fail(self.code.do(f"icmp ugt i64 {moved}, {2 * EXACT}"))

    def truth(self, x: Reg) -> str:
        return cast(self.code, x.text, x.dtype, "bool")

    def _finite(self, x: str) -> str:
        """Fail unless ``x`` is a number: Python raises for most of what gives inf or nan."""
        size = self.code.intrinsic("fabs", "f64", x)
        self.fail(self.code.do(f"fcmp uge double {size}, {literal(float('inf'), 'f64')}"))
        return x

    def _checked(self, word: str, a: str, b: str) -> str:
        name = f"llvm.s{word}.with.overflow.i64"
        self.code.declares[name] = f"declare {{i64, i1}} @{name}(i64, i64)"
        pair = self.code.do(f"call {{i64, i1}} @{name}(i64 {a}, i64 {b})")
        self.fail(self.code.do(f"extractvalue {{i64, i1}} {pair}, 1"))
        return self.code.do(f"extractvalue {{i64, i1}} {pair}, 0")

    def _arithmetic(self, word: str, kind: str, a: Reg, b: Reg) -> Reg:
        if kind == "f64":
            left, right = self.number(a, kind), self.number(b, kind)
            return Reg(self.code.do(f"f{word} double {left}, {right}"), kind)
        return Reg(self._checked(word, self.number(a, "i64"), self.number(b, "i64")), "i64")

    # ---- arithmetic

    def _add(self, kind, a, b):
        return self._arithmetic("add", kind, a, b)

    def _sub(self, kind, a, b):
        return self._arithmetic("sub", kind, a, b)

    def _mul(self, kind, a, b):
        return self._arithmetic("mul", kind, a, b)

    def _truediv(self, kind, a, b):
        left, right = self.number(a, "f64"), self.number(b, "f64")
        self.fail(self.code.do(f"fcmp oeq double {right}, 0.0"))
        return Reg(self.code.do(f"fdiv double {left}, {right}"), "f64")

    def _division(self, kind: str, a: Reg, b: Reg) -> tuple[str, str]:
        """(quotient towards minus infinity, remainder with the divisor's sign)."""
        if kind == "f64":
            return self._float_division(self.number(a, kind), self.number(b, kind))
        code, x, y = self.code, self.number(a, "i64"), self.number(b, "i64")
        if not y.isdigit() or y == "0":
            self.fail(code.do(f"icmp eq i64 {y}, 0"))
            beyond = code.do(
                f"icmp eq i64 {x}, {-(1 << 63)}"
            )  # whose quotient by -1 has no 64 bits
            self.fail(code.do(f"and i1 {beyond}, {code.do(f'icmp eq i64 {y}, -1')}"))
        q, r = code.do(f"sdiv i64 {x}, {y}"), code.do(f"srem i64 {x}, {y}")
        sign = code.do(f"icmp slt i64 {code.do(f'xor i64 {r}, {y}')}, 0")
        off = code.do(f"and i1 {code.do(f'icmp ne i64 {r}, 0')}, {sign}")
        quotient = code.do(f"add i64 {q}, {code.do(f'sext i1 {off} to i64')}")
        return quotient, code.do(f"add i64 {r}, {code.do(f'select i1 {off}, i64 {y}, i64 0')}")

    def _float_division(self, x: str, y: str) -> tuple[str, str]:
        """The same of floats, as Python computes it: of what ``fmod`` leaves, so that the remainder is exact."""
        code, do = self.code, self.code.do
        self.fail(do(f"fcmp oeq double {y}, 0.0"))
        left = code.external("fmod", "f64", x, y)
        some = do(f"fcmp une double {left}, 0.0")
        signs = do(f"xor i1 {do(f'fcmp olt double {y}, 0.0')}, {do(f'fcmp olt double {left}, 0.0')}")  # fmt: skip
        off = do(f"and i1 {some}, {signs}")
        near = do(f"select i1 {off}, double {do(f'fadd double {left}, {y}')}, double {left}")
        nothing = code.intrinsic("copysign", "f64", "0.0", y)
        whole = do(f"fdiv double {do(f'fsub double {x}, {left}')}, {y}")
        whole = do(f"select i1 {off}, double {do(f'fsub double {whole}, 1.0')}, double {whole}")
        down = code.intrinsic("floor", "f64", whole)
        under = do(f"fcmp ogt double {do(f'fsub double {whole}, {down}')}, 0.5")
        down = do(f"select i1 {under}, double {do(f'fadd double {down}, 1.0')}, double {down}")
        none = code.intrinsic("copysign", "f64", "0.0", do(f"fdiv double {x}, {y}"))
        quotient = do(f"select i1 {do(f'fcmp une double {whole}, 0.0')}, double {down}, double {none}")  # fmt: skip
        return quotient, do(f"select i1 {some}, double {near}, double {nothing}")

    def _floordiv(self, kind, a, b):
        return Reg(self._division(kind, a, b)[0], kind if kind == "f64" else "i64")

    def _mod(self, kind, a, b):
        return Reg(self._division(kind, a, b)[1], kind if kind == "f64" else "i64")

    def _range_length(self, start: Reg, stop: Reg, step: Reg) -> Reg:
        """How many numbers a range has: the distance in steps, rounded up, and none below zero."""
        code, by = self.code, step.text
        if step.dtype != "i64" or by == "0":
            raise Decline(f"a range with the step {by} of type {step.dtype}")
        if not by.lstrip("-").isdigit():
            return self._range_of_steps(start, stop, by)
        low, high = (start, stop) if int(by) > 0 else (stop, start)
        distance = self._checked("sub", self.number(high, "i64"), self.number(low, "i64"))
        more = self._checked("add", distance, str(abs(int(by)) - 1))
        count = code.do(f"sdiv i64 {more}, {abs(int(by))}")
        none = code.do(f"icmp sle i64 {distance}, 0")
        return Reg(code.do(f"select i1 {none}, i64 0, i64 {count}"), "i64")

    def _range_of_steps(self, start: Reg, stop: Reg, by: str) -> Reg:
        """The same for a step that only the run knows; 0 fails."""
        code, first, last = self.code, self.number(start, "i64"), self.number(stop, "i64")
        self.fail(code.do(f"icmp eq i64 {by}, 0"))
        down = code.do(f"icmp slt i64 {by}, 0")
        low, high = (code.do(f"select i1 {down}, i64 {a}, i64 {b}") for a, b in ((last, first), (first, last)))  # fmt: skip
        size = code.do(f"select i1 {down}, i64 {self._checked('sub', '0', by)}, i64 {by}")
        distance = self._checked("sub", high, low)
        more = self._checked("add", distance, code.do(f"sub i64 {size}, 1"))
        count = code.do(f"sdiv i64 {more}, {size}")
        none = code.do(f"icmp sle i64 {distance}, 0")
        return Reg(code.do(f"select i1 {none}, i64 0, i64 {count}"), "i64")

    def _pow(self, kind, a, b):
        exponent = int(b.text) if b.dtype == "i64" and b.text.isdigit() else -1
        if kind == "i64" and 0 <= exponent <= 8:
            base, out = self.number(a, "i64"), "1"
            for _ in range(exponent):
                out = base if out == "1" else self._checked("mul", out, base)
            return Reg(out, "i64")
        if kind == "f64":
            left, right = self.number(a, "f64"), self.number(b, "f64")
            return Reg(self._finite(self.code.external("pow", "f64", left, right)), "f64")
        return self._power(self.number(a, "i64"), self.number(b, "i64"))

    def _power(self, base: str, exponent: str) -> Reg:
        """A power by a number of the run; a negative one gives a float, and one of more than 63 hardly ever an int of 64 bits."""
        code, cell = self.code, self.code.cell("i64")
        self.fail(code.do(f"icmp ugt i64 {exponent}, 63"))
        code.line(f"store i64 1, ptr {cell}")
        with counted(code, exponent):
            product = self._checked("mul", code.do(f"load i64, ptr {cell}"), base)
            code.line(f"store i64 {product}, ptr {cell}")
        return Reg(code.do(f"load i64, ptr {cell}"), "i64")

    def _neg(self, kind, a):
        if kind == "f64":
            return Reg(self.code.do(f"fneg double {self.number(a, kind)}"), kind)
        return Reg(self._checked("sub", "0", self.number(a, "i64")), "i64")

    def _pos(self, kind, a):
        return Reg(self.number(a, kind), kind)

    def _abs(self, kind, a):
        if kind == "f64":
            return Reg(self.code.intrinsic("fabs", "f64", self.number(a, kind)), kind)
        x = self.number(a, "i64")
        opposite = self._checked("sub", "0", x)
        below = self.code.do(f"icmp slt i64 {x}, 0")
        return Reg(self.code.do(f"select i1 {below}, i64 {opposite}, i64 {x}"), "i64")

    def _bits(self, word: str, kind: str, a: Reg, b: Reg) -> Reg:
        if kind == "bool":
            return self._bool(self.code.do(f"{word} i1 {a.text}, {b.text}"))
        return Reg(self.code.do(f"{word} i64 {self.number(a, 'i64')}, {self.number(b, 'i64')}"), "i64")  # fmt: skip

    def _and(self, kind, a, b):
        return self._bits("and", kind, a, b)

    def _or(self, kind, a, b):
        return self._bits("or", kind, a, b)

    def _xor(self, kind, a, b):
        return self._bits("xor", kind, a, b)

    def _invert(self, kind, a):
        return Reg(self.code.do(f"xor i64 {self.number(a, 'i64')}, -1"), "i64")

    def _rshift(self, kind, a, b):
        x, by = self.number(a, "i64"), self.number(b, "i64")
        self.fail(self.code.do(f"icmp ugt i64 {by}, 63"))
        return Reg(self.code.do(f"ashr i64 {x}, {by}"), "i64")

    def _lshift(self, kind, a, b):
        x, by = self.number(a, "i64"), self.number(b, "i64")
        self.fail(self.code.do(f"icmp ugt i64 {by}, 62"))
        out = self.code.do(f"shl i64 {x}, {by}")
        self.fail(self.code.do(f"icmp ne i64 {self.code.do(f'ashr i64 {out}, {by}')}, {x}"))
        return Reg(out, "i64")

    # ---- comparisons and choices

    def _compare(self, name: str, a: Reg, b: Reg) -> Reg:
        if "f64" in (a.dtype, b.dtype) or "f32" in (a.dtype, b.dtype):
            left, right = self.number(a, "f64"), self.number(b, "f64")
            word = "une" if name == "ne" else "o" + name
            return self._bool(self.code.do(f"fcmp {word} double {left}, {right}"))
        word = name if name in ("eq", "ne") else "s" + name
        left, right = self.number(a, "i64"), self.number(b, "i64")
        return self._bool(self.code.do(f"icmp {word} i64 {left}, {right}"))

    def _extreme(self, word: str, kind: str, a: Reg, b: Reg) -> Reg:
        """Python's min and max keep the first of two that compare equal, and its type."""
        if a.dtype != b.dtype:
            raise Decline("min or max of an int and a float")
        first = self.code.do(f"xor i1 {self._compare(word, b, a).text}, true")
        kind = a.dtype
        return Reg(self._choose(first, a.text, b.text, kind), kind)

    def _min(self, kind, a, b):
        return self._extreme("lt", kind, a, b)

    def _max(self, kind, a, b):
        return self._extreme("gt", kind, a, b)

    def _choose(self, c: str, a: str, b: str, kind: str) -> str:
        register = {"i64": "i64", "f64": "double", "bool": "i1", "text": "i64"}[kind]
        return self.code.do(f"select i1 {c}, {register} {a}, {register} {b}")

    def _select(self, kind: str, c: Reg, a: Reg, b: Reg) -> Reg:
        if a.dtype != kind or b.dtype != kind:
            raise Decline("a choice between kinds of numbers")
        return Reg(self._choose(self.truth(c), a.text, b.text, kind), kind)

    # ---- conversions

    def _convert(self, name: str, x: Reg) -> Reg:
        if name == "bool":
            return self._bool(self.truth(x))
        if name == "float":
            return Reg(self.number(x, "f64"), "f64")
        if x.dtype in ("f32", "f64", "f16", "bf16"):
            return Reg(self._whole(cast(self.code, x.text, x.dtype, "f64")), "i64")
        return Reg(cast(self.code, x.text, x.dtype, "i64"), "i64")

    def _whole(self, x: str) -> str:
        """A double to an int, towards zero; what does not fit fails."""
        size = self.code.intrinsic("fabs", "f64", x)
        self.fail(self.code.do(f"fcmp uge double {size}, {literal(2.0**63, 'f64')}"))
        return self.code.do(f"fptosi double {x} to i64")

    def _rounded(self, intrinsic: str, x: Reg) -> Reg:
        if x.dtype in ("i64", "bool"):
            return Reg(self.number(x, "i64"), "i64")
        rounded = self.code.intrinsic(intrinsic, "f64", self.number(x, "f64"))
        return Reg(self._whole(rounded), "i64")

    def _floor(self, kind, a):
        return self._rounded("floor", a)

    def _ceil(self, kind, a):
        return self._rounded("ceil", a)

    def _trunc(self, kind, a):
        return self._rounded("trunc", a)

    def _round(self, kind, a):
        return self._rounded("roundeven", a)

    def _math(self, name: str, kind: str, args: Sequence[Reg]) -> Reg:
        if name in ("floor", "ceil", "trunc"):
            return self._rounded(name, args[0])
        xs = [self.number(a, "f64") for a in args]
        code = self.code
        if name in ("isnan", "isinf", "isfinite"):
            size = code.intrinsic("fabs", "f64", xs[0])
            word = {"isnan": "uno", "isinf": "oeq", "isfinite": "olt"}[name]
            return self._bool(code.do(f"fcmp {word} double {size}, {literal(float('inf'), 'f64')}"))  # fmt: skip
        if name == "fabs":
            return Reg(code.intrinsic("fabs", "f64", xs[0]), "f64")
        if name == "sqrt":
            self.fail(code.do(f"fcmp olt double {xs[0]}, 0.0"))
            return Reg(code.intrinsic("sqrt", "f64", xs[0]), "f64")
        if name in _LIBM and kind == "f64" and len(xs) == (2 if name in _OF_TWO else 1):
            return Reg(self._finite(code.external(name, "f64", *xs)), "f64")
        raise Decline(f"math.{name} has no machine form")


_COMPARE = frozenset(["lt", "le", "gt", "ge", "eq", "ne"])
_OF_TWO = frozenset(["atan2", "hypot", "pow", "fmod", "copysign"])
_LIBM = frozenset(["sin", "cos", "tan", "exp", "log", "log2", "log10", "tanh", "sinh", "cosh", "asin", "acos", "atan", "atan2", "hypot", "pow", "fmod", "copysign", "log1p", "expm1", "erf"])  # fmt: skip
