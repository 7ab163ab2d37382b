"""Loops over the elements of tensors in memory, for ops whose positions only the data tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ..kernels.loop_ir import LONGEST, Open
from .code import FLOATS, REGISTER, UNSIGNED, Code
from .scalar_parts import compare, zero
from .values import Decline, Mem, Operand, Reg, numel

if TYPE_CHECKING:
    from .lower import Lowering


@contextmanager
def counted(code: Code, count: str) -> Iterator[str]:
    """A loop of ``count`` rounds around what is written inside; the number of the round."""
    head, body, done = code.fresh("walk"), code.fresh("round"), code.fresh("walked")
    before, name = code.block, "%" + code.fresh("i")
    code.jump(head)
    phi = code.later()
    code.branch(code.do(f"icmp slt i64 {name}, {count}"), body, done)
    code.label(body)
    yield name
    following = code.do(f"add nuw nsw i64 {name}, 1")
    code.fill(phi, f"{name} = phi i64 [0, %{before}], [{following}, %{code.block}]")
    code.line(f"br label %{head}")
    code.label(done)


@contextmanager
def over(low: Lowering, size: Sequence[int]) -> Iterator[list[str]]:
    """Loops over an index space; the index."""
    with ExitStack() as stack:
        yield [stack.enter_context(counted(low.code, low.sizes.text(n))) for n in size]


@contextmanager
def apart(low: Lowering) -> Iterator[None]:
    """What is found inside counts there only: not every path comes through the blocks that are written there."""
    outside, low.found = low.found, dict(low.found)
    yield
    low.found = outside


@contextmanager
def where(code: Code, condition: str) -> Iterator[None]:
    """What is written inside happens where the condition is true."""
    then, on = code.fresh("chosen"), code.fresh("on")
    code.branch(condition, then, on)
    code.label(then)
    yield
    code.jump(on)


@contextmanager
def either(low: Lowering, condition: str) -> Iterator[Callable[[], None]]:
    """What is written inside happens where the condition is true; what is written behind a call of what this gives, where it is not."""
    code, known = low.code, low.found
    then, orelse, on = (code.fresh(n) for n in ("first", "second", "both"))
    code.branch(condition, then, orelse)
    code.label(then)
    low.found = dict(known)

    def other() -> None:
        code.line(f"br label %{on}")
        code.label(orelse)
        low.found = dict(known)

    yield other
    code.jump(on)
    low.found = known


def offset(code: Code, index: Sequence[str], stride: Sequence[int]) -> str:
    """The place of an element."""
    at = "0"
    for i, step in zip(index, stride, strict=True):
        at = code.add(at, code.multiply(i, step))
    return at


def element(low: Lowering, x: Operand, index: Sequence[str]) -> str:
    """An element of ``x``, at the last dims of an index; the only one where it has only one."""
    if not isinstance(x, Mem):
        return low.register(x).text
    lead = len(index) - len(x.size)
    stride = [0 if n == 1 else s for n, s in zip(x.size, x.stride)]
    return low.code.load(x.dtype, x.pointer, offset(low.code, index[lead:], stride))


def position(low: Lowering, x: Operand, index: Sequence[str], n: int | Open, wraps: bool) -> str:
    """An element of a tensor of positions in a dim of ``n``; one that is out of range fails. ``wraps``: negative ones count from the end."""
    if x.dtype not in ("i64", "i32"):
        raise Decline("positions that are not integers")
    code, count = low.code, low.sizes.text(n)
    at = element(low, x, index)
    if x.dtype == "i32":
        at = code.do(f"sext i32 {at} to i64")
    if wraps:
        turned = code.do(f"add i64 {at}, {count}")
        at = code.do(f"select i1 {code.do(f'icmp slt i64 {at}, 0')}, i64 {turned}, i64 {at}")
    low.fail(code.do(f"icmp uge i64 {at}, {count}"))
    return at


def flat(low: Lowering, x: Operand) -> Mem:
    """``x`` as one dim of elements in order."""
    x = low.memory(x)
    if len(x.size) == 1:
        return x
    x = low.row_by_row(x)
    count: int | Open = numel(x.size)
    if x.open:
        count = low.sizes.new(low.sizes.elements(x.size), min(count, LONGEST))
    return Mem(x.pointer, x.dtype, (count,), (1,), x.owners)


def truth(code: Code, x: Reg) -> str:
    """Whether a number is not zero."""
    if x.dtype == "bool":
        return x.text
    return compare(code, x.dtype, "ne", x.text, zero(x.dtype))


def beyond(code: Code, a: str, b: str, dtype: str, most: bool) -> str:
    """Whether ``a`` takes the place of ``b`` in a maximum or minimum: NaN does."""
    kind, way = REGISTER[dtype], "gt" if most else "lt"
    if dtype in FLOATS:
        more = code.do(f"fcmp o{way} {kind} {a}, {b}")
        return code.do(f"or i1 {more}, {code.do(f'fcmp uno {kind} {a}, {a}')}")
    return code.do(f"icmp {'u' if dtype in UNSIGNED else 's'}{way} {kind} {a}, {b}")
