"""From nodes of a graph to a kernel of the loop IR.

A value of the region is a function of an index. ``Builder.at(value, index)`` gives the expression of one of its elements
by asking its node: a pointwise op asks its operands at the broadcast index, a view maps the index, a reduction asks its
operand with row variables in the place of the reduced dims, and a value from outside becomes a load. Asking for every
output at the index of the loops gives the body. Equal questions have one answer, so a value that is used twice at one
index is computed once; used at two indices (``x[1:] - x[:-1]``) it is computed twice.

All reductions of a kernel fold over the same row: their reduced sizes must be equal, otherwise ``Unsupported``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..graph.ir import Node, Value
from ..graph.types import DTYPE_NAMES, ScalarType, TensorType
from ..inference.shapes import Meta, result_type
from . import activations, loss_gradients, pools, positions, resampling
from .beside import BESIDE
from .creators import CREATORS
from .exprs import Maker, Term
from .gathers import GATHERS, located
from .half_forms import F16_ON_CPU
from .loop_ir import (
    Affine,
    Buffer,
    Dim,
    Expr,
    Kernel,
    Open,
    Scalar,
    Store,
    Unsupported,
    bound,
    ordered,
    rounded,
    variable,
    verify,
)
from .pointwise import FACTORS, ROWS, Row
from .products import PRODUCTS
from .reductions import REDUCERS, row_of
from .simplify import simplify
from .views import ITEM, VIEWS, Index, Split, broadcast

HALVES = ("f16", "bf16")
# Ops that take a number at a place in f32 beside tensors of halves; the others round it to the half type first.
WIDE = {"aten.lerp.Scalar": 2} | {
    f"aten.{n}.{o}": 1 for n in ("mul", "div") for o in ("Tensor", "Scalar")
}
WIDE_ON_GPU = {f"aten.{n}.{o}" for n in ("add", "sub", "rsub", "mul", "div") for o in ("Tensor", "Scalar")}  # fmt: skip
MAX_SPLITS = 12
assert (
    activations and loss_gradients and pools and positions and resampling
)  # their rows are in the tables


@dataclass(eq=False)
class Region:
    """Nodes that become one kernel. ``inputs``: values from outside, in the order of the kernel's parameters.

    ``copies`` are views and constants that the region reads through; others may use them too.
    """

    nodes: list[Node]
    outputs: list[Value]
    copies: frozenset[Node] = frozenset()
    inputs: list[Value] = field(init=False)

    def __post_init__(self) -> None:
        made = {v for n in self.nodes for v in n.outputs}
        used = (v for n in self.nodes for v in n.inputs if v not in made)
        self.inputs = list(dict.fromkeys(used))


def expressible(op: str) -> bool:
    """Whether an op has a kernel expression at all."""
    return op in ROWS or op in VIEWS or op in REDUCERS or op in CREATORS or op == ITEM


def _wide(node: Node, place: int) -> bool:
    """Whether an op takes a number at this place in the dtype that it computes in, and not in the half type."""
    if WIDE.get(node.op) == place:
        return True
    return node.outputs[0].type.device != "cpu" and node.op in WIDE_ON_GPU


def _formula(node: Node, row: Row, dtype: str) -> Callable[..., Term]:
    on_cpu = node.outputs[0].type.device == "cpu"
    return F16_ON_CPU.get(node.op, row.formula) if dtype == "f16" and on_cpu else row.formula


def compute_dtype(dtype: str) -> str:
    """The dtype that torch computes in."""
    return "f32" if dtype in HALVES else dtype


class Builder:
    """Builds one kernel. ``metas`` has sizes, strides and dtype of every tensor of the region."""

    def __init__(self, region: Region, metas: Mapping[Value, Meta], splits: Mapping[str, int]):
        self.region, self.metas, self.splits = region, metas, splits
        self.maker = Maker()
        self.sizes: dict[str, int | Open] = {}
        self.row: tuple[int, ...] | None = None
        self.made = {v for n in region.nodes for v in n.outputs}
        self.places = {v: i for i, v in enumerate(region.inputs)}
        self._memo: dict[Any, Term] = {}

    # ---- loops

    def loop(self, name: str, size: int) -> Affine:
        """The variable of a loop from 0 to ``size``; where it was split, the sum of its parts."""
        if size == 1:
            return Affine()
        inner = self.splits.get(name)
        if inner is None:
            self.sizes[name] = size
            return variable(name)
        return self.loop(name + "a", size // inner).scaled(inner) + self.loop(name + "b", inner)

    def row_index(self, sizes: Sequence[int]) -> Index:
        """The variables of the row for reduced dims of these sizes."""
        wanted = tuple(n for n in sizes if n != 1)
        if self.row is None:
            self.row = wanted
        if self.row != wanted:
            raise Unsupported("reductions over rows of different sizes")
        names = iter(range(len(wanted)))
        return tuple(Affine() if n == 1 else self.loop(f"r{next(names)}", n) for n in sizes)

    def in_row(self, index: Index) -> bool:
        return any(name.startswith("r") for at in index for name, _ in at.terms)

    # ---- values

    def size(self, value: Value) -> tuple[int, ...]:
        return self.metas[value].size

    def dtype(self, value: Value) -> str:
        return DTYPE_NAMES[value.type.dtype]

    def at(self, value: Value, index: Index) -> Term:
        """The element of a value at an index, in the value's dtype."""
        memo, key = self._memo, (value, index)
        stack = [] if key in memo else [key]
        while stack:  # operands first, so that a long chain of ops does not recurse
            asked = stack[-1]
            missing = [k for k in self._operands(*asked) if k not in memo]
            if missing:
                stack += missing
                continue
            stack.pop()
            if asked not in memo:
                memo[asked] = self._fresh(*asked)
        return memo[key]

    def _operands(self, value: Value, index: Index) -> list[tuple[Value, Index]]:
        """What a pointwise op or a view asks for its element at ``index``."""
        node = value.node
        if value not in self.made or node is None:
            return []
        if node.op in VIEWS or node.op == ITEM:
            return [(node.args[0], self._viewed(node, value, index))]
        if node.op not in ROWS or node.op in REDUCERS or node.op in GATHERS or node.op in CREATORS:
            return []
        numbers = node.args[: ROWS[node.op].numbers]
        return [
            (a, broadcast(index, self.size(a)))
            for a in numbers
            if isinstance(a, Value) and isinstance(a.type, TensorType)
        ]

    def _viewed(self, node: Node, value: Value, index: Index) -> Index:
        """The index of a view's source."""
        if node.op == ITEM:
            x, d, number = node.args
            d, place = d % len(self.size(x)), self._load(number, ())
            return (*index[:d], located((place < 0).where(place + self.size(x)[d], place)), *index[d:])  # fmt: skip
        return VIEWS[node.op](
            node.args, self.size(node.args[0]), self.size(value), index, self.sizes
        )

    def _fresh(self, value: Value, index: Index) -> Term:
        if value not in self.made:
            return self._load(value, index)
        node = value.node
        assert node is not None
        if node.op in VIEWS or node.op == ITEM:
            return self.at(node.args[0], self._viewed(node, value, index))
        if node.op in REDUCERS:
            return REDUCERS[node.op](self, node, value.index, index).cast(self.dtype(value))
        if node.op in PRODUCTS:
            return PRODUCTS[node.op](self, node, index).cast(self.dtype(value))
        if node.op in BESIDE:
            return BESIDE[node.op](self, node, index)
        if node.op in GATHERS:
            return GATHERS[node.op](self, node, value.index, index).cast(self.dtype(value))
        if node.op in CREATORS:
            return CREATORS[node.op](self, node, index).cast(self.dtype(value))
        return self._pointwise(node, ROWS[node.op], index)

    def _load(self, value: Value, index: Index) -> Term:
        place = self.places[value]
        if isinstance(value.type, ScalarType):
            return self.maker.term(self.maker.make("scalar", self.dtype(value), name=f"s{place}"))
        address = Affine()
        for at, stride in zip(index, self.metas[value].stride, strict=True):
            address = address + at.scaled(stride)
        return self.maker.term(
            self.maker.make("load", self.dtype(value), name=f"p{place}", address=address)
        )

    # ---- pointwise ops

    def _pointwise(self, node: Node, row: Row, index: Index) -> Term:
        wanted = self.dtype(node.outputs[0])
        numbers, rest = node.args[: row.numbers], node.args[row.numbers :]
        if any(isinstance(a, Value) for a in rest):
            raise Unsupported("a parameter that is known only at run time")
        kwargs = {k: v for k, v in node.kwargs.items() if k not in _LAYOUT}
        for name, a in kwargs.items():
            if isinstance(a, Value):
                if name not in FACTORS or row.domain != "promote":
                    raise Unsupported("a parameter that is known only at run time")
                kwargs[name] = self.operand(a, wanted, index, wide=name != "alpha")
            elif name == "alpha" and wanted in HALVES and not _wide(node, 1):
                kwargs[name] = rounded(float(a), wanted)
        if row.domain == "compare":
            common = self._common(numbers)
            domains = [common] * len(numbers)
        elif row.domain == "logic":
            domains = ["bool"] * len(numbers)
        elif row.domain == "exact" and wanted in HALVES:
            raise Unsupported("torch rounds each step of this op to the half type")
        elif row.domain in ("select", "masked_fill"):
            domains = [wanted] * len(numbers)
            domains[row.domain == "masked_fill"] = "bool"
        else:
            domains = [wanted] * len(numbers)
        compute = row.domain in ("promote", "exact", "compare")
        terms = [
            self.operand(a, d, index, compute, _wide(node, place))
            for place, (a, d) in enumerate(zip(numbers, domains, strict=True))
        ]
        return _formula(node, row, wanted)(*terms, *rest, **kwargs).cast(wanted)

    def _common(self, numbers: Sequence[Any]) -> str:
        """The dtype that comparisons are made in."""
        return DTYPE_NAMES[result_type(*(self._example(a) for a in numbers))]

    def _example(self, a: Any) -> Any:
        if not isinstance(a, Value):
            return a
        return a.type.kind(1) if isinstance(a.type, ScalarType) else self.metas[a]

    def operand(
        self, a: Any, dtype: str, index: Index, compute: bool = True, wide: bool = False
    ) -> Any:
        """An argument at the broadcast index: a term of ``dtype`` (f32 for halves when computing), or None.

        ``wide``: a number is not rounded to the half type before.
        """
        into = compute_dtype(dtype) if compute else dtype
        if a is None:
            return None
        if not isinstance(a, Value):
            return self.maker.const(a, into if wide else dtype).cast(into)
        if isinstance(a.type, ScalarType):
            return self._load(a, ()).cast(into if wide else dtype).cast(into)
        if not isinstance(a.type, TensorType):
            raise Unsupported(f"a value of type {a.type}")
        size = self.size(a)
        return (
            self.at(a, broadcast(index, size)).cast(into if wide and not size else dtype).cast(into)
        )

    def count(self, size: Open) -> Term:
        """A size that is known only at run time, as i64."""
        return self.maker.term(self.maker.make("scalar", "i64", name=size.name))

    # ---- reductions

    def compute_at(self, value: Value, index: Index) -> Term:
        """``at`` in the dtype that torch computes in."""
        return self.at(value, index).cast(compute_dtype(self.dtype(value)))

    def fold(self, kind: str, index: Index, dims: Sequence[int], sizes: Sequence[int],
             body: Callable[[Index], Term]) -> Term:  # fmt: skip
        """``body`` at ``index`` with row variables at ``dims``, folded over the row."""
        inner = self.over_row(index, dims, sizes)
        term = body(inner)
        if self.row == ():
            return term
        return self.maker.reduce(kind, term)

    def over_row(self, index: Index, dims: Sequence[int], sizes: Sequence[int]) -> Index:
        """``index`` with row variables in the place of ``dims``."""
        rest = tuple(at for d, at in enumerate(index) if d not in dims)
        if self.in_row(rest):
            raise Unsupported("a reduction inside of a row")
        found = list(index)
        for d, at in zip(dims, self.row_index([sizes[d] for d in dims]), strict=True):
            found[d] = at
        return tuple(found)

    # ---- the kernel

    def kernel(self, name: str) -> Kernel:
        stores = [
            self._store(i, v, index)
            for i, (v, index) in enumerate(zip(self.region.outputs, self._roots(), strict=True))
        ]
        body = ordered([s.value for s in stores])
        used = {e.name for e in body if e.op in ("load", "scalar")}
        buffers, scalars = [], []
        for value, place in self.places.items():
            if isinstance(value.type, ScalarType):
                if f"s{place}" in used:
                    scalars.append(Scalar(f"s{place}", self.dtype(value)))
            elif f"p{place}" in used:
                buffers.append(Buffer(f"p{place}", self.dtype(value)))
        for i, v in enumerate(self.region.outputs):
            buffers.append(Buffer(f"o{i}", self.dtype(v), written=True))
        loops = [(n, s.name if isinstance(s, Open) else s) for n, s in sorted(self.sizes.items())]
        known = {e.name for e in body if e.op == "scalar"} - {s.name for s in scalars}
        addresses = [*(e.address for e in body if e.address), *(s.address for s in stores)]
        steps = {step for a in addresses for _, step in (*a.terms, *a.gathers) if type(step) is str}
        sizes = sorted({s for _, s in loops if type(s) is str} | known | steps)
        return Kernel(
            name,
            tuple(Dim(n, s) for n, s in loops if not n.startswith("r")),
            tuple(Dim(n, s) for n, s in loops if n.startswith("r")),
            tuple(buffers), tuple(scalars), tuple(sizes), tuple(body), tuple(stores), self._comments(),
        )  # fmt: skip

    def _store(self, i: int, value: Value, index: Index) -> Store:
        address = Affine()
        for at, stride in zip(index, self.metas[value].stride, strict=True):
            address = address + at.scaled(stride)
        return Store(f"o{i}", address, self.at(value, index).expr)

    def _roots(self) -> list[Index]:
        """The index of each output in the loops of the kernel."""
        sizes = [self.size(v) for v in self.region.outputs]
        full = max(sizes, key=lambda s: (math.prod(map(bound, s)), len(s)))
        reduced = row_of(self.region.nodes, full, self.metas)
        names = iter(range(len(full)))
        index = []
        row = iter(self.row_index([full[d] for d in reduced]) if reduced else ())
        for d, n in enumerate(full):
            index.append(next(row) if d in reduced else self.loop(f"i{next(names):02}", n))
        kept = tuple(at for d, at in enumerate(index) if d not in reduced)
        forms = {
            full: tuple(index),
            tuple(1 if d in reduced else n for d, n in enumerate(full)): tuple(
                Affine() if d in reduced else at for d, at in enumerate(index)
            ),
            tuple(n for d, n in enumerate(full) if d not in reduced): kept,
        }
        forms[full] = tuple(index)
        if any(s not in forms for s in sizes):
            raise Unsupported("outputs of different shapes")
        return [forms[s] for s in sizes]

    def _comments(self) -> tuple[str, ...]:
        return tuple(
            f"{n.location[0]}:{n.location[1]} {n.op}" if n.location is not None else n.op
            for n in self.region.nodes
        )


_LAYOUT = frozenset(["dtype", "device", "layout", "memory_format", "pin_memory", "non_blocking"])


def build(region: Region, metas: Mapping[Value, Meta], name: str) -> Kernel:
    """The kernel of a region, for the sizes and strides in ``metas``; ``Unsupported`` where there is none."""
    if any(type(n) not in (int, Open) or n == 0 for m in metas.values() for n in m.size):
        raise Unsupported("sizes that are not known, or empty tensors")
    splits: dict[str, int] = {}
    for _ in range(MAX_SPLITS):
        try:
            kernel = simplify(Builder(region, metas, splits).kernel(name))
        except Split as split:
            splits[split.name] = split.inner
            continue
        verify(kernel)
        return kernel
    raise Unsupported("too many regrouped dimensions")


__all__ = ["Builder", "Expr", "Region", "build", "compute_dtype", "expressible"]
