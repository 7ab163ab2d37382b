"""A loop nest as a function of the module, and the call of it.

Small nests are written for LLVM's own vectoriser (``loops``), large ones with explicit vectors by the renderer of kernels,
which takes its parameters through memory and may run on torch's threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..kernels.build import Region
from ..kernels.gpu_forms import GpuForms
from ..kernels.kernel import WORK_PER_THREAD, make, work_of
from ..kernels.loop_ir import BINARY, ITEM_SIZES, LONGEST, TERNARY, UNARY, Expr, Kernel, Unsupported
from ..kernels.split_rows import Split, cut, split
from . import followed, threading
from .code import REGISTER, Code
from .lanes import only
from .loops import Place, emit
from .scalar import supports
from .scalar_math import calls_library
from .values import Decline, Mem, numel

if TYPE_CHECKING:
    from .lower import Lowering

# LLVM would write the code of a nest at each of its calls, and its time grows with the square of a function's size.
REPEATED = 8  # calls of one nest in a graph beyond which they stay calls
MANY = 48  # calls of all nests beyond which all do
VECTORS = 256  # points from which on a loop nest is written with explicit vectors
USUAL = 1 << 8  # what a size without a bound is taken to be where work is estimated
FEW, MOST_PARTS = 64, 16  # rows that are folded in parts, and parts of a row
# A fold over rows that lie in as many pages goes through them strip by strip, and for each strip through all pages: more than a processor keeps the
# addresses of. In parts of fewer it asks for each once.
PAGE, MOST_PAGES, PART_PAGES = 1 << 12, 1 << 11, 1 << 8
LIBRARY = 16  # ... and one that would call the C library for each point


@dataclass(frozen=True, repr=False)
class Nest(GpuForms):
    """A loop nest of native code: its function's text, its loop IR, and the user's lines."""

    name: str
    llvm: str
    loops: Kernel

    @property
    def lines(self) -> tuple[str, ...]:
        return self.loops.comments


def check(low: Lowering, kernel: Kernel) -> None:
    """Decline where a small nest has an op that only the vector renderer knows."""
    if points(low, kernel) >= LIBRARY:
        return
    for e in kernel.body:
        if _beyond_scalars(e):
            raise Decline(f"no scalar code for {e.op} in {e.args[0].dtype}")


def _beyond_scalars(e: Expr) -> bool:
    """Whether only the vector renderer has code for an expression."""
    pointwise = e.op in UNARY or e.op in BINARY or e.op in TERNARY
    return pointwise and e.op != "check_index" and not supports(e)


def points(low: Lowering, kernel: Kernel) -> int:
    """The most points that the loops of a nest have."""
    return numel(tuple(low.sizes.bounds.get(d.size, d.size) for d in (*kernel.outer, *kernel.row)))


def _usual(low: Lowering, kernel: Kernel) -> int:
    """About how many points the loops of a nest have."""
    sizes = [low.sizes.bounds.get(d.size, d.size) for d in (*kernel.outer, *kernel.row)]
    return numel(tuple(USUAL if n >= LONGEST else n for n in sizes))


def call(low: Lowering, kernel: Kernel, region: Region, results: list[Mem]) -> None:
    """Write the loop nest as a function and call it."""
    places = {f"o{i}": ("ptr", x.pointer) for i, x in enumerate(results)}
    for i, v in enumerate(region.inputs):
        x = low.operand(v)
        if isinstance(x, Mem):
            places[f"p{i}"] = ("ptr", x.pointer)
        else:
            places[f"p{i}"] = places[f"s{i}"] = (REGISTER[x.dtype], x.text)
    for name in kernel.sizes:
        places[name] = ("i64", low.sizes.registers[name])
    parts = _in_parts(kernel)
    if parts is None:
        _call(low, kernel, places, results)
        return
    between = {name: low.new(dtype, (count,)) for name, (dtype, count) in parts.between.items()}
    places |= {name: ("ptr", x.pointer) for name, x in between.items()}
    for x in between.values():
        low.arena.hold(x.owners)
    for part in parts.kernels:
        _call(low, part, places)
    low.release(list(between.values()))


def _in_parts(kernel: Kernel) -> Split | None:
    """A fold of a few long rows, or of rows in many pages, as one of many parts, and one of what those give.

    Parts are equal, and what they leave has a nest of its own: loads of this renderer have no masks to end a part that is shorter.
    """
    if kernel.sizes or not kernel.row:
        return None
    pages = _strided_pages(kernel)
    if pages > MOST_PAGES:
        found = split(kernel, -(-pages // PART_PAGES), first=True, equal=True)
        if found is not None:
            return found
    if not threading.available():
        return None
    points = numel(tuple(d.size for d in (*kernel.outer, *kernel.row)))
    most = min(MOST_PARTS, points * work_of(kernel) // (2 * WORK_PER_THREAD))
    few = numel(tuple(d.size for d in kernel.outer)) <= FEW
    if most < 2 or not few:
        return None
    length = cut(kernel, most).size
    whole = [n for n in range(most, most // 2, -1) if length % n == 0]
    return split(kernel, whole[0] if whole else most, first=True, equal=True)


def _strided_pages(kernel: Kernel) -> int:
    """The most pages of memory that a fold over the rows of a matrix touches for each strip of columns."""
    row, most = kernel.row[0], 0
    for e in kernel.body:
        if e.op != "load" or e.address is None or e.address.gathers or not kernel.outer:
            continue
        apart, beside = e.address.factor(row.name), e.address.factor(kernel.outer[-1].name)
        if beside == 1 and isinstance(apart, int):
            most = max(most, row.size * min(abs(apart) * ITEM_SIZES[e.dtype], PAGE) // PAGE)
    return most


def _call(low: Lowering, kernel: Kernel, places: dict[str, tuple[str, str]], results: Sequence[Mem] = ()) -> None:  # fmt: skip
    """The call of the function of a loop nest whose parameters are at ``places``; ``results``: all that it makes, where that is known.

    One that looks at indices is left out where it has nothing to write: what does not depend on an inner loop stands before it, and would be looked at.
    """
    known, tests = low.found, _something(low, kernel) if kernel.may_fail else []
    if tests:
        low.found = dict(known)
    only(low.code, tests, lambda: _written(low, kernel, places, results))
    low.found = known


def _something(low: Lowering, kernel: Kernel) -> list[str]:
    """The tests for a nest that writes something: sizes that only the run knows, of dimensions that all results have."""
    dims = [d for d in (*kernel.outer, *kernel.row) if d.size in low.sizes.registers]
    all_have = [d for d in dims if all(s.address.factor(d.name) != 0 for s in kernel.stores)]
    return [f"icmp ne i64 {low.sizes.registers[d.size]}, 0" for d in all_have]


def _written(low: Lowering, kernel: Kernel, places: dict[str, tuple[str, str]], results: Sequence[Mem]) -> None:  # fmt: skip
    used = [places[name] for name in kernel.slots]
    params = {text: (kind, f"%a{i}") for i, (kind, text) in enumerate(dict.fromkeys(used))}
    bind = {name: Place(params[places[name][1]][1], places[name][0] != "ptr") for name in kernel.slots}  # fmt: skip
    count = points(low, kernel)
    low.work += _usual(low, kernel) * len(kernel.body) * 0.05
    made = _explicit(kernel, count)
    if made is not None:
        _vectors(low, kernel, made, places, results)
        return
    name = _function(low, kernel, bind, list(params.values()))
    given = ", ".join(f"{kind} {text}" for text, (kind, _) in params.items())
    end = kernel.outer[0].size if kernel.outer else 1
    bounds = f"i64 0, i64 {low.sizes.registers.get(end, end)}"
    code = low.code.do(f"call i32 @{name}({given}{', ' if given else ''}{bounds})")
    if kernel.may_fail:
        low.fail(low.code.do(f"icmp ne i32 {code}, 0"))


def _explicit(kernel: Kernel, points: int) -> Any:
    """The nest with explicit vectors, where that is its form; None for one that ``loops`` writes."""
    if points < LIBRARY or (
        points < VECTORS and not any(calls_library(e) or _beyond_scalars(e) for e in kernel.body)
    ):
        return None
    try:
        return make(kernel)
    except Unsupported as error:
        if points < VECTORS or kernel.sizes:
            return None
        raise Decline(str(error)) from None


def _vectors(low: Lowering, kernel: Kernel, made: Any, places: dict[str, tuple[str, str]], results: Sequence[Mem]) -> None:  # fmt: skip
    """The call of a nest that the vector renderer wrote; its parameters go through memory."""
    name = _shared(low, kernel, _merged(low, made.llvm))
    code, slots = low.code, kernel.slots
    block = code.cell(f"[{len(slots) + 1} x i64]")
    for i, slot in enumerate(slots):
        kind, text = places[slot]
        if kind != "ptr" and slot.startswith("p"):
            cell = code.cell("i64")
            code.store(next(b.dtype for b in kernel.buffers if b.name == slot), text, cell)
            kind, text = "ptr", cell
        if kind == "i1":
            kind, text = "i64", code.do(f"zext i1 {text} to i64")
        place = code.do(f"getelementptr i64, ptr {block}, i64 {i}")
        code.line(f"store {kind} {text}, ptr {place}")
    counted = [low.sizes.registers[n] for n in made.opened]
    few = (made.units <= made.grain and not counted) or (kernel.sizes and low.inside)
    if few or not threading.available():
        got = code.do(f"call i32 @{name}_run(ptr {block})")
        if kernel.may_fail:
            low.fail(code.do(f"icmp ne i32 {got}, 0"))
        return
    failed = code.do(f"getelementptr i64, ptr {block}, i64 {len(slots)}")
    code.line(f"store i64 0, ptr {failed}")
    units: int | str = made.units
    for n in counted:
        units = code.do(f"mul nsw i64 {n}, {units}")
    threading.call(low, name, f"{name}_task", block, units, made.grain)
    if kernel.may_fail:
        low.fail(code.do(f"icmp ne i32 {code.do(f'load i32, ptr {failed}')}, 0"))
    elif results and not counted:
        followed.note(low, kernel, results, f"{name}_task", block, made.units, made.grain)


def _merged(low: Lowering, text: str) -> str:
    """The functions of a kernel's module, for this module only; its declarations go to those of this module."""
    kept = []
    for line in text.splitlines():
        if line.startswith("define i32"):
            line = line.replace("define", "define internal", 1)
        if line.startswith("declare "):
            low.code.declares.setdefault(line.split("@", 1)[1].split("(", 1)[0], line)
        elif not line.startswith(("attributes #", "!")):
            kept.append(line)
    return "\n".join(kept) + "\n"


