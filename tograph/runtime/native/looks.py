"""Which rows of a matrix are zeros: what a product that may leave them out asks before it starts (``masked``).

A *scan* goes over rows and ends each at the first element that is not zero; it leaves one flag for each. It is a task for threads, by
rows as the loop nests before it are: a thread finds rows in its own cache, and does not take them from the one that writes them next.
The *notes* are made of the flags by one thread: the positions that are computed, and those of zeros.

Products that run together (``joined``) are asked together: their scans are one task, part of the nest's that made the rows where it can be (``followed``); the
notes come after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .code import SIZE
from .followed import Rows
from .lanes import Lanes, loop, only

if TYPE_CHECKING:
    from .lower import Lowering

FEWEST = 8  # rows that are worth a look
MOST = 256  # rows whose flags have a place on the stack
Side = tuple[str, int, int]  # a pointer, the elements from one row to the next, and those of a row
Whole = tuple[str, int, Side]  # the dtype, the number of rows, and where they are


@dataclass(frozen=True)
class Kept:
    """What a product computes: positions at ``live``, and for rows those of zeros at ``dead``; the number comes first."""

    by: str
    live: str
    dead: str


def write(low: Lowering, dtype: str, by: str, rows: int, zeros: Side, finite: Side | None = None) -> Kept:  # fmt: skip
    """Write the scan of a matrix and its notes. ``zeros``: the matrix whose rows may be zeros; ``finite``: the one that these meet."""
    code = low.code
    # What a nest before reads may be free by now, and the arena would give its memory: the scan may run together with that nest.
    few = rows <= MOST
    flags = code.cell(f"[{rows} x i8]") if few else low.new("bool", (rows,)).pointer
    live, dead = (low.new("i64", (1 + rows + FEWEST,)).pointer for _ in range(2))
    task = low.function("look", _Scan(low, dtype).function(zeros, finite))
    block = code.cell("[3 x ptr]")
    for i, pointer in enumerate((zeros[0], finite[0] if finite else zeros[0], flags)):
        code.line(f"store ptr {pointer}, ptr {code.element('i64', block, str(i))}")
    name = low.function("note", _Notes(low, dtype).function(by, rows))
    notes = f"call void @{name}(ptr {flags}, ptr {live}, ptr {dead})"
    if low.joint is not None:
        sides = [_in_bytes(dtype, side) for side in (zeros, finite) if side is not None]
        low.joint.ask(task, block, rows, sides if few else None, notes)
    else:
        code.line(f"call void @{task}(i64 0, i64 {rows}, ptr {block})")
        code.line(notes)
    kept = Kept(by, live, dead)
    if low.joint is not None:
        low.joint.kept.setdefault((dtype, rows, zeros), kept)
    return kept


def _in_bytes(dtype: str, side: Side) -> Rows:
    pointer, stride, count = side
    return Rows(pointer, stride * SIZE[dtype], count * SIZE[dtype])


def found(low: Lowering, dtype: str, rows: int, side: Side) -> Kept | None:
    """The rows of a matrix that a sum over them needs, where a product that it runs together with has looked for zeros.

    A row of zeros more does no harm to a sum that begins with zero, so either kind of ``Kept`` will do.
    """
    kept = low.joint.kept.get((dtype, rows, side)) if low.joint is not None else None
    return kept and replace(kept, by="steps")


class _Scan(Lanes):
    """Writes the function that goes over rows."""

    def function(self, zeros: Side, finite: Side | None) -> str:
        """The text of the task, from the parameters on."""
        code = self.code
        left, right, flags = (code.do(f"load ptr, ptr {code.element('i64', '%block', str(i))}") for i in range(3))  # fmt: skip

        def row(i: str) -> None:
            alive = self._any(left, i, zeros, lambda x: f"fcmp une {self.vector} zeroinitializer, {x}")  # fmt: skip
            code.store("bool", alive, flags, i)
            if finite is None:
                return
            met = finite

            def meets() -> None:
                code.store("bool", self._any(right, i, met, self._endless), flags, i)

            only(code, [f"xor i1 {alive}, true"], meets)

        loop(code, "%begin", "%end", 1, row)
        return _text("i64 %begin, i64 %end, ptr %block", self)

    def _endless(self, x: str) -> str:
        """The test for what is infinite or NaN."""
        apart = self.code.do(f"fsub {self.vector} {x}, {x}")
        return f"fcmp uno {self.vector} {apart}, {apart}"

    def _any(self, base: str, i: str, side: Side, test: Callable[[str], str]) -> str:
        """Whether ``test`` holds for an element of a row; later ones are not read."""
        code = self.code
        _, stride, count = side
        row = self.at(base, (i, stride))
        rest = count % self.width
        next_, done = code.fresh("next"), code.fresh("found")
        head, before = code.fresh("look"), code.block
        ends = []
        if count - rest:
            code.jump(head)
            place, j = code.later(), "%" + code.fresh("j")
            hit = self._hit(test(self.load(self.at(row, (j, 1)), self.width)))
            after = code.do(f"add nuw nsw i64 {j}, {self.width}")
            more = code.fresh("more")
            code.branch(hit, done, more)
            ends.append(("true", code.block))
            code.label(more)
            code.fill(place, f"{j} = phi i64 [0, %{before}], [{after}, %{code.block}]")
            code.branch(code.do(f"icmp slt i64 {after}, {count - rest}"), head, next_)
            code.label(next_)
        last = self._hit(test(self.load(self.at(row, (str(count - rest), 1)), rest))) if rest else "false"  # fmt: skip
        ends.append((last, code.block))
        code.jump(done)
        return code.phi("i1", *ends)

    def _hit(self, test: str) -> str:
        bits = self.code.do(f"bitcast <{self.width} x i1> {self.code.do(test)} to i{self.width}")
        return self.code.do(f"icmp ne i{self.width} {bits}, 0")


class _Notes(Lanes):
    """Writes the function that makes tables of positions of the flags."""

    def function(self, by: str, rows: int) -> str:
        """The text, from the parameters on."""
        code = self.code
        self.counts = [code.cell("i64"), code.cell("i64")]
        for place in self.counts:
            code.store("i64", "0", place)

        def row(i: str) -> None:
            alive = code.load("bool", "%flags", i)
            self._note("%live", self.counts[0], i, alive)
            self._note("%dead", self.counts[1], i, code.do(f"xor i1 {alive}, true"))

        loop(code, "0", str(rows), 1, row)
        self._finish(by)
        return _text("ptr noalias %flags, ptr noalias %live, ptr noalias %dead", self)

    def _note(self, table: str, count: str, i: str, holds: str) -> None:
        code = self.code
        n = code.load("i64", count)
        code.store("i64", i, table, code.add(n, "1"))
        code.store("i64", code.add(n, code.do(f"zext i1 {holds} to i64")), count)

    def _finish(self, by: str) -> None:
        """One position of zeros is computed: for all of them, or where there is nothing else. What fills the last tile is the last again."""
        code = self.code
        live, dead = (code.load("i64", x) for x in self.counts)
        wanted = f"icmp sgt i64 {dead}, 0" if by == "rows" else f"icmp eq i64 {live}, 0"
        total = code.add(live, code.do(f"zext i1 {code.do(wanted)} to i64"))

        def add() -> None:
            code.store("i64", code.load("i64", "%dead", "1"), "%live", total)

        only(code, [wanted], add)
        last = code.load("i64", "%live", total)
        for i in range(1, FEWEST):
            code.store("i64", last, "%live", code.add(total, str(i)))
        code.store("i64", total, "%live")
        code.store("i64", dead, "%dead")


def _text(params: str, writer: Lanes) -> str:
    """A function without result, from the parameters on."""
    writer.code.line("ret void")
    text = "\n".join(line for line in writer.code.lines if line)
    return f"({params}) noinline #0 {{\n{text}\n}}\n"
