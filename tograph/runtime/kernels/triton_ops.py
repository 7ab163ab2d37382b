"""The ops of the loop IR in Triton: one row per op, and the helper functions that generated source may call.

``call(op, dtype, *args)`` gives the expression's text for arguments that are names, or literals where ``LITERALS`` says
that the op takes them: Triton gives a literal beside a tensor the tensor's dtype in arithmetic and comparisons, and a
dtype of its own anywhere else. Arithmetic rounds once: division of f32 is ``div_rn`` (Triton's ``/`` is approximate),
square root ``sqrt_rn``, and library functions are libdevice's, whose error is a few units of the last place.

``HELPERS`` are written out in front of the kernels that call them. They have no type of their own, so that they serve as
combine functions of reductions and scans too. Division by 0 and by -1 is made safe: both are undefined in LLVM.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .folds import identity
from .llvm_text import integer_literal
from .loop_ir import FLOATS, ITEM_SIZES, Unsupported

TYPES = {"bool": "tl.int1", "u8": "tl.uint8", "i8": "tl.int8", "i16": "tl.int16", "i32": "tl.int32", "i64": "tl.int64",
         "f16": "tl.float16", "bf16": "tl.bfloat16", "f32": "tl.float32", "f64": "tl.float64"}  # fmt: skip
# The names of pointer and number types in the signature of a compiled kernel.
SIGNATURE = {"bool": "i1", "u8": "u8", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
             "f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64"}  # fmt: skip
NUMBERS = {"bool": "u1", "i64": "i64", "f64": "fp64"}
NUMBER_POINTERS = {"bool": "*i1", "i64": "*i64", "f64": "*fp64"}
ANNOTATIONS = {"u1": "tl.int1", "i64": "tl.int64", "fp64": "tl.float64"}
UNSIGNED = ("bool", "u8")

HELPERS = {
    "add": "def _add(a, b):\n    return a + b\n",
    "multiply": "def _multiply(a, b):\n    return a * b\n",
    "either": "def _either(a, b):\n    return a | b\n",
    "both": "def _both(a, b):\n    return a & b\n",
    "maximum": "def _maximum(a, b):\n    return tl.where((b > a) | (b != b), b, a)  # NaN wins\n",
    "minimum": "def _minimum(a, b):\n    return tl.where((b < a) | (b != b), b, a)  # NaN wins\n",
    "fmax": "def _fmax(a, b):\n    return tl.where((b > a) | (a != a), b, a)  # NaN loses\n",
    "fmin": "def _fmin(a, b):\n    return tl.where((b < a) | (a != a), b, a)  # NaN loses\n",
    "argmax": """def _argmax(a, i, b, j):
    wins = (b > a) | ((b != b) & (a == a))
    ties = (b == a) | ((b != b) & (a != a))
    wins = wins | (ties & (j < i))  # of equals the first
    return tl.where(wins, b, a), tl.where(wins, j, i)
""",
    "argmin": """def _argmin(a, i, b, j):
    wins = (b < a) | ((b != b) & (a == a))
    ties = (b == a) | ((b != b) & (a != a))
    wins = wins | (ties & (j < i))  # of equals the first
    return tl.where(wins, b, a), tl.where(wins, j, i)
""",
    "divisor": """def _divisor(b):
    return b + (b == 0).to(b.dtype) + 2 * (b == -1).to(b.dtype)  # 1 in the place of 0 and -1