def _shared(low: Lowering, kernel: Kernel, text: str) -> str:
    """The name of the function with this text: an earlier one's, where only names and comments differ.

    Layers and iterations that repeat are compiled once: LLVM's time is most of what a long graph costs.
    """
    plain = "\n".join(line for line in text.splitlines() if not line.startswith(";"))
    key = plain.replace(f"@{kernel.name}", "@")
    if key not in low.named:
        low.named[key] = kernel.name
        low.functions.append(text)
        low.kernels.append(Nest(kernel.name, text, kernel))
    name = low.named[key]
    low.calls[name] += 1
    return name


def kept_apart(functions: list[str], calls: Counter[str]) -> list[str]:
    """The functions, where there are many calls marked as such that stay: LLVM would write each out at its call."""
    least = REPEATED if calls.total() <= MANY else 0
    out = []
    for text in functions:
        name = text.partition("define internal i32 @")[2].partition("(")[0]
        often = calls.get(name.removesuffix("_run"), 0) > least
        out.append(text.replace(") #0 {", ") noinline #0 {") if often else text)
    return out


def _function(low: Lowering, kernel: Kernel, bind, params: list[tuple[str, str]]) -> str:
    """The name of the nest's function."""
    code = Code("v")
    code.declares = low.code.declares
    failed = code.cell("i32")
    code.line(f"store i32 0, ptr {failed}")

    def fail(condition: str) -> None:
        old = code.do(f"load i32, ptr {failed}")
        code.line(f"store i32 {code.do(f'or i32 {old}, ' + code.do(f'zext i1 {condition} to i32'))}, ptr {failed}")  # fmt: skip

    try:
        emit(code, kernel, bind, fail, ("%begin", "%end") if kernel.outer else None)
    except Unsupported as error:
        raise Decline(str(error)) from None
    code.line(f"ret i32 {code.do(f'load i32, ptr {failed}')}")
    head = ", ".join(f"{kind}{' noalias' if kind == 'ptr' else ''} {name}" for kind, name in params)  # fmt: skip
    body = "\n".join(line for line in code.lines if line)
    comments = "".join(f"; {c}\n" for c in kernel.comments)
    return _shared(low, kernel, f"{comments}define internal i32 @{kernel.name}({head}{', ' if head else ''}i64 %begin, i64 %end) #0 {{\n{body}\n}}\n")  # fmt: skip
