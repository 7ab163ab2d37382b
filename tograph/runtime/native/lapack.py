"""Linear systems, inverses and Cholesky factors of one matrix: the LAPACK routines that torch calls, in the layouts in which it calls them.

Matrices are copied to columns first, as torch does, and results are stored by columns: the numbers are those of eager PyTorch. Sizes may be those
of the run. Where LAPACK is not in torch's libraries under its own names, for several matrices, and for factors that somebody looks at
torch is asked. ``info`` is a number; where it is not 0 the check behind fails, and the host raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..graph.ir import Node, Value
from ..kernels.loop_ir import bound
from . import calls, walks
from .code import REGISTER, literal
from .fortran import LETTERS, Calls, routines
from .groups import one_element
from .values import Decline, Mem, Reg, endless, row_major

if TYPE_CHECKING:
    from .lower import Lowering


def lower(low: Lowering, node: Node) -> None:
    """Write the node, or a call of torch where it has another form."""
    try:
        write = RULES[node.op](low, node)
    except Decline:
        calls.lower(low, node)
        return
    low.native_ops += 1
    write()


def _square(low: Lowering, v: Value) -> Mem:
    """A matrix with as many rows as columns."""
    if one_element(v) or len(v.type.shape) != 2:
        raise Decline("no single matrix")
    x = low.operand(v)
    if x.dtype not in LETTERS:
        raise Decline(f"a matrix of {x.dtype}")
    x = low.memory(x)
    if isinstance(x.size[0], int) and isinstance(x.size[1], int) and x.size[0] != x.size[1]:
        raise Decline("a matrix that is not square")
    if 0 in x.size:
        raise Decline("an empty matrix")
    return x


def _used(low: Lowering, node: Node, *places: int) -> None:
    """Decline where an output that is not at these places is used."""
    if any(v in low.used for i, v in enumerate(node.outputs) if i not in places):
        raise Decline("factors that are looked at")


def _routines(dtype: str, *names: str) -> list[str]:
    found = routines(dtype, *names)
    if found is None:
        raise Decline("LAPACK has other names here")
    return found


def _columns(low: Lowering, dtype: str, rows: Any, columns: Any) -> Mem:
    """A new matrix that is stored by columns."""
    if endless((columns, rows)) == 1:  # memory for one such size is laid out with it first
        made, stride = low.new(dtype, (rows, columns)), row_major((columns, rows))
    else:
        made = low.new(dtype, (columns, rows))
        stride = made.stride
    if stride[1] != 1:
        raise Decline("columns of another layout")
    return replace(made, size=(rows, columns), stride=stride[::-1], place="", lead=None)


def _solved(low: Lowering, a: Mem, x: Mem, columns: Any) -> str:
    """Solve ``a @ x = x`` in the place of ``x``; LAPACK's word on it."""
    factorise, solve = _routines(a.dtype, "getrf", "getrs")
    ask, n = Calls(low), low.sizes.text(a.size[0])
    factors = _columns(low, a.dtype, *a.size)
    low.arena.hold(factors.owners)
    low.copy(a, factors)
    pivots = low.new("i32", a.size[:1])
    low.arena.hold(pivots.owners)
    size, step, info = ask.integer(n), ask.distance(factors.stride[1]), low.code.cell("i32")
    ask.run(factorise, size, size, factors.pointer, step, pivots.pointer, info)
    word = low.code.do(f"load i32, ptr {info}")
    count, other = ask.integer(low.sizes.text(columns)), low.code.cell("i32")
    apart = ask.distance(x.stride[1]) if len(x.size) == 2 else size
    ask.run(solve, ask.letter("N"), size, count, factors.pointer, step, pivots.pointer, x.pointer, apart, other)  # fmt: skip
    low.release([factors, pivots])
    low.work += min(bound(a.size[0]), 64) ** 3 + 300
    return word


def _bind(low: Lowering, node: Node, x: Mem, at: int, word: str) -> None:
    """``x`` is the first output, LAPACK's word the one at ``at``."""
    low.dests.pop(node.outputs[0], None)
    low.bind(node.outputs[0], x)
    if node.outputs[at] in low.used:
        low.bind(node.outputs[at], Reg(word, "i32", ()))
    low.release([x])


