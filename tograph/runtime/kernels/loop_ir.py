"""The loop IR: one fused kernel as loops over dimensions, with an expression DAG as its body.

Model. A kernel runs a nest of ``outer`` loops (parallel, in any order) and, for each of their points, zero or more
sweeps over the ``row`` loops. Every expression is a scalar at one point of the nest:

* an expression that depends on a row variable has a value for each point of the row (``in_row``);
* ``reduce`` folds such an expression over the whole row, so that its own value belongs to the outer point; what
  follows from it may be used by another sweep over the same row (softmax: max, then sum of exp, then the quotient);
* ``scan`` folds along the row in order and has a value for each point of it;
* a ``Store`` writes an expression to a buffer, in the row or once for each outer point.

How often the row is swept follows from the DAG: ``level`` of an expression is the number of reductions that must be
complete before it can be computed, so that sweep k computes the row expressions of level k.

Addresses are ``Affine`` in the loop variables, in elements of their buffer; terms may also be expressions (a gather).
Sizes and strides are ints, or names of kernel parameters that hold them at run time. dtypes are the names of
``types.DTYPE_NAMES``. Invariants: ``body`` is in topological order and holds every expression once; a gather term and an
outer expression never depend on a row reduction of their own level; the addresses of a kernel's stores never overlap.

Meaning of the ops, for all renderers: arithmetic rounds once in the op's dtype; integers wrap; ``f16`` and ``bf16``
values are computed in ``f32`` and rounded by an explicit ``cast``; ``max`` and ``min`` give NaN when either side is NaN;
``floordiv`` and ``mod`` are Python's; integer division by zero and a failed ``check_index`` set the error code that the
kernel returns, and no store of that kernel may then be used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Size = int | str  # a number, or the name of a parameter that holds it


LONGEST = 1 << 32  # what a size without a bound is at most


@dataclass(frozen=True)
class Open:
    """The size of a dimension that is known only at run time: the parameter ``name`` holds it, and it is at most ``bound``.

    Memory for such a tensor is laid out for the bound, so that strides are numbers; a dimension that is ``endless`` is laid out
    first, where its size is no part of any stride. Nothing can be computed with it while code is written: a formula that does is
    ``Unsupported``.
    """

    name: str
    bound: int

    @property
    def endless(self) -> bool:
        """Whether nothing but memory bounds the size."""
        return self.bound >= LONGEST

    def _unknown(self, *_: object) -> int:
        raise Unsupported("arithmetic with a size that is known only at run time")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = (
        _unknown
    )
    __mod__ = __rmod__ = __truediv__ = __rtruediv__ = __neg__ = __lt__ = __le__ = __gt__ = (
        __ge__
    ) = _unknown


def bound(size: int | Open) -> int:
    """The most that a size can be."""
    return size.bound if isinstance(size, Open) else size


FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("bool", "u8", "i8", "i16", "i32", "i64")
ITEM_SIZES = {"bool": 1, "u8": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8,
              "f16": 2, "bf16": 2, "f32": 4, "f64": 8}  # fmt: skip


def rounded(value: float, dtype: str) -> float:
    """``value`` as ``dtype`` holds it; what is too large becomes infinite."""
    if dtype == "f64" or value != value:
        return value
    code = {"f32": "<f", "f16": "<e", "bf16": "<f"}[dtype]
    try:
        value = struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    if dtype == "bf16" and abs(value) != float("inf"):
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        value = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value


DIVISION_BY_ZERO, INDEX_OUT_OF_RANGE = 1, 2  # error codes of a kernel; 0 is success
ASSERTED = 7  # on a GPU: a position that torch's own kernels assert, so that the op must not be run there again

# Pointwise ops by number of arguments. Comparisons and tests give bool; the others the dtype of their arguments.
UNARY = frozenset(["neg", "abs", "not", "bitnot", "floor", "ceil", "trunc", "round", "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "sin", "cos", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "isnan", "cast", "sign"])  # fmt: skip
BINARY = frozenset(["add", "sub", "mul", "div", "floordiv", "mod", "truncdiv", "fmod", "pow", "atan2", "hypot", "copysign", "min", "max", "fmin", "fmax", "and", "or", "xor", "shl", "shr", "eq", "ne", "lt", "le", "gt", "ge", "check_index"])  # fmt: skip
TERNARY = frozenset(["select", "fma"])
LEAVES = frozenset(["const", "scalar", "index", "load"])
TESTS = frozenset(["eq", "ne", "lt", "le", "gt", "ge", "isnan"])
# Ops that a renderer computes with a polynomial or a call: worth keeping rather than computing again.
COSTLY = frozenset(["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "sin", "cos", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "pow", "atan2", "hypot", "sqrt", "div", "floordiv", "mod", "truncdiv", "fmod"])  # fmt: skip


@dataclass(frozen=True)
class Affine:
    """``offset + sum(factor * variable)``, and ``sum(factor * expression)`` for gathers."""

    terms: tuple[tuple[str, Size], ...] = ()
    offset: int = 0
    gathers: tuple[tuple[Expr, Size], ...] = ()

    def __add__(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for name, factor in other.terms:
            old = terms.get(name, 0)
            if old and not (type(old) is int and type(factor) is int):
                raise Unsupported("a sum of strides that are known only at run time")
            terms[name] = factor if not old else old + factor
        kept = tuple((n, f) for n, f in terms.items() if f != 0)
        return Affine(kept, self.offset + other.offset, self.gathers + other.gathers)

    def scaled(self, by: Size) -> Affine:
        """This affine expression times ``by``."""
        if by == 0:
            return Affine()
        if by == 1:
            return self
        if type(by) is str and self.offset:
            raise Unsupported("an offset in a dimension whose stride is known only at run time")
        return Affine(
            tuple((n, _times(f, by)) for n, f in self.terms),
            self.offset * by if type(by) is int else 0,
            tuple((e, _times(f, by)) for e, f in self.gathers),
        )

    def shifted(self, by: int) -> Affine:
        return Affine(self.terms, self.offset + by, self.gathers)

    def factor(self, name: str) -> Size:
        return dict(self.terms).get(name, 0)

    @property
    def constant(self) -> bool:
        return not self.terms and not self.gathers

    def __str__(self) -> str:
        parts = [n if f == 1 else f"{f}*{n}" for n, f in self.terms]
        parts += [f"{f}*%{e.number}" for e, f in self.gathers]
        if self.offset or not parts:
            parts.append(str(self.offset))
        return " + ".join(parts)


class Unsupported(Exception):
    """The loop IR has no form for this; the ops stay unfused."""


def _times(a: Size, b: Size) -> Size:
    if a == 1:
        return b
    if b == 1:
        return a
    if type(a) is int and type(b) is int:
        return a * b
    raise Unsupported("a product of strides that are known only at run time")


def variable(name: str) -> Affine:
    return Affine(((name, 1),))


@dataclass(frozen=True, eq=False)
class Expr:
    """One value. ``args`` are expressions; the other fields belong to some ops only.

    ``value``: of const, a number. ``name``: the parameter of load and scalar; the kind of reduce and scan.
    ``address``: of load and index. A load may have one argument, its mask: where it is false nothing is read and the
    value is 0.
    """

    op: str
    dtype: str
    args: tuple[Expr, ...] = ()
    value: float | int | bool | None = None
    name: str = ""
    address: Affine | None = None
    number: int = -1

    def operands(self) -> Iterator[Expr]:
        """The expressions that this one needs, those of its address included."""
        yield from self.args
        if self.address is not None:
            yield from (e for e, _ in self.address.gathers)

    def __str__(self) -> str:
        inside = [f"%{a.number}" for a in self.args]
        if self.op == "const":
            inside = [repr(self.value)]
        elif self.op in ("load", "index"):
            inside = [f"{self.name}[{self.address}]", *inside]
        elif self.name:
            inside = [self.name, *inside]
        return f"%{self.number}: {self.dtype} = {self.op}({', '.join(inside)})"


@dataclass(frozen=True)
class Dim:
    """A loop: a variable that runs from 0 to ``size``."""

    name: str
    size: Size

    def __str__(self) -> str:
        return f"{self.name}<{self.size}"


@dataclass(frozen=True)
class Buffer:
    """A parameter that points to elements of ``dtype``; ``written`` when the kernel stores to it."""

    name: str
    dtype: str
    written: bool = False


@dataclass(frozen=True)
class Scalar:
    """A number passed by value: 64 bits, as int64, float64 or bool."""

    name: str
    dtype: str


@dataclass(frozen=True)
class Store:
    """``buffer[address] = value`` for every point that the value (or the address) depends on."""

    buffer: str
    address: Affine
    value: Expr

    def __str__(self) -> str:
        return f"{self.buffer}[{self.address}] = %{self.value.number}"


@dataclass(frozen=True)
class Kernel:
    """A fused region. The parameter block has one 8-byte slot for each of buffers, scalars and sizes, in order."""

    name: str
    outer: tuple[Dim, ...]
    row: tuple[Dim, ...]
    buffers: tuple[Buffer, ...]
    scalars: tuple[Scalar, ...]
    sizes: tuple[str, ...]
    body: tuple[Expr, ...]
    stores: tuple[Store, ...]
    comments: tuple[str, ...] = ()
    _facts: dict = field(default_factory=dict, compare=False, repr=False)

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the parameter slots, in order."""
        return (*(b.name for b in self.buffers), *(s.name for s in self.scalars), *self.sizes)

    def depends(self, e: Expr) -> frozenset[str]:
        """The loop variables that a value changes with. A reduction depends on no row variable."""
        return self._table("depends")[e]

    def level(self, e: Expr) -> int:
        """How many sweeps over the row must be complete before ``e`` can be computed."""
        return self._table("level")[e]

    def in_row(self, e: Expr) -> bool:
        return any(d.name in self.depends(e) for d in self.row)

    def store_depends(self, store: Store) -> frozenset[str]:
        return self.depends(store.value) | {n for n, _ in store.address.terms}

    @property
    def may_fail(self) -> bool:
        return any(map(_may_fail, self.body))

    def deciding(self) -> frozenset[str]:
        """The parameters that decide whether it fails."""
        needed = ordered([e for e in self.body if _may_fail(e)])
        return frozenset(e.name for e in needed if e.op in ("load", "scalar"))

    def _table(self, which: str) -> dict[Expr, object]:
        if not self._facts:
            self._facts.update(_analyse(self))
        return self._facts[which]

    def __str__(self) -> str:
        head = f"kernel {self.name}({', '.join(self.slots)})"
        loops = f"  for {', '.join(map(str, self.outer)) or 'one point'}"
        if self.row:
            loops += f"; row {', '.join(map(str, self.row))}"
        return "\n".join(
            [head, loops, *(f"    {e}" for e in self.body), *(f"    {s}" for s in self.stores)]
        )


