"""Matrix products of static sizes as generated micro-kernels.

A micro-kernel keeps a tile of the result in vector registers while it walks along the shared dimension. Three forms:

``panel``  B is contiguous along its columns: a tile is some rows times some vectors of columns; each step loads vectors of B
           and multiplies them with single elements of A, whose strides do not matter.
``dots``   B is contiguous along the shared dimension, as in ``x @ w.t()`` and ``a @ v``: a tile is some rows times some
           columns, each the running vector of a dot product, folded at the end.

``stream`` one row times a matrix of the first kind that no cache holds: rows of B are read one after the other, a few at a
           time, and added to the result, which stays in the cache.

``blocks`` the first form along a shared dimension whose length only the run knows: in pieces, so that a piece of both matrices
           stays in the cache, each added to the result.

Sizes need not be multiples of a tile: the last tiles are smaller, and the last vector of columns is masked. Anything else
(B strided both ways) is copied into one of these forms first. Large products are split over torch's threads by panels.
Products are fused multiply-adds in the matrices' dtype, f32 or f64; other dtypes have no native form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir import Node
from ..kernels.jit import host
from ..kernels.loop_ir import Open, bound
from . import threading
from .code import REGISTER, SIZE, UNROLL, Code, literal
from .groups import ALONE
from .values import Decline, Mem, Operand, numel, strides

SHALLOW = 64  # a shared dimension that is short
DEPTH = 256  # of a piece of the shared dimension
CHUNK = 64  # rows of the result that one thread takes at a time, in pieces
PARALLEL = 1 << 20  # multiply-adds from which on a product uses torch's threads
FAR = 1 << 20  # bytes from which on a matrix is streamed
STREAMED, PANEL = 8, 1024  # rows of B at a time, and columns
ACCUMULATORS = 24  # vector registers for the tile, of 32; of 16 without AVX-512


@dataclass(frozen=True)
class Matrix:
    """``rows`` x ``columns`` elements at ``pointer``; in a batch the next matrix is ``apart`` elements further on."""

    pointer: str
    rows: int | Open
    columns: int | Open
    row_stride: int
    column_stride: int
    apart: int = 0


def lower(low, node: Node) -> None:
    """Write a matrix product and bind its result."""
    if node.op not in ALONE or node.kwargs or len(node.args) > 3:
        raise Decline(f"{node.op} with factors")
    name = node.op.split(".")[1]
    bias = node.args[0] if name in ("addmm", "baddbmm") else None
    a, b = (low.operand(x) for x in node.args[(bias is not None) :])
    out = node.outputs[0]
    dtype, size = low.tensor(out)
    if dtype not in ("f32", "f64"):
        raise Decline(f"{node.op} in {dtype}")
    target = low.target(out)
    a, b = low.memory(a), low.memory(b)
    added = None if bias is None else _bias(low, low.operand(bias), size)
    batch = a.size[0] if name in ("bmm", "baddbmm") else 1
    left, right, result = _matrices(name, a, b, target)
    if _columns_first(left, right, added) and batch == 1:
        # x.t() @ v: the row v times x, whose rows are contiguous
        left, right, result = _transposed(right), _transposed(left), _transposed(result)
        added = None if added is None else _as_row(added)
    right = _usable(low, left, right, b, batch)
    _product(low, dtype, batch, left, right, result, added)
    low.work += 0.05 * batch * left.rows * _usual(left.columns) * right.columns
    if numel(size) == 1:
        made = low.register(Mem(target.pointer, dtype, size, strides(size)))
        low.bind(out, made)
    else:
        low.bind(out, target)


def deep(low, node: Node) -> bool:
    """Whether a product's shared dimension, and nothing else, has a length that only the run knows."""
    if node.op not in ("aten.mm.default", "aten.addmm.default") or node.kwargs:
        return False
    a, b = (low.operand(x) for x in node.args[-2:])
    if not isinstance(a, Mem) or not isinstance(b, Mem) or a.dtype not in ("f32", "f64"):
        return False
    opened = [isinstance(n, Open) for n in (*a.size, *b.size)]
    return opened == [False, True, True, False] and (b.stride[1] == 1 or b.size[1] == 1)


