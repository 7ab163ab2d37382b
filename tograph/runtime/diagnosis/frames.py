"""The frames of a traceback that are the user's, and where in the source each of them stands."""

from __future__ import annotations

import functools
import linecache
import os
import re
import sysconfig
import types
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from ...errors import carets_under
from ..symbols.code_lines import holds
from ..symbols.funcgraph import USER_CODE

_HERE = str(Path(__file__).parents[2]) + os.sep
_RAISE = re.compile(r"raise\s+\S")
_TORCH = str(Path(torch.__file__).parent) + os.sep


@dataclass(frozen=True)
class Frame:
    """A place in the user's code. Columns are byte offsets into the line, as Python counts them."""

    file: str
    line: int
    function: str
    converted: bool
    span: tuple[int, int, int] | None  # last line, first column, end column
    frame: types.FrameType | None  # of what has returned only the place is known

    @property
    def mark(self) -> str:
        return "*" if self.converted else "**"

    def source(self) -> str:
        """The line of the file, without its end."""
        return linecache.getline(self.file, self.line).rstrip()

    def expression(self) -> str:
        """The source of the expression that was evaluated, or of the whole line."""
        if self.span is None or (self.line, self.span[1]) == (self.span[0], self.span[2]):
            return self.source().strip()
        last, start, end = self.span
        lines = [linecache.getline(self.file, n).encode() for n in range(self.line, last + 1)]
        if not lines:
            return ""
        lines[-1] = lines[-1][:end]
        lines[0] = lines[0][start:]
        return b"".join(lines).decode(errors="replace").strip()

    def raises(self) -> bool:
        """Whether a ``raise`` statement of the user's is evaluated, other than one that raises again."""
        return bool(_RAISE.match(self.expression()))

    def caret(self) -> str:
        """Carets under the expression, for the line without its indentation; empty for a whole line."""
        last, start, end = self.span or (None, None, None)
        return carets_under(self.source(), self.line, (self.line, last, start, end))


def frames_of(trace: types.TracebackType | None) -> list[Frame]:
    """The user's frames, outermost first; a generated body stands for the function that it is part of."""
    found: list[Frame] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_users(code):
            if found and _is_part(code, found[-1].frame.f_code):
                found.pop()
            found.append(_frame(trace.tb_frame, trace.tb_lasti, trace.tb_lineno))
        trace = trace.tb_next
    return found


def stack_frames(frame: types.FrameType | None) -> list[Frame]:
    """The frames of converted code that are being run, outermost first."""
    found: list[Frame] = []
    while frame is not None:
        code = frame.f_code
        known = bool(found) and _is_part(found[-1].frame.f_code, code)
        if code in USER_CODE and is_users(code) and not known:
            found.append(_frame(frame, frame.f_lasti, frame.f_lineno))
        frame = frame.f_back
    return found[::-1]


def calls_of(place: object) -> list[Frame]:
    """The calls that led to a node, outermost first; of none if they are not known."""
    found: list[tuple[types.CodeType, int]] = []
    for code, line in reversed(getattr(place, "calls", ())):
        if is_users(code):
            if found and _is_part(code, found[-1][0]):
                found.pop()
            found.append((code, line))
    return [Frame(code.co_filename, line, code.co_name, True, None, None) for code, line in found]


def outer_frames(frame: types.FrameType | None) -> list[types.FrameType]:
    """A frame and those around it as plain Python would have them, innermost first: a generated body is part of its function."""
    found: list[types.FrameType] = []
    while frame is not None:
        code = frame.f_code
        inner = found[-1].f_code if found else code
        body = inner is not code and inner.co_qualname == code.co_qualname and holds(code, inner)
        if not (body or code.co_filename.startswith(_HERE)):
            found.append(frame)
        frame = frame.f_back
    return found


def outer_frame(frame: types.FrameType) -> types.FrameType | None:
    """``frame.f_back`` as plain Python would have it."""
    return next(iter(outer_frames(frame)[1:]), None)


def joined(outer: list[Frame], inner: list[Frame]) -> list[Frame]:
    """The frames of a stack and of a traceback that starts on it."""
    if outer and inner and _is_part(inner[0].frame.f_code, outer[-1].frame.f_code):
        outer = outer[:-1]
    return [*outer, *inner]


@functools.cache
def _libraries() -> tuple[str, ...]:
    """The folders of the standard library and of installed packages; finding them out costs more than the rest of an import."""
    paths = sysconfig.get_paths()
    return tuple(paths[n] + os.sep for n in ("stdlib", "purelib", "platlib"))


def is_users(code: types.CodeType) -> bool:
    """Whether a frame of this code is one that its reader wrote."""
    file = code.co_filename
    if file.startswith((_HERE, _TORCH)):
        return False
    if code in USER_CODE:
        return True
    if file.startswith(_libraries()):
        return False
    return not file.startswith("<") or bool(linecache.getline(file, code.co_firstlineno))


def trimmed(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback without the frames of libraries."""
    kept = []
    while trace is not None:
        if is_users(trace.tb_frame.f_code):
            kept.append(trace)
        trace = trace.tb_next
    made = None
    for entry in reversed(kept):
        made = types.TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def inside_tograph(trace: types.TracebackType | None) -> bool:
    """Whether an exception was raised by tograph's own code, and not by what it called."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE)


def is_librarys(error: BaseException | None) -> bool:
    """Whether an exception was raised below tograph's own code and caught there (a shape rule that failed before torch's own check): plain Python has no such one."""
    trace = error and error.__traceback__
    return (
        trace is not None
        and trimmed(trace) is None
        and trace.tb_frame.f_code.co_filename.startswith(_HERE)
    )


def _is_part(inner: types.CodeType, outer: types.CodeType) -> bool:
    """Whether code is a generated body, or a lambda, of other code."""
    named_so = inner.co_qualname == outer.co_qualname or inner.co_name == "<lambda>"
    return named_so and inner is not outer and holds(outer, inner)


def _frame(frame: types.FrameType, instruction: int, line: int) -> Frame:
    code = frame.f_code
    first, last, start, end = next(
        islice(code.co_positions(), instruction // 2, None), (None, None, None, None)
    )
    known = first == line and None not in (last, start, end)
    return Frame(
        code.co_filename,
        line,
        code.co_name,
        code in USER_CODE,
        (last, start, end) if known else None,
        frame,
    )