def _may_fail(e: Expr) -> bool:
    if e.op == "check_index":
        return True
    division = e.op in ("floordiv", "mod", "truncdiv", "fmod") and e.dtype in INTEGERS
    return division and not (e.args[1].op == "const" and e.args[1].value not in (0, -1))


def _analyse(kernel: Kernel) -> dict[str, dict]:
    row = frozenset(d.name for d in kernel.row)
    depends: dict[Expr, frozenset[str]] = {}
    level: dict[Expr, int] = {}
    for e in kernel.body:
        found = frozenset(n for n, _ in e.address.terms) if e.address is not None else frozenset()
        rank = 0
        for operand in e.operands():
            found |= depends[operand]
            rank = max(rank, level[operand])
        if e.op == "reduce":
            found, rank = found - row, rank + 1
        elif e.op == "scan":
            found |= row
        depends[e], level[e] = found, rank
    return {"depends": depends, "level": level}


def verify(kernel: Kernel) -> None:
    """Raise ValueError unless the kernel keeps the invariants of this module."""
    seen: set[Expr] = set()
    names = set(kernel.slots)
    if len(names) != len(kernel.slots):
        raise ValueError("two parameters of one name")
    for e in kernel.body:
        if e in seen or not all(a in seen for a in e.operands()):
            raise ValueError(f"not in topological order: {e}")
        if e.op in ("load", "scalar") and e.name not in names:
            raise ValueError(f"no such parameter: {e}")
        count = 1 if e.op in UNARY or e.op in ("reduce", "scan") else 2 if e.op in BINARY else 3
        count += e.name.startswith("arg")
        if e.op not in LEAVES and len(e.args) != count:
            raise ValueError(f"wrong number of arguments: {e}")
        seen.add(e)
    dims = {d.name for d in (*kernel.outer, *kernel.row)}
    for e in kernel.body:
        if not kernel.depends(e) <= dims:
            raise ValueError(f"depends on an unknown variable: {e}")
    for store in kernel.stores:
        if store.value not in seen or store.buffer not in names:
            raise ValueError(f"an unknown value or buffer: {store}")


def ordered(roots: Iterable[Expr]) -> list[Expr]:
    """All expressions that ``roots`` need, operands first."""
    out: dict[Expr, None] = {}
    stack = [(e, False) for e in reversed(list(roots))]
    while stack:
        e, ready = stack.pop()
        if e in out:
            continue
        if ready:
            out[e] = None
            continue
        stack.append((e, True))
        stack.extend((a, False) for a in reversed(list(e.operands())) if a not in out)
    return list(out)