def column_sums(low, node: Node) -> bool:
    """Write the sum over a first dimension whose length only the run knows, as ones times a matrix; whether it is one."""
    x = low.env.get(node.args[0]) if node.op == "aten.sum.dim_IntList" and not node.kwargs else None
    if not isinstance(x, Mem) or x.dtype not in ("f32", "f64") or not x.packed or list(node.args[1]) != [0]:  # fmt: skip
        return False
    if not isinstance(x.size[0], Open) or any(isinstance(n, Open) for n in x.size[1:]):
        return False
    out = node.outputs[0]
    columns = numel(x.size[1:])
    if columns == 1 or low.tensor(out)[0] != x.dtype:
        return False
    one = low.code.cell("i64")
    low.code.store(x.dtype, literal(1.0, x.dtype), one)
    target = low.target(out)
    ones = Matrix(one, 1, x.size[0], 0, 0)
    _product(low, x.dtype, 1, ones, Matrix(x.pointer, x.size[0], columns, columns, 1), Matrix(target.pointer, 1, columns, columns, 1), None)  # fmt: skip
    low.bind(out, target)
    return True


def _matrices(name: str, a: Mem, b: Mem, c: Mem) -> tuple[Matrix, Matrix, Matrix]:
    """The operands as (batches of) matrices: vectors become single columns."""

    def of(x: Mem) -> Matrix:
        (rows, columns), (down, across) = x.size[-2:], x.stride[-2:]
        return Matrix(
            x.pointer, rows, columns, down, across, x.stride[0] if len(x.size) == 3 else 0
        )

    if name == "mv":
        n, k = a.size
        return of(a), Matrix(b.pointer, k, 1, b.stride[0], 0), Matrix(c.pointer, n, 1, 1, 1)
    if name == "dot":
        (k,) = a.size
        return (
            Matrix(a.pointer, 1, k, 0, a.stride[0]),
            Matrix(b.pointer, k, 1, b.stride[0], 0),
            Matrix(c.pointer, 1, 1, 1, 1),
        )
    return of(a), of(b), of(c)


def _columns_first(a: Matrix, b: Matrix, bias: Mem | None) -> bool:
    """Whether a matrix times one column has its rows strided and its columns contiguous."""
    down = 0 if bias is None else bias.stride[-2]
    return b.columns == 1 and a.rows > 1 and a.row_stride == 1 and down in (0, 1)


def _transposed(x: Matrix) -> Matrix:
    return Matrix(x.pointer, x.columns, x.rows, x.column_stride, x.row_stride, x.apart)


def _as_row(x: Mem) -> Mem:
    """What is added to a single column, as what is added to a single row."""
    return Mem(x.pointer, x.dtype, (1, x.size[-2]), (0, x.stride[-2]), x.owners)


def _bias(low, x: Operand, size: tuple[int, ...]) -> Mem:
    """What is added, as memory with the strides of a broadcast to the result."""
    x = low.memory(x)
    lead = len(size) - len(x.size)
    stride = [0] * lead + [s if x.size[i] == size[lead + i] else 0 for i, s in enumerate(x.stride)]
    return Mem(x.pointer, x.dtype, size, tuple(stride), x.owners)


def _usable(low, a: Matrix, b: Matrix, source: Mem, batch: int) -> Matrix:
    """``b``, or a copy of it that one of the two forms can read."""
    # folding many short dot products costs more than a copy
    shallow = a.rows >= 8 and bound(b.rows) < SHALLOW
    if b.column_stride == 1 or (b.row_stride == 1 and a.column_stride == 1 and not shallow):
        return b
    if b.columns == 1 and b.row_stride == 1 and a.column_stride == 1:
        return b
    made = low.contiguous(source) if not source.contiguous else source
    if made is source and b.columns != 1:
        made = low.new(source.dtype, source.size)
        low.copy(source, made)
    if b.columns == 1:
        return Matrix(made.pointer, b.rows, 1, 1, 1, b.rows)
    return Matrix(made.pointer, b.rows, b.columns, b.columns, 1, b.rows * b.columns)


