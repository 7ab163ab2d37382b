"""Lists as a tensor of rows and a length: for systems whose values are tensors of a fixed shape.

Model. A list is a buffer ``[capacity, *shape]`` and a number, how many rows count. Outside of loops a push makes the buffer
a row longer. The state of a loop keeps its shape, so the buffer is made long enough before the loop: by the growth of one
iteration times their number where the loop counts; otherwise by what the loop says when it runs once for the
lengths alone (``lengths``); where those depend on what is in the list, by ``capacity``, which the user states. What
an iteration leaves beyond the capacity was never part of the list, and is cut off.

``Capacity`` is what is known of a buffer's rows: those of another value (or none) and a number of more.
Not there: items whose sizes only the run knows, since rows are of one shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..graph.ir import Graph, Node, Value
from ..graph.types import BOOL, INT, ListType, ScalarType, TensorType, Type, device_of
from .expansion import Expansion, Parts
from .lengths import count_rows
from .trips import trips

DEFAULT = TensorType(torch.float32, ())
BIG = "a list of more items than list_capacity"


class Capacity(NamedTuple):
    """The rows of ``base`` (a buffer of the same graph), and ``more``."""

    base: Value | None
    more: int


class Buffers(Expansion):
    """See the module. ``capacity``: rows for lists whose length nothing else says."""

    def __init__(self, source: Graph, system: str, outer: Expansion | None = None, capacity: int | None = None):  # fmt: skip
        super().__init__(source, system, outer)
        self.capacity = capacity
        self.rows: dict[Value, Capacity] = {}

    def inner(self, region: Graph) -> Any:
        return Buffers(region, self.system, self, self.capacity).run()

    def split(self, kind: Type) -> list[Type] | None:
        if not isinstance(kind, ListType):
            return None
        row = self.row_type(kind)
        return [TensorType(row.dtype, (None, *row.shape), row.device), INT]

    def row_type(self, kind: ListType) -> TensorType:
        """The type of a row."""
        element = kind.element or DEFAULT
        if isinstance(element, ScalarType):
            return TensorType(element.dtype, ())
        if None in element.shape:
            raise self.refuse(f"a list whose items have sizes that only the run knows ({kind})")
        return element

    def row_of(self, buffer: Value) -> TensorType:
        return TensorType(buffer.type.dtype, buffer.type.shape[1:], buffer.type.device)

    # ---- buffers

    def known(self, buffer: Value) -> Capacity:
        return self.rows.setdefault(buffer, Capacity(buffer, 0))

    def buffer(self, like: Value, op: str, args: Sequence[Any], rows: Capacity | None, **kwargs: Any) -> Value:  # fmt: skip
        """A new buffer of the same rows."""
        count = rows.more if rows is not None and rows.base is None else None
        kind = TensorType(like.type.dtype, (count, *like.type.shape[1:]), like.type.device)
        made = self.emit(op, *args, type=kind, **kwargs)
        if rows is not None:
            self.rows[made] = rows
        return made

    def zeros(self, row: TensorType, count: Any) -> Value:
        """Rows of zeros; ``count`` may be a number that only the run knows."""
        static = count if isinstance(count, int) else None
        kind = TensorType(row.dtype, (static, *row.shape), row.device)
        made = self.emit("aten.zeros.default", [count, *row.shape], type=kind, dtype=row.dtype, device=device_of(row))  # fmt: skip
        if static is not None:
            self.rows[made] = Capacity(None, static)
        return made

    def longer(self, buffer: Value, count: Any) -> Value:
        """The buffer with ``count`` more rows."""
        if isinstance(count, int) and count <= 0:
            return buffer
        base, more = self.known(buffer)
        rows = Capacity(base, more + count) if isinstance(count, int) else None
        return self.joined(buffer, self.zeros(self.row_of(buffer), count), rows)

    def joined(self, a: Value, b: Value, rows: Capacity | None) -> Value:
        return self.buffer(a, "aten.cat.default", ([a, b], 0), rows)

    def shorter(self, buffer: Value, count: int) -> Value:
        """The buffer without its last ``count`` rows."""
        base, more = self.known(buffer)
        rows = Capacity(base, more - count) if base is not None or more >= count else None
        return self.buffer(buffer, "aten.slice.Tensor", (buffer, 0, 0, -count), rows)

    def size(self, buffer: Value) -> Any:
        """The rows, as a number."""
        base, more = self.known(buffer)
        return more if base is None else self.emit("py.size", buffer, 0, type=INT)

    def positions(self, buffer: Value) -> Value:
        """0, 1, ... for each row."""
        kind = TensorType(torch.int64, buffer.type.shape[:1], buffer.type.device)
        return self.emit("aten.arange.default", self.size(buffer), type=kind, dtype=torch.int64, device=device_of(buffer.type))  # fmt: skip

    def number(self, op: str, *args: Any, type: Type = INT) -> Any:
        """``op`` of numbers; known ones are computed now."""
        if op in _NOW and not any(isinstance(a, Value) for a in args):
            return _NOW[op](*args)
        return self.emit(op, *args, type=type)

    def place(self, n: Any, device: str) -> Value:
        """A number as a tensor of one place."""
        kind = TensorType(torch.int64, (), device)
        made = self.emit("aten.scalar_tensor.default", n, type=kind, dtype=torch.int64, device=device_of(kind))  # fmt: skip
        return self.emit("aten.reshape.default", made, [1], type=TensorType(torch.int64, (1,), device))  # fmt: skip

    def row(self, v: Any, row: TensorType) -> Value:
        """An item as one row."""
        if not isinstance(v, Value) or isinstance(v.type, ScalarType):
            kind = TensorType(row.dtype, (), row.device)
            v = self.emit("aten.scalar_tensor.default", v, type=kind, dtype=row.dtype, device=device_of(row))  # fmt: skip
        return self.emit("aten.unsqueeze.default", v, 0, type=TensorType(row.dtype, (1, *row.shape), row.device))  # fmt: skip

    def put(self, buffer: Value, n: Any, row: Value) -> Value:
        """The buffer with another row at a place."""
        at = self.place(n, buffer.type.device)
        return self.buffer(buffer, "aten.index_copy.default", (buffer, 0, at, row), self.known(buffer))  # fmt: skip

    def taken(self, buffer: Value, n: Any, kind: Type) -> Value:
        """The row at a place that exists, as an item of type ``kind``."""
        made = self.emit("aten.select.int", buffer, 0, n, type=self.row_of(buffer))
        if isinstance(kind, ScalarType):
            return self.emit(f"py.{kind.kind.__name__}", made, type=kind)
        return made

    def gathered(self, buffer: Value, places: Value, rows: Capacity | None) -> Value:
        return self.buffer(buffer, "aten.index_select.default", (buffer, 0, places), rows)

    def pointwise(self, op: str, *args: Any, dtype: torch.dtype = torch.int64) -> Value:
        like = next(a for a in args if isinstance(a, Value) and isinstance(a.type, TensorType))
        return self.emit(op, *args, type=TensorType(dtype, like.type.shape, like.type.device))

    def counted(self, mask: Value) -> Value:
        """A mask as ones and zeros."""
        return self.emit("aten._to_copy.default", mask, type=TensorType(torch.int64, mask.type.shape, mask.type.device), dtype=torch.int64)  # fmt: skip

    def content(self, buffer: Value, n: Any) -> Value:
        """The rows that count."""
        base, more = self.known(buffer)
        if base is None and not isinstance(n, Value) and n == more:
            return buffer
        mask = self.pointwise("aten.lt.Scalar", self.positions(buffer), n, dtype=torch.bool)
        return self.buffer(buffer, "aten.index.Tensor", (buffer, [mask]), None)

    def check(self, condition: Any, kind: str, text: str) -> None:
        if condition is not True:
            self.emit_many("tg.assert", (condition, kind, (text,)), [])

    def index(self, n: Any, i: Any, text: str = "list index out of range") -> Any:
        """An index from either end as a place, checked."""
        if isinstance(i, Value) and isinstance(i.type, TensorType):
            i = self.emit("py.int", i, type=INT)
        if isinstance(i, int):
            at = i if i >= 0 else self.number("py.add", n, i)
        else:
            below = self.number("py.lt", i, 0, type=BOOL)
            at = self.number("py.select", below, self.number("py.add", i, n), i)
        return self.within(at, n, text)

    def within(self, at: Any, n: Any, text: str) -> Any:
        low = self.number("py.ge", at, 0, type=BOOL)
        high = self.number("py.lt", at, n, type=BOOL)
        self.check(self.number("py.and_", low, high, type=BOOL), "IndexError", text)
        return at

    # ---- regions

    def region(self, node: Node) -> Sequence[Parts]:
        kinds = [self.split(v.type) or [v.type] for v in node.outputs]
        if not any(isinstance(v.type, ListType) for v in node.outputs):
            return super().region(node)
        if node.op == "If":
            return self._if(node, kinds)
        if node.op == "While":
            return self._while(node, kinds)
        raise self.refuse(f"a list that {node.op} gives")

    def _if(self, node: Node, kinds: Sequence[Sequence[Type]]) -> list[Parts]:
        """Both branches give buffers of as many rows, where that is known."""
        inners = {name: self.inner(region) for name, region in node.regions.items()}
        found: dict[int, Capacity] = {}
        for i in (i for i, v in enumerate(node.outputs) if isinstance(v.type, ListType)):
            branches = [(e, self._starts(e, node.args[1:])) for e in inners.values()]
            rows = _join([e.left(i, starts) for e, starts in branches])
            if rows is not None:
                found[i] = rows
                for e, starts in branches:
                    e.leave(i, rows, starts)
        regions = {name: e.finish() for name, e in inners.items()}
        made = self.rebuilt(node, self.flat(node.args), regions, node.kwargs, kinds)
        for i, rows in found.items():
            self.rows[made[i][0]] = rows
        return made

    def _starts(self, inner: Buffers, args: Sequence[Any]) -> dict[Value, Capacity]:
        """The buffers that a region takes, and what is known of each here."""
        return {inner.parts[v][0]: self.known(self.parts[a][0]) for v, a in zip(inner.source.inputs, args)
                if isinstance(a, Value) and isinstance(v.type, ListType)}  # fmt: skip

    def left(self, i: int, starts: dict[Value, Capacity]) -> list[Capacity] | None:
        """What may be said of the rows of output ``i`` around the region; None: nothing."""
        base, more = self.known(self.parts[self.source.outputs[i]][0])
        if base is None:
            outer = [Capacity(c.base, c.more + more) for c in starts.values() if c.base is not None]
            return [Capacity(None, more), *outer]
        if base not in starts:
            return None
        return [Capacity(starts[base].base, starts[base].more + more)]

    def leave(self, i: int, rows: Capacity, starts: dict[Value, Capacity]) -> None:
        """Let output ``i`` have ``rows`` rows, said of the buffers around."""
        out = self.source.outputs[i]
        self.at = out.node or self.at
        buffer, n = self.parts[out]
        base, more = self.known(buffer)
        own = Capacity(None, more) if base is None else Capacity(starts[base].base, starts[base].more + more)  # fmt: skip
        if own.base is None and rows.base is not None:
            start = next(v for v, c in starts.items() if c.base is rows.base)
            zeros = self.buffer(start, "aten.zeros_like.default", (start,), self.known(start))
            buffer = self.joined(buffer, zeros, Capacity(start, more))
            own = Capacity(rows.base, starts[start].more + more)
        self.parts[out] = (self.longer(buffer, rows.more - own.more), n)

    def _while(self, node: Node, kinds: Sequence[Sequence[Type]]) -> list[Parts]:
        """Buffers long enough for the whole loop before it."""
        inner = self.inner(node.regions["body"])
        count = node.kwargs["carried"]
        args = [self.parts[a] if isinstance(a, Value) else (a,) for a in node.args]
        needs = {}
        for i in (i for i in range(count) if isinstance(node.outputs[i].type, ListType)):
            start, out = inner.source.inputs[i], inner.source.outputs[i]
            needs[i] = _growth(inner, inner.parts[start][0], inner.parts[out][0])
        args = [tuple(a) for a in args]
        for i, buffer in self._prepared(node, needs, args).items():
            args[i] = (buffer, args[i][1])
        stated = [i for i in needs if self.capacity is not None and self._open(node, needs[i])]
        for i in needs:
            inner.trim(i, checked=i in stated)
        regions = {"cond": self.inner(node.regions["cond"]).finish(), "body": inner.finish()}
        kwargs = {**node.kwargs, "carried": sum(len(ks) for ks in kinds)}
        made = self.rebuilt(node, [p for a in args for p in a], regions, kwargs, kinds)
        for i in needs:
            self.rows[made[i][0]] = self.known(args[i][0])
        return made

    def _open(self, node: Node, growth: int | None) -> bool:
        """Whether only running the loop tells how many rows a list needs."""
        return growth is None or (growth > 0 and trips(node) is None)

    def _prepared(self, node: Node, needs: dict[int, int | None], args: list[Parts]) -> dict[int, Value]:  # fmt: skip
        """The buffers that the loop begins with."""
        made: dict[int, Value] = {}
        unknown = [i for i, growth in needs.items() if self._open(node, growth)]
        if unknown and self.capacity is not None:
            for i in unknown:
                more = self.number("py.sub", self.capacity, self.size(args[i][0]))
                made[i] = self.longer(args[i][0], self.number("py.max", more, 0))
        elif unknown:
            for i, rows in zip(unknown, count_rows(self, node, unknown)):
                more = self.number("py.sub", rows, self.size(args[i][0]))
                made[i] = self.longer(args[i][0], self.number("py.max", more, 0))
        for i, growth in needs.items():
            if i in unknown:
                continue
            if growth is not None and growth > 0:
                bound = trips(node)
                bound = bound(self) if callable(bound) else bound
                made[i] = self.longer(args[i][0], self.number("py.mul", bound, growth))
            else:
                made[i] = args[i][0]
        return made

    def trim(self, i: int, checked: bool) -> None:
        """Give the buffer that an iteration leaves as state ``i`` as many rows as it began with."""
        self.at = self.source.outputs[i].node or self.at
        start, n = self.parts[self.source.inputs[i]][0], self.parts[self.source.outputs[i]][1]
        buffer = self.parts[self.source.outputs[i]][0]
        base, more = self.known(buffer)
        if checked:
            size = self.size(start)
            self.check(self.number("py.le", n, size, type=BOOL), "RuntimeError", BIG)
        if base is start:
            cut = self.shorter(buffer, more) if more > 0 else self.longer(buffer, -more)
        else:
            cut = self._fitted(buffer, start)
        self.parts[self.source.outputs[i]] = (cut, n)

    def _fitted(self, buffer: Value, start: Value) -> Value:
        """The first rows of a buffer, as many as those of another one."""
        zeros = self.buffer(start, "aten.zeros_like.default", (start,), self.known(start))
        both = self.joined(buffer, zeros, None)
        size = self.size(start)
        return self.buffer(both, "aten.slice.Tensor", (both, 0, 0, size), self.known(start))


def _join(found: Sequence[list[Capacity] | None]) -> Capacity | None:
    """The rows that are enough for all branches, None where that is not known."""
    lists = [c for c in found if c is not None]
    if len(lists) < len(found):
        return None
    for base in dict.fromkeys(c.base for cs in lists for c in cs):
        mores = [[c.more for c in cs if c.base is base] for cs in lists]
        if all(mores):
            return Capacity(base, max(map(max, mores)))
    return None


def _growth(inner: Buffers, start: Value, end: Value) -> int | None:
    """By how many rows an iteration makes the buffer longer; None where that is not a number."""
    base, more = inner.known(end)
    return more if base is start else None


_NOW = {"py.add": lambda a, b: a + b, "py.sub": lambda a, b: a - b, "py.mul": lambda a, b: a * b, "py.max": max, "py.min": min,
        "py.lt": lambda a, b: a < b, "py.le": lambda a, b: a <= b, "py.ge": lambda a, b: a >= b,
        "py.and_": lambda a, b: a and b, "py.select": lambda c, a, b: a if c else b}  # fmt: skip