def _require(low: Lowering, a: Mem) -> None:
    low.sizes.require(a.size[0], a.size[1])
    if not isinstance(a.size[0], int):
        low.fail(low.code.do(f"icmp eq i64 {low.sizes.text(a.size[0])}, 0"))


def _solve(low: Lowering, node: Node) -> Callable[[], None]:
    a, given = _square(low, node.args[0]), node.args[1]
    _used(low, node, 0, 3)
    _routines(a.dtype, "getrf", "getrs")
    if one_element(given) or not node.kwargs.get("left", True) or len(node.args) > 2:
        raise Decline("a system in another form")
    b = low.operand(given)
    rank = len(b.size or ())
    if b.dtype != a.dtype or rank not in (1, 2) or 0 in b.size:
        raise Decline("a system in another form")
    b = low.memory(b)

    def write() -> None:
        _require(low, a)
        low.sizes.require(b.size[0], a.size[0])
        n = a.size[0]
        x = low.new(a.dtype, (n,)) if rank == 1 else _columns(low, a.dtype, n, b.size[1])
        low.arena.hold(x.owners)
        low.copy(b, x)
        _bind(low, node, x, 3, _solved(low, a, x, 1 if rank == 1 else b.size[1]))

    return write


def _inverse(low: Lowering, node: Node) -> Callable[[], None]:
    a = _square(low, node.args[0])
    _routines(a.dtype, "getrf", "getrs")

    def write() -> None:
        _require(low, a)
        x = _columns(low, a.dtype, *a.size)
        low.arena.hold(x.owners)
        zero, one = literal(0.0, a.dtype), literal(1.0, a.dtype)
        with walks.over(low, a.size) as (i, j):
            here = low.code.do(f"icmp eq i64 {i}, {j}")
            value = low.code.do(f"select i1 {here}, {REGISTER[a.dtype]} {one}, {REGISTER[a.dtype]} {zero}")  # fmt: skip
            low.code.store(a.dtype, value, x.pointer, walks.offset(low.code, [i, j], x.stride))
        _bind(low, node, x, 1, _solved(low, a, x, a.size[0]))

    return write


def _cholesky(low: Lowering, node: Node) -> Callable[[], None]:
    a = _square(low, node.args[0])
    (factorise,) = _routines(a.dtype, "potrf")
    if node.kwargs.get("upper") or len(node.args) > 1:
        raise Decline("an upper factor")

    def write() -> None:
        _require(low, a)
        code, kind = low.code, REGISTER[a.dtype]
        x = _columns(low, a.dtype, *a.size)
        low.arena.hold(x.owners)
        with walks.over(low, a.size) as (i, j):
            above = code.do(f"icmp slt i64 {i}, {j}")
            value = code.load(a.dtype, a.pointer, walks.offset(code, [i, j], a.stride))
            value = code.do(f"select i1 {above}, {kind} {literal(0.0, a.dtype)}, {kind} {value}")
            code.store(a.dtype, value, x.pointer, walks.offset(code, [i, j], x.stride))
        ask, info = Calls(low), code.cell("i32")
        size = ask.integer(low.sizes.text(a.size[0]))
        ask.run(factorise, ask.letter("L"), size, x.pointer, ask.distance(x.stride[1]), info)
        low.work += min(bound(a.size[0]), 64) ** 3 / 2 + 200
        _bind(low, node, x, 1, code.do(f"load i32, ptr {info}"))

    return write


def _check(low: Lowering, node: Node) -> Callable[[], None]:
    if not one_element(node.args[0]):
        raise Decline("several matrices")
    info = low.register(low.operand(node.args[0]))
    return lambda: low.fail(low.code.do(f"icmp ne {REGISTER[info.dtype]} {info.text}, 0"))


RULES: dict[str, Callable[[Any, Node], Callable[[], None]]] = {
    "aten._linalg_solve_ex.default": _solve,
    "aten.linalg_inv_ex.default": _inverse,
    "aten.linalg_cholesky_ex.default": _cholesky,
    "aten._linalg_check_errors.default": _check,
}