def _product(low, dtype: str, batch: int, a: Matrix, b: Matrix, c: Matrix, bias: Mem | None) -> None:  # fmt: skip
    panel = b.column_stride == 1
    writer = _Writer(low, dtype, a, b, c, bias, panel)
    name = low.function("product", writer.function())
    units = writer.units
    pointers = [a.pointer, b.pointer, c.pointer, *([bias.pointer] if bias is not None else [])]
    work = a.rows * _usual(a.columns) * b.columns
    steps = [0] * len(pointers) if batch == 1 else _steps(dtype, a, b, c, bias)
    if isinstance(a.columns, Open):
        pointers.append(low.code.do(f"inttoptr i64 {low.sizes.text(a.columns)} to ptr"))
        steps.append(0)
    for i in range(batch):
        at = [
            low.code.do(f"getelementptr i8, ptr {p}, i64 {i * s}") if i * s else p
            for p, s in zip(pointers, steps, strict=True)
        ]
        _call(low, name, at, units, work >= PARALLEL)


def _usual(n: int | Open) -> int:
    """A length to reckon with."""
    return min(bound(n), 1 << 12)


def _steps(dtype: str, a: Matrix, b: Matrix, c: Matrix, bias: Mem | None) -> list[int]:
    """Bytes from one matrix of a batch to the next."""
    out = [x.apart * SIZE[dtype] for x in (a, b, c)]
    if bias is not None:
        out.append(bias.stride[0] * SIZE[dtype] if len(bias.size) == 3 else 0)
    return out


def _call(low, name: str, pointers: list[str], units: int, parallel: bool) -> None:
    code = low.code
    if not parallel or units < 2 or not threading.available():
        given = ", ".join(f"ptr {p}" for p in pointers)
        code.line(f"call void @{name}({given}, i64 0, i64 {units})")
        return
    block = code.cell(f"[{len(pointers)} x ptr]")
    for i, p in enumerate(pointers):
        code.line(f"store ptr {p}, ptr {code.do(f'getelementptr ptr, ptr {block}, i64 {i}')}")
    loads = "".join(
        f"  %q{i} = getelementptr ptr, ptr %block, i64 {i}\n  %p{i} = load ptr, ptr %q{i}\n"
        for i in range(len(pointers))
    )
    given = ", ".join(f"ptr %p{i}" for i in range(len(pointers)))
    task = low.function(
        f"{name}_chunk",
        f"(i64 %begin, i64 %end, ptr %block) #0 {{\n{loads}"
        f"  call void @{name}({given}, i64 %begin, i64 %end)\n  ret void\n}}\n",
    )
    threading.call(low, f"{name}_{len(low.globals)}", task, block, units, 1)


