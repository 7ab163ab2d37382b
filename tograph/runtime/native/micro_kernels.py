"""The micro-kernels of matrix products.

A micro-kernel keeps a tile of the result in vector registers while it walks along the shared dimension:

``panel``  B is contiguous along its columns: a tile is some rows times some vectors of columns; each step loads vectors of B
           and multiplies them with single elements of A, whose strides do not matter.
``dots``   B is contiguous along the shared dimension, as in ``x @ w.t()`` and ``a @ v``: a tile is some rows times some
           columns, each the running vector of a dot product, folded at the end.
``stream`` one row times a matrix of the first kind that no cache holds: rows of B are read one after the other, a few at a
           time, and added to the result, which stays in the cache.
``pieces`` the first form along a shared dimension that is long, or as long as only the run knows: in pieces, so that a piece of both
           matrices stays in the cache, each added to the result; where a product is added to what is there, to memory of its own
           that is added at the end, so that it is rounded as often as the whole sum is.

Sizes need not be multiples of a tile: the last tiles are smaller, and the last vector of columns is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..kernels.jit import host
from ..kernels.loop_ir import Open, bound
from ..kernels.parts import FINISHED
from .code import SIZE
from .lanes import Lanes, accumulate, cases, choice, loop, only, opaque
from .matrices import Matrix, Place
from .tiling import tile
from .values import Decline

if TYPE_CHECKING:
    from .lower import Lowering

DEPTH = 256  # of a piece of the shared dimension
LONG = 1024  # a shared dimension that is taken in pieces
CHUNK = 128  # rows of the result that one thread takes at a time, in pieces
Step = Callable[[list[str], list[str]], list[str]]
TOGETHER, UNEVEN = (
    3,
    1.1,
)  # blocks of rows of a chunk, and what rounding up to whole chunks may cost
FAR = 1 << 20  # bytes from which on a matrix is streamed
NEAR = 1 << 18  # bytes up to which each thread's cache holds the matrix on the right
OFTEN = (
    1 / 8
)  # of the result, from which on a kind of tile is unrolled: each that is takes LLVM twice as long
STREAMED, PANEL = 8, 1024  # rows of B at a time, and columns


class Writer(Lanes):
    """Writes the function of one product: it computes the panels ``begin`` to ``end`` of the result.

    ``shared``: about how many units threads are to share; 0 where there is one thread.
    """

    more = ""  # parameters of a kind of product
    often = True  # whether tiles like the one that is written make up much of the result
    parted = True  # whether it may be done in pieces

    def __init__(self, low: Lowering, dtype: str, a: Matrix, b: Matrix, c: Matrix, bias, panel: bool, shared: int, fresh: bool):  # fmt: skip
        super().__init__(low, dtype)
        self.a, self.b, self.c, self.bias, self.shared = a, b, c, bias, shared
        vectors = -(-b.columns // self.width)
        if panel:
            self.rows, self.columns = self._shape(vectors, low.joint is not None)
            self.units = -(-vectors // self.columns)
        else:
            self.columns = min(b.columns, 4)
            self.rows = min(a.rows, (4 if host().avx512 else 3) if self.columns > 1 else 8)
            self.units = -(-a.rows // self.rows)
        self.panel = panel
        self.adds = bias is not None and bias.pointer == c.pointer  # to what is there
        opened = isinstance(a.columns, Open)
        parted = panel and self.parted and a.rows > self.rows
        self.deep = opened or (parted and bound(a.columns) >= LONG)
        # What is added to the whole sum cannot be where the pieces are added up.
        self.apart, self.room = self.adds and self.deep and not opened, ""
        self.high, self.chunks = max(a.rows, 1), 1  # rows of a chunk, and chunks of a panel
        self.panels = self.units
        self.across = panel and self._by_rows(fresh)
        self.stream = (
            panel and a.rows == 1 and not self.deep and b.rows * b.columns * SIZE[dtype] >= FAR
        )
        if self.stream:
            self.columns = min(vectors, PANEL // self.width)
            self.units = -(-vectors // self.columns)
        elif panel and (self.deep or shared):
            self.high = CHUNK if self.deep else self._even()
            self.chunks = -(-a.rows // self.high)
            self.units *= self.chunks

    def _shape(self, vectors: int, joint: bool) -> tuple[int, int]:
        """The rows of a tile, and its vectors of columns of so many."""
        return tile(self.a.rows, vectors, joint)

    def _by_rows(self, fresh: bool) -> bool:
        """Whether threads have whole rows of the result, not whole columns. ``fresh``: B has just been made.

        Rows lie next to each other: a thread finds in its cache what it made of the same rows before, and the thread beside it fetches
        no lines of its part ahead. Each reads all of B then and a share of A. That is less than the other way round, unless B is larger
        and, for being fresh, in the cache of one of them.
        """
        if self.deep:
            return False
        left, right = self.a.rows * self.a.columns, self.b.rows * self.b.columns
        return right * SIZE[self.dtype] <= NEAR and (left >= right or not fresh)

    def _even(self) -> int:
        """Rows of a chunk with which every thread has about the same to do: a panel more or less is much where there are few."""
        blocks = -(-self.a.rows // self.rows)
        return self.rows * (self._together(blocks) if self.across else max(1, blocks * self.units // self.shared))  # fmt: skip

    def _together(self, blocks: int) -> int:
        """How many blocks of rows a chunk has, which go along a panel one after the other: it comes out of the far cache once for them."""
        least = -(-blocks // self.shared)
        for count in range(TOGETHER, least, -1):
            chunks = -(-blocks // count)
            if chunks * self.panels >= self.shared and chunks * count <= blocks * UNEVEN:
                return count
        return max(1, least)

    def function(self) -> str:
        """The text, from the parameters on."""
        code = self.code
        body = self._panels if self.panel else self._row_blocks
        self.depth_place = code.later()
        if self.deep:
            body = self._pieces
        loop(code, "%begin", "%end", 1, body)
        code.line("ret void")
        alone = "" if self.adds else " noalias"
        params = f"ptr noalias %A, ptr noalias %B, ptr{alone} %C, "
        if self.bias is not None:
            params += f"ptr{alone} %D, "
        params += self.more
        if isinstance(self.a.columns, Open):
            params += "ptr %depth, "
            code.fill(self.depth_place, "%K = ptrtoint ptr %depth to i64")
        elif self.deep:
            code.fill(self.depth_place, f"%K = add i64 {self.a.columns}, 0")
        text = "\n".join(line for line in code.lines if line)
        finished = (
            f"{FINISHED} " if self.panel else ""
        )  # dots are folded better by all of LLVM's passes
        return f"({params}i64 %begin, i64 %end) noinline {finished}#0 {{\n{text}\n}}\n"

    # ---- columns of B are contiguous

    def _panels(self, unit: str) -> None:
        if self.stream:
            self._chunked(unit, lambda row, rows, first, columns: self._stream(first, columns))
        else:
            self._chunked(unit, self._tiles)

    def _chunked(self, unit: str, body: Callable[[str, int, str, int], None]) -> None:
        """``body`` of the first row, number of rows, first column and number of columns of one chunk of rows of one panel."""
        panel, chunk = self._parted(unit)
        row = self.code.multiply(chunk, self.high)
        whole, left = divmod(self.a.rows, self.high)
        for test, rows in cases(f"icmp slt i64 {chunk}, {whole}", self.high if whole else 0, left):
            self._columns(panel, [test], lambda first, columns, n=rows: body(row, n, first, columns))  # fmt: skip

    def _parted(self, unit: str) -> tuple[str, str]:
        """The panel and the chunk of a unit."""
        if self.chunks == 1:
            return unit, "0"
        code, count = self.code, self.panels if self.across else self.chunks
        whole, rest = (opaque(code, code.do(f"{op} i64 {unit}, {count}")) for op in ("udiv", "urem"))  # fmt: skip
        return (rest, whole) if self.across else (whole, rest)

    def _columns(self, panel: str, tests: list[str], body: Callable[[str, int], None]) -> None:
        """``body`` of the first column and number of columns of a panel, where the tests hold."""
        step = self.columns * self.width
        full, rest = divmod(self.b.columns, step)
        first = self.code.multiply(panel, step)
        for narrow, columns in cases(f"icmp slt i64 {panel}, {full}", step if full else 0, rest):
            only(self.code, [*tests, narrow], lambda c=columns: body(first, c))

    def _tiles(self, row: str, rows: int, first: str, columns: int, piece: tuple[str, str] | None = None) -> None:  # fmt: skip
        """A chunk, tile by tile."""
        code = self.code
        whole = rows - rows % self.rows
        share = self._share(rows, columns) / max(1, rows)
        self.often = share * whole >= OFTEN
        if whole:
            loop(code, "0", str(whole), self.rows, lambda r: self._tile(code.add(row, r), self.rows, first, columns, piece))  # fmt: skip
        self.often = share * (rows - whole) >= OFTEN
        if rows - whole:
            self._tile(code.add(row, str(whole)), rows - whole, first, columns, piece)

    def _share(self, rows: int, columns: int) -> float:
        """The part of the work in chunks and panels of that many rows and columns; vectors that are masked are as much as whole ones."""
        wide = self.columns * self.width
        down = rows * (self.a.rows // self.high if rows == self.high else 1) / max(1, self.a.rows)
        panels = self.b.columns // wide if columns == wide else 1
        return down * panels * len(self._lanes(columns)) / len(self._lanes(self.b.columns))

    # ---- in pieces of the shared dimension

    def _pieces(self, unit: str) -> None:
        self._chunked(unit, self._chunk)

    def _chunk(self, row: str, rows: int, first: str, columns: int) -> None:
        code = self.code
        result = Place("%C", self.c.row_stride)
        self.sums = self._own(row, first) if self.apart else result

        def each(r: str, made: Callable[[str, int, int], str], into: Place) -> None:
            sums, target = (self.at(p.start, (p.back, 1), (row, p.apart), (r, p.apart), (first, 1)) for p in (self.sums, into))  # fmt: skip
            for j, n in enumerate(self._lanes(columns)):
                at = (str(j * self.width), 1)
                self.store(made(self.at(sums, at), j, n), self.at(target, at), n)

        def clear(r: str) -> None:
            each(r, lambda *_: "zeroinitializer", self.sums)

        def add(r: str) -> None:
            each(r, lambda place, j, n: self._with_bias(self.load(place, n), code.add(row, r), "0", first, j, n), result)  # fmt: skip

        def piece(k: str) -> None:
            left = code.do(f"sub i64 %K, {k}")
            code.declare("llvm.umin.i64", "i64 {}(i64, i64)")
            depth = code.do(f"call i64 @llvm.umin.i64(i64 {left}, i64 {DEPTH})")
            self._tiles(row, rows, first, columns, (k, depth))

        if self.apart or not self.adds:
            loop(code, "0", str(rows), 1, clear)
        only(code, ["icmp sgt i64 %K, 0"], lambda: loop(code, "0", "%K", DEPTH, piece))
        # last: what is large would swallow the terms
        if self.apart or (self.bias is not None and not self.adds):
            loop(code, "0", str(rows), 1, add)

    def _own(self, row: str, first: str) -> Place:
        """Memory of the stack for the sums of the chunk that begins at ``row`` and ``first``."""
        wide = self.columns * self.width
        if not self.room:
            self.room = self.code.cell(f"[{min(self.a.rows, self.high) * wide} x {self.kind}]")
        begin = self.code.add(self.code.multiply(row, wide), first)
        return Place(self.room, wide, self.code.do(f"sub i64 0, {begin}"))

    def _lanes(self, columns: int) -> list[int]:
        count = -(-columns // self.width)
        return [min(self.width, columns - j * self.width) for j in range(count)]

    def _stream(self, first: str, columns: int) -> None:
        depth = self.a.columns
        whole = depth - depth % STREAMED
        start = STREAMED if whole else depth
        self._add_rows("0", start, first, columns, fresh=True)
        if start < whole:
            loop(self.code, str(start), str(whole), STREAMED,
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
            loop(self.code, "0", str(whole), self.width, lambda j: vector(j, self.width))
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

    def _tile(self, row: str, rows: int, first: str, columns: int, piece: tuple[str, str] | None = None) -> list[str]:  # fmt: skip
        """Write a tile of the result; of a ``piece`` (its start, its length), which is added to what is there. Its sums."""
        lanes = self._lanes(columns)
        count = len(lanes)
        code, a, c = self.code, self.a, self.c
        start, depth = piece or ("0", a.columns)
        origin, at_row = self._rows_from(row, rows)
        left = self.at("%A", (origin, a.row_stride), (start, a.column_stride))
        right = self._right(first, start)
        down = [self.code.multiply(i, a.row_stride) for i in at_row]

        def step(at: list[str], sums: list[str]) -> list[str]:
            vectors = [self.load(self.at(at[1], (str(j * self.width), 1)), n) for j, n in enumerate(lanes)]  # fmt: skip
            out = []
            for i in range(rows):
                x = self.splat(self.code.load(self.dtype, self.at(at[0], (down[i], 1))))
                out += [self.fma(x, v, sums[i * count + j]) for j, v in enumerate(vectors)]
            return out

        to = self.sums if piece else Place("%C", c.row_stride)
        corner = self.at(to.start, (to.back, 1), (origin, to.apart), (first, 1))
        places = [self.at(corner, (i, to.apart), (str(j * self.width), 1)) for i in at_row for j in range(count)]  # fmt: skip
        pointers = {left: a.column_stride * SIZE[self.dtype], right.start: right.apart * SIZE[self.dtype]}  # fmt: skip
        sums = self._along(rows * count, depth, pointers, step)
        for i in range(rows):
            for j, n in enumerate(lanes):
                total = sums[i * count + j]
                if piece:
                    before = self.load(places[i * count + j], n)
                    total = code.do(f"fadd {self.vector} {before}, {total}")
                else:
                    total = self._with_bias(total, origin, at_row[i], first, j, n)
                self.store(total, places[i * count + j], n)
        return sums

    def _right(self, first: str, start: str) -> Place:
        """Where the rows of a panel of B are, from its column ``first`` and the row ``start`` on."""
        return Place(self.at("%B", (first, 1), (start, self.b.row_stride)), self.b.row_stride)

    def _rows_from(self, row: str, rows: int) -> tuple[str, list[str]]:
        """Where the rows of a tile are: the first, and each from there on."""
        return row, [str(i) for i in range(rows)]

    def _along(
        self, count: int, depth: int | str, pointers: dict[str, int], step: Step
    ) -> list[str]:
        """The sums of a tile: ``step`` for each place of the shared dimension."""
        return accumulate(self.code, self.vector, count, depth, 1, pointers, step, often=self.often)

    def _with_bias(self, total: str, row: str, i: str, first: str, j: int, lanes: int) -> str:
        if self.bias is None:
            return total
        down, across = self.bias.stride[-2:]
        place = self.at("%D", (row, down), (i, down), (first, across), (str(j * self.width), across))  # fmt: skip
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
            choice(self.code, f"icmp slt i64 {block}, {whole}",
                    lambda: self._row_block(row, self.rows), lambda: self._row_block(row, rest))  # fmt: skip

    def _row_block(self, row: str, rows: int) -> None:
        whole = self.b.columns - self.b.columns % self.columns
        if whole:
            loop(self.code, "0", str(whole), self.columns, lambda n: self._dots(row, rows, n, self.columns))  # fmt: skip
        if self.b.columns - whole:
            self._dots(row, rows, str(whole), self.b.columns - whole)

    def _dots(self, row: str, rows: int, column: str, columns: int) -> None:
        a, b = self.a, self.b
        left, right = self.at("%A", (row, a.row_stride)), self.at("%B", (column, b.column_stride))

        def step(at: list[str], sums: list[str], lanes: int) -> list[str]:
            xs = [self.load(self.at(at[0], (str(i), a.row_stride)), lanes) for i in range(rows)]
            ys = [self.load(self.at(at[1], (str(j), b.column_stride)), lanes) for j in range(columns)]  # fmt: skip
            return [self.fma(x, y, sums[i * columns + j]) for i, x in enumerate(xs) for j, y in enumerate(ys)]  # fmt: skip

        depth = a.columns - a.columns % self.width
        pointers = dict.fromkeys((left, right), self.width * SIZE[self.dtype])
        sums = accumulate(self.code, self.vector, rows * columns, depth, self.width, pointers, lambda at, s: step(at, s, self.width))  # fmt: skip
        if a.columns - depth:
            rest = [self.at(x, (str(depth), 1)) for x in (left, right)]
            sums = step(rest, sums, a.columns - depth)
        for i in range(rows):
            for j in range(columns):
                self._finish(self.fold(sums[i * columns + j]), row, i, column, j)

    def _finish(self, total: str, row: str, i: int, column: str, j: int) -> None:
        if self.bias is not None:
            down, across = self.bias.stride[-2:]
            place = self.at("%D", (row, down), (str(i), down), (column, across), (str(j), across))
            total = self.code.do(f"fadd {self.kind} {total}, {self.code.load(self.dtype, place)}")
        step = self.c.row_stride
        place = self.at("%C", (row, step), (str(i), step), (column, 1), (str(j), 1))
        self.code.store(self.dtype, total, place)