""",
    "truncdiv": """def _truncdiv(a, b):
    return tl.where(b == -1, 0 - a, a // _divisor(b))
""",
    "floordiv": """def _floordiv(a, b):
    d = _divisor(b)
    q = a // d
    r = a - q * d
    q = q - ((r != 0) & ((r ^ d) < 0)).to(a.dtype)
    return tl.where(b == -1, 0 - a, q)
""",
    "mod": """def _mod(a, b):
    d = _divisor(b)
    r = a % d
    return r + d * ((r != 0) & ((r ^ d) < 0)).to(a.dtype)
""",
    "rem": "def _rem(a, b):\n    return a % _divisor(b)\n",
    "unsigned_div": "def _unsigned_div(a, b):\n    return a // (b + (b == 0).to(b.dtype))\n",
    "unsigned_rem": "def _unsigned_rem(a, b):\n    return a % (b + (b == 0).to(b.dtype))\n",
    "shl": """def _shl(a, b, bits: tl.constexpr):
    inside = (b >= 0) & (b < bits)
    return (a << (b * inside.to(b.dtype))) * inside.to(a.dtype)
""",
    "shr": """def _shr(a, b, bits: tl.constexpr):
    inside = (b >= 0) & (b < bits)
    return a >> tl.where(inside, b, (b - b) + (bits - 1))
""",
    "unsigned_shr": """def _unsigned_shr(a, b, bits: tl.constexpr):
    inside = b < bits
    return (a >> (b * inside.to(b.dtype))) * inside.to(a.dtype)
""",
    # Triton's library for AMD has had no rint until 3.7.
    "round": """def _round(a, big: tl.constexpr):
    near = (tl.abs(a) + big) - big  # to whole numbers, and of two as near to the even one
    return tl.where(tl.abs(a) < big, libdevice.copysign(near, a), a)
""",
    # Triton's own floor and ceil take numbers below 1.18e-38 for 0.
    "floor": """def _floor(a):
    towards = libdevice.trunc(a)
    return tl.where(towards > a, towards - 1.0, towards)
""",
    "ceil": """def _ceil(a):
    towards = libdevice.trunc(a)
    return tl.where(towards < a, towards + 1.0, towards)
""",
    "sign": "def _sign(a):\n    return (a > 0).to(a.dtype) - (a < 0).to(a.dtype)\n",
}
NEEDS = {"truncdiv": ("divisor",), "floordiv": ("divisor",), "mod": ("divisor",), "rem": ("divisor",)}  # fmt: skip

# The combine function of each fold.
COMBINE = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "any": "either", "all": "both",
           "argmax": "argmax", "argmin": "argmin"}  # fmt: skip

_INFIX = {"add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
          "and": "&", "or": "|", "xor": "^"}  # fmt: skip
_BOOLEAN = {"add": "|", "sub": "^", "mul": "&", "max": "|", "min": "&", "fmax": "|", "fmin": "&"}
_LIBRARY = frozenset(["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "sin", "cos", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "pow", "atan2", "hypot", "copysign", "fmod"])  # fmt: skip
_DIVISION = {"floordiv": ("floordiv", "unsigned_div"), "truncdiv": ("truncdiv", "unsigned_div"),
             "mod": ("mod", "unsigned_rem"), "fmod": ("rem", "unsigned_rem")}  # fmt: skip
# Ops that take a literal in the place of one of two arguments.
LITERALS = frozenset(["add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"])
DIVISIONS = frozenset(_DIVISION)


def call(op: str, dtype: str, *args: str) -> tuple[str, tuple[str, ...]]:
    """(text, helpers that it calls) of an op on arguments of ``dtype``; ``Unsupported`` where Triton has none."""
    if dtype == "bool" and op in _BOOLEAN:
        return f"{args[0]} {_BOOLEAN[op]} {args[1]}", ()
    if op in _INFIX:
        return f"{args[0]} {_INFIX[op]} {args[1]}", ()
    if op in ("max", "min") or (op in ("fmax", "fmin") and dtype not in FLOATS):
        name = "maximum" if op.endswith("max") else "minimum"
        return _helped(name, *args)
    if dtype in FLOATS:
        return _floating(op, dtype, *args)
    return _integer(op, dtype, *args)


def _helped(name: str, *args: str) -> tuple[str, tuple[str, ...]]:
    return f"_{name}({', '.join(args)})", (*NEEDS.get(name, ()), name)


def _floating(op: str, dtype: str, *args: str) -> tuple[str, tuple[str, ...]]:
    x = args[0]
    if dtype not in ("f32", "f64") and op not in ("isnan", "neg"):
        raise Unsupported(f"{op} of a half")
    if op in _LIBRARY:
        return f"libdevice.{op}({', '.join(args)})", ()
    if op in ("fmax", "fmin", "sign") or (op in ("floor", "ceil") and dtype == "f32"):
        return _helped(op, *args)
    if op == "round":
        return _helped(op, x, "8388608.0" if dtype == "f32" else "4503599627370496.0")
    if op == "div":
        return (f"tl.div_rn({x}, {args[1]})" if dtype == "f32" else f"{x} / {args[1]}"), ()
    if op == "sqrt":
        return (f"tl.sqrt_rn({x})" if dtype == "f32" else f"tl.sqrt({x})"), ()
    forms: dict[str, Callable[[], str]] = {
        "neg": lambda: f"{x} * -1.0",  # Triton's -x is 0 - x, which loses the sign of 0
        "abs": lambda: f"tl.abs({x})",
        "floor": lambda: f"tl.floor({x})",
        "ceil": lambda: f"tl.ceil({x})",
        "trunc": lambda: f"libdevice.trunc({x})",
        "isnan": lambda: f"{x} != {x}",
        "fma": lambda: f"tl.fma({', '.join(args)})",
    }
    if op not in forms:
        raise Unsupported(f"{op} of {dtype} in Triton")
    return forms[op](), ()


def _integer(op: str, dtype: str, *args: str) -> tuple[str, tuple[str, ...]]:
    unsigned = dtype in UNSIGNED
    if op in _DIVISION:
        return _helped(_DIVISION[op][unsigned], *args)
    if op in ("shl", "shr"):
        name = "unsigned_shr" if unsigned and op == "shr" else op
        return _helped(name, *args, str(8 * ITEM_SIZES[dtype]))
    if op == "sign" and not unsigned:
        return _helped("sign", *args)
    x = args[0]
    forms = {
        "neg": f"0 - {x}", "abs": f"tl.abs({x})", "not": f"~{x}",
        "bitnot": f"{x} ^ {literal(-1, dtype)}",
        "floor": x, "ceil": x, "trunc": x, "round": x, "isnan": f"{x} != {x}",
    }  # fmt: skip
    if op == "fma":
        return f"{x} * {args[1]} + {args[2]}", ()
    if op not in forms:
        raise Unsupported(f"{op} of {dtype} in Triton")
    return forms[op], ()


def cast(x: str, source: str, to: str) -> str:
    """C's conversion: floats to integers through 32 or 64 bits, wide numbers to halves through f32."""
    if to == "bool":
        return f"{x}.to(tl.float32) != 0" if source in ("f16", "bf16") else f"{x} != 0"
    if source in FLOATS and to in ("u8", "i8", "i16"):
        return f"{x}.to(tl.int32).to({TYPES[to]})"
    if to in ("f16", "bf16") and source not in ("f16", "bf16", "f32"):
        return f"{x}.to(tl.float32).to({TYPES[to]})"
    if {source, to} == {"f16", "bf16"}:
        return f"{x}.to(tl.float32).to({TYPES[to]})"
    return f"{x}.to({TYPES[to]})"


def literal(value: float | int | bool, dtype: str) -> str:
    """A constant as Python text."""
    if dtype in FLOATS:
        value = float(value)
        if math.isfinite(value):
            return repr(value)
        return f'float("{value}")'
    if dtype in UNSIGNED:
        return str(int(value) & (1 if dtype == "bool" else 0xFF))
    return integer_literal(int(value), dtype)


def typed(value: float | int | bool, dtype: str) -> str:
    """A constant of exactly this dtype."""
    if dtype in FLOATS and value == 0 and math.copysign(1, value) < 0:
        return f"(tl.full([], 0.0, {TYPES[dtype]}) * -1.0)"  # Triton makes a literal -0.0 into 0.0
    if dtype in ("f16", "bf16"):
        return f"tl.full([], {literal(value, dtype)}, tl.float32).to({TYPES[dtype]})"
    return f"tl.full([], {literal(value, dtype)}, {TYPES[dtype]})"


def start(kind: str, dtype: str) -> str:
    """The literal that a fold starts from."""
    return literal(identity(kind, dtype), dtype)