class _Writer:
    """Writes the function of one product: it computes the panels ``begin`` to ``end`` of the result."""

    def __init__(self, low, dtype: str, a: Matrix, b: Matrix, c: Matrix, bias, panel: bool):
        self.dtype, self.kind, self.a, self.b, self.c, self.bias = dtype, REGISTER[dtype], a, b, c, bias  # fmt: skip
        self.width = host().vector_bytes // SIZE[dtype]
        self.vector = f"<{self.width} x {self.kind}>"
        self.suffix = f"v{self.width}f{8 * SIZE[dtype]}"
        self.code = Code("m")
        self.code.declares = low.code.declares
        room = ACCUMULATORS if host().avx512 else 12
        if panel:
            vectors = -(-b.columns // self.width)
            self.rows = min(a.rows, 8)
            self.columns = min(vectors, max(1, room // self.rows))
            self.units = -(-vectors // self.columns)
        else:
            self.columns = min(b.columns, 4)
            self.rows = min(a.rows, 4 if self.columns > 1 else 8)
            self.units = -(-a.rows // self.rows)
        self.panel = panel
        self.adds = bias is not None and bias.pointer == c.pointer  # to what is there
        self.deep = isinstance(a.columns, Open)
        if self.deep:
            self.chunks = -(-a.rows // CHUNK)
            self.units *= self.chunks
        self.stream = (
            panel and a.rows == 1 and not self.deep and b.rows * b.columns * SIZE[dtype] >= FAR
        )
        if self.stream:
            self.columns = min(vectors, PANEL // self.width)
            self.units = -(-vectors // self.columns)

    def function(self) -> str:
        """The text, from the parameters on."""
        code = self.code
        body = self._panels if self.panel else self._row_blocks
        self.depth_place = code.later()
        if self.deep:
            body = self._pieces
        _loop(code, "%begin", "%end", 1, body)
        code.line("ret void")
        alone = "" if self.adds else " noalias"
        params = f"ptr noalias %A, ptr noalias %B, ptr{alone} %C, "
        if self.bias is not None:
            params += f"ptr{alone} %D, "
        if self.deep:
            params += "ptr %depth, "
            code.fill(self.depth_place, "%K = ptrtoint ptr %depth to i64")
        text = "\n".join(line for line in code.lines if line)
        return f"({params}i64 %begin, i64 %end) noinline #0 {{\n{text}\n}}\n"

    # ---- addresses and vectors

    def at(self, base: str, *terms: tuple[str, int]) -> str:
        """The address of an element: ``base`` plus the sum of index * stride."""
        total = "0"
        for index, stride in terms:
            total = self.code.add(total, self.code.multiply(index, stride))
        return self.code.element(self.dtype, base, total)

    def splat(self, x: str) -> str:
        v = self.code.do(f"insertelement {self.vector} poison, {self.kind} {x}, i32 0")
        return self.code.do(f"shufflevector {self.vector} {v}, {self.vector} poison, <{self.width} x i32> zeroinitializer")  # fmt: skip

    def fma(self, a: str, b: str, c: str) -> str:
        if not host().fma:
            product = self.code.do(f"fmul {self.vector} {a}, {b}")
            return self.code.do(f"fadd {self.vector} {product}, {c}")
        name = f"llvm.fma.{self.suffix}"
        self.code.declare(name, f"{self.vector} {{}}({', '.join([self.vector] * 3)})")
        return self.code.do(f"call {self.vector} @{name}({self.vector} {a}, {self.vector} {b}, {self.vector} {c})")  # fmt: skip

    def mask(self, lanes: int) -> str:
        bits = ", ".join(f"i1 {'true' if k < lanes else 'false'}" for k in range(self.width))
        return f"<{bits}>"

    def load(self, pointer: str, lanes: int) -> str:
        align = SIZE[self.dtype]
        if lanes == self.width:
            return self.code.do(f"load {self.vector}, ptr {pointer}, align {align}")
        name = f"llvm.masked.load.{self.suffix}.p0"
        kinds = f"ptr, i32, <{self.width} x i1>, {self.vector}"
        self.code.declare(name, f"{self.vector} {{}}({kinds})")
        return self.code.do(f"call {self.vector} @{name}(ptr {pointer}, i32 {align}, <{self.width} x i1> {self.mask(lanes)}, {self.vector} zeroinitializer)")  # fmt: skip

    def store(self, value: str, pointer: str, lanes: int) -> None:
        align = SIZE[self.dtype]
        if lanes == self.width:
            self.code.line(f"store {self.vector} {value}, ptr {pointer}, align {align}")
            return
        name = f"llvm.masked.store.{self.suffix}.p0"
        self.code.declare(name, f"void {{}}({self.vector}, ptr, i32, <{self.width} x i1>)")
        self.code.line(f"call void @{name}({self.vector} {value}, ptr {pointer}, i32 {align}, <{self.width} x i1> {self.mask(lanes)})")  # fmt: skip

    # ---- columns of B are contiguous

    def _panels(self, panel: str) -> None:
        """One panel of columns, all rows. The last panel may be narrower."""
        step = self.columns * self.width
        full = self.b.columns // step
        first = self.code.multiply(panel, step)
        rest = self.b.columns - full * step
        if not rest:
            self._panel(first, step)
        elif not full:
            self._panel(first, rest)
        else:
            _choice(self.code, f"icmp slt i64 {panel}, {full}",
                    lambda: self._panel(first, step), lambda: self._panel(first, rest))  # fmt: skip

    def _panel(self, first: str, columns: int) -> None:
        if self.stream:
            self._stream(first, columns)
            return
        whole = self.a.rows - self.a.rows % self.rows
        if whole:
            _loop(self.code, "0", str(whole), self.rows, lambda r: self._tile(r, self.rows, first, columns))  # fmt: skip
        if self.a.rows - whole:
            self._tile(str(whole), self.a.rows - whole, first, columns)

    # ---- in pieces of the shared dimension

    def _pieces(self, unit: str) -> None:
        """One chunk of rows of one panel."""
        code = self.code
        panel, chunk = code.do(f"udiv i64 {unit}, {self.chunks}"), code.do(f"urem i64 {unit}, {self.chunks}")  # fmt: skip
        step = self.columns * self.width
        full, rest = divmod(self.b.columns, step)
        first, row = code.multiply(panel, step), code.multiply(chunk, CHUNK)
        rows, left = divmod(self.a.rows, CHUNK)
        for test, count in _cases(f"icmp slt i64 {chunk}, {rows}", CHUNK if rows else 0, left):
            for narrow, columns in _cases(
                f"icmp slt i64 {panel}, {full}", step if full else 0, rest
            ):
                _only(code, [test, narrow], lambda n=count, c=columns: self._chunk(row, n, first, c))  # fmt: skip

    def _chunk(self, row: str, rows: int, first: str, columns: int) -> None:
        code = self.code
        lanes = self._lanes(columns)

        def begin(r: str) -> None:
            line = self.at("%C", (row, self.c.row_stride), (r, self.c.row_stride), (first, 1))
            for j, n in enumerate(lanes):
                total = self._with_bias("zeroinitializer", code.add(row, r), 0, first, j, n)
                self.store(total, self.at(line, (str(j * self.width), 1)), n)

        def piece(k: str) -> None:
            left = code.do(f"sub i64 %K, {k}")
            code.declare("llvm.umin.i64", "i64 {}(i64, i64)")
            depth = code.do(f"call i64 @llvm.umin.i64(i64 {left}, i64 {DEPTH})")
            whole = rows - rows % self.rows
            if whole:
                _loop(code, "0", str(whole), self.rows, lambda r: self._tile(code.add(row, r), self.rows, first, columns, (k, depth)))  # fmt: skip
            if rows - whole:
                self._tile(code.add(row, str(whole)), rows - whole, first, columns, (k, depth))

        _loop(code, "0", str(rows), 1, begin)
        _only(code, ["icmp sgt i64 %K, 0"], lambda: _loop(code, "0", "%K", DEPTH, piece))

    def _lanes(self, columns: int) -> list[int]:
        count = -(-columns // self.width)
        return [min(self.width, columns - j * self.width) for j in range(count)]

    def _stream(self, first: str, columns: int) -> None:
        depth = self.a.columns
        whole = depth - depth % STREAMED
        start = STREAMED if whole else depth
        self._add_rows("0", start, first, columns, fresh=True)
        if start < whole:
            _loop(self.code, str(start), str(whole), STREAMED,
                  lambda k: self._add_rows(k, STREAMED, first, columns))  # fmt: skip
        if start < depth != whole:
            self._add_rows(str(whole), depth - whole, first, columns)

    def _add_rows(self, k: str, rows: int, first: str, columns: int, fresh: bool = False) -> None:
        """Some rows of B, times their elements of A, added to a panel of the result."""
        a, b = self.a, self.b
        xs = [self.splat(self.code.load(self.dtype, self.at("%A", (k, a.column_stride), (str(u), a.column_stride)))) for u in range(rows)]  # fmt: skip

        def vector(j: str, lanes: int) -> None:
            place = self.at("%C", (first, 1), (j, 1))
            total = self._start(first, j, lanes) if fresh else self.load(place, lanes)
            for u, x in enumerate(xs):
                row = self.at("%B", (k, b.row_stride), (str(u), b.row_stride), (first, 1), (j, 1))
                total = self.fma(x, self.load(row, lanes), total)
            self.store(total, place, lanes)

        whole = columns - columns % self.width
        if whole:
            _loop(self.code, "0", str(whole), self.width, lambda j: vector(j, self.width))
        if columns - whole:
            vector(str(whole), columns - whole)

    def _start(self, first: str, j: str, lanes: int) -> str:
        """What the result begins with: the bias, or zero."""
        if self.bias is None:
            return "zeroinitializer"
        across = self.bias.stride[-1]
        place = self.at("%D", (first, across), (j, across))
        if across > 1:
            raise Decline("a strided bias")
        return self.load(place, lanes) if across else self.splat(self.code.load(self.dtype, place))

    def _tile(self, row: str, rows: int, first: str, columns: int, piece: tuple[str, str] | None = None) -> None:  # fmt: skip
        """A tile of the result; of a ``piece`` (its start, its length), which is added to what is there."""
        lanes = self._lanes(columns)
        count = len(lanes)
        a, b, c = self.a, self.b, self.c
        start, depth = piece or ("0", a.columns)
        left = self.at("%A", (row, a.row_stride), (start, a.column_stride))
        right = self.at("%B", (first, 1), (start, b.row_stride))

        def step(k: str, sums: list[str]) -> list[str]:
            base = self.at(right, (k, b.row_stride))
            vectors = [self.load(self.at(base, (str(j * self.width), 1)), n) for j, n in enumerate(lanes)]  # fmt: skip
            out = []
            for i in range(rows):
                x = self.code.load(self.dtype, self.at(left, (str(i), a.row_stride), (k, a.column_stride)))  # fmt: skip
                x = self.splat(x)
                out += [self.fma(x, v, sums[i * count + j]) for j, v in enumerate(vectors)]
            return out

        places = []
        for i in range(rows):
            line = self.at("%C", (row, c.row_stride), (str(i), c.row_stride), (first, 1))
            places += [self.at(line, (str(j * self.width), 1)) for j in range(count)]
        before = [self.load(p, lanes[i % count]) for i, p in enumerate(places)] if piece else None
        sums = _accumulate(self.code, self.vector, rows * count, depth, 1, step, before)
        for i in range(rows):
            for j, n in enumerate(lanes):
                total = sums[i * count + j]
                total = total if piece else self._with_bias(total, row, i, first, j, n)
                self.store(total, places[i * count + j], n)

    def _with_bias(self, total: str, row: str, i: int, first: str, j: int, lanes: int) -> str:
        if self.bias is None:
            return total
        down, across = self.bias.stride[-2:]
        place = self.at("%D", (row, down), (str(i), down), (first, across), (str(j * self.width), across))  # fmt: skip
        if across == 1:
            added = self.load(place, lanes)
        elif across == 0:
            added = self.splat(self.code.load(self.dtype, place))
        else:
            raise Decline("a strided bias")
        return self.code.do(f"fadd {self.vector} {total}, {added}")

    # ---- the shared dimension is contiguous in both

    def _row_blocks(self, block: str) -> None:
        whole = self.a.rows // self.rows
        rest = self.a.rows - whole * self.rows
        row = self.code.multiply(block, self.rows)
        if not rest:
            self._row_block(row, self.rows)
        else:
            _choice(self.code, f"icmp slt i64 {block}, {whole}",
                    lambda: self._row_block(row, self.rows), lambda: self._row_block(row, rest))  # fmt: skip

    def _row_block(self, row: str, rows: int) -> None:
        whole = self.b.columns - self.b.columns % self.columns
        if whole:
            _loop(self.code, "0", str(whole), self.columns, lambda n: self._dots(row, rows, n, self.columns))  # fmt: skip
        if self.b.columns - whole:
            self._dots(row, rows, str(whole), self.b.columns - whole)

    def _dots(self, row: str, rows: int, column: str, columns: int) -> None:
        a, b = self.a, self.b
        left, right = self.at("%A", (row, a.row_stride)), self.at("%B", (column, b.column_stride))

        def step(k: str, sums: list[str], lanes: int) -> list[str]:
            xs = [self.load(self.at(left, (str(i), a.row_stride), (k, 1)), lanes) for i in range(rows)]  # fmt: skip
            ys = [self.load(self.at(right, (str(j), b.column_stride), (k, 1)), lanes) for j in range(columns)]  # fmt: skip
            return [self.fma(x, y, sums[i * columns + j]) for i, x in enumerate(xs) for j, y in enumerate(ys)]  # fmt: skip

        depth = a.columns - a.columns % self.width
        sums = _accumulate(self.code, self.vector, rows * columns, depth, self.width, lambda k, s: step(k, s, self.width))  # fmt: skip
        if a.columns - depth:
            sums = step(str(depth), sums, a.columns - depth)
        for i in range(rows):
            for j in range(columns):
                self._finish(self._fold(sums[i * columns + j]), row, i, column, j)

    def _fold(self, total: str) -> str:
        name = f"llvm.vector.reduce.fadd.{self.suffix}"
        self.code.declare(name, f"{self.kind} {{}}({self.kind}, {self.vector})")
        return self.code.do(f"call reassoc {self.kind} @{name}({self.kind} 0.0, {self.vector} {total})")  # fmt: skip

    def _finish(self, total: str, row: str, i: int, column: str, j: int) -> None:
        if self.bias is not None:
            down, across = self.bias.stride[-2:]
            place = self.at("%D", (row, down), (str(i), down), (column, across), (str(j), across))
            total = self.code.do(f"fadd {self.kind} {total}, {self.code.load(self.dtype, place)}")
        step = self.c.row_stride
        place = self.at("%C", (row, step), (str(i), step), (column, 1), (str(j), 1))
        self.code.store(self.dtype, total, place)


def _loop(code: Code, low: str, high: str, step: int, body: Callable[[str], None]) -> None:
    """``for i in range(low, high, step)``, which is not empty."""
    head, done, before = code.fresh("loop"), code.fresh("done"), code.block
    code.jump(head)
    place, i = code.later(), "%" + code.fresh("i")
    body(i)
    after = code.do(f"add nuw nsw i64 {i}, {step}")
    code.fill(place, f"{i} = phi i64 [{low}, %{before}], [{after}, %{code.block}]")
    code.branch(code.do(f"icmp slt i64 {after}, {high}"), head, done)
    code.label(done)


def _cases(test: str, most: int, rest: int) -> list[tuple[str, int]]:
    """The sizes that a block may have, each with the test for it; an empty one where it always holds."""
    if not most or not rest:
        return [("", most or rest)]
    return [(test, most), (test.replace("slt", "sge"), rest)]


def _only(code: Code, tests: list[str], body: Callable[[], None]) -> None:
    """``body`` where all tests hold."""
    after = code.fresh("after")
    for test in filter(None, tests):
        inside = code.fresh("holds")
        code.branch(code.do(test), inside, after)
        code.label(inside)
    body()
    code.jump(after)


def _choice(code: Code, test: str, then: Callable[[], None], orelse: Callable[[], None]) -> None:
    labels = [code.fresh(n) for n in ("whole", "rest", "both")]
    code.branch(code.do(test), labels[0], labels[1])
    for label, body in zip(labels, (then, orelse), strict=False):
        code.label(label)
        body()
        code.line(f"br label %{labels[2]}")
    code.label(labels[2])


def _accumulate(code: Code, vector: str, count: int, depth: int | str, step: int,
                body: Callable[[str, list[str]], list[str]], start: list[str] | None = None) -> list[str]:  # fmt: skip
    """``count`` running vectors along the shared dimension, from zero or ``start``."""
    if not depth:
        return ["zeroinitializer"] * count
    head, done, before = code.fresh("along"), code.fresh("end"), code.block
    code.jump(head)
    places = [code.later() for _ in range(count + 1)]
    k, sums = "%" + code.fresh("k"), ["%" + code.fresh("s") for _ in range(count)]
    after = body(k, sums)
    on = code.do(f"add nuw nsw i64 {k}, {step}")
    code.fill(places[0], f"{k} = phi i64 [0, %{before}], [{on}, %{code.block}]")
    start = start or ["zeroinitializer"] * count
    for place, name, value, old in zip(places[1:], sums, after, start, strict=True):
        code.fill(place, f"{name} = phi {vector} [{old}, %{before}], [{value}, %{code.block}]")
    again = UNROLL[4] if count > 4 else UNROLL[8]
    code.branch(code.do(f"icmp slt i64 {on}, {depth}"), head, done + again)
    code.label(done)
    return after
