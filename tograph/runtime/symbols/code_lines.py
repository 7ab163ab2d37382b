"""What is known of code objects: sets of them (``CodeSet``), answers that are remembered (``per_code``), the line that a frame is at (``line_of``),
and which are the generated bodies of others (``is_body``).

Python counts to a line from the beginning of the code, so to ask where each op of a long function stands took time that grew with the
square of its length. The lines of a long function are a table, in which a place is looked up. The hash of a code object goes over all
that it holds, so sets and answers go by identity.
"""

from __future__ import annotations

import dis
import functools
import types
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

LONG = 4096  # bytes of instructions before a place that is looked up


class CodeSet:
    """A set of code objects, which it does not keep. Python calls two of them equal when they do the same in files of any name: here each is itself."""

    def __init__(self) -> None:
        self.codes: dict[int, weakref.ref[types.CodeType]] = {}

    def __contains__(self, code: types.CodeType | None) -> bool:
        return id(code) in self.codes

    def update(self, codes: Iterable[types.CodeType]) -> None:
        known = self.codes
        for code in codes:
            key = id(code)
            if key not in known:
                known[key] = weakref.ref(code, lambda _, key=key: known.pop(key, None))


def per_code(answer: Callable[[types.CodeType], Any]) -> Callable[[types.CodeType], Any]:
    """Remember the answers for as long as the code objects live."""
    known: dict[int, tuple[weakref.ref[types.CodeType], Any]] = {}

    @functools.wraps(answer)
    def remembered(code: types.CodeType) -> Any:
        key = id(code)
        found = known.get(key)
        if found is None:
            gone = weakref.ref(code, lambda _: known.pop(key, None))
            found = known[key] = (gone, answer(code))
        return found[1]

    return remembered


def line_of(frame: types.FrameType) -> int:
    """``frame.f_lineno``."""
    if frame.f_lasti < LONG or frame.f_trace is not None:  # a debugger may have moved it
        return frame.f_lineno
    starts, lines = _table(frame.f_code)
    return lines[bisect_right(starts, frame.f_lasti) - 1]


@per_code
def _table(code: types.CodeType) -> tuple[list[int], list[Any]]:
    """Where the instructions of each line begin, and the lines."""
    found = list(code.co_lines())
    return [start for start, _, _ in found], [line for _, _, line in found]


def holds(outer: types.CodeType, inner: types.CodeType) -> bool:
    """Whether code defines other code, or what does."""
    nested = [c for c in outer.co_consts if isinstance(c, types.CodeType)]
    return any(c is inner or holds(c, inner) for c in nested)


def is_body(inner: types.CodeType, outer: types.CodeType) -> bool:
    """Whether code is the body of a statement, as generated, in other code: what it makes comes out of it by variables and changes only."""
    if inner is outer or inner.co_qualname != outer.co_qualname:
        return False
    return _gives_nothing(inner) and holds(outer, inner)


@per_code
def _gives_nothing(code: types.CodeType) -> bool:
    """Whether each return is that of None."""
    before = None
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name == "RETURN_VALUE" and (before is None or before.opname != "LOAD_CONST" or before.argval is not None):  # fmt: skip
            return False
        if name in ("RETURN_GENERATOR", "YIELD_VALUE") or (name == "RETURN_CONST" and instruction.argval is not None):  # fmt: skip
            return False
        before = instruction
    return True
