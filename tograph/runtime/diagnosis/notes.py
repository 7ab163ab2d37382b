"""The note on an exception: frames, a caret, what was found, advice."""

from __future__ import annotations

import sys
import types
from typing import Any

from ... import settings
from ...errors import Location, TographError, show_location
from ..graph.ir import Graph, Node
from ..graph.item_errors import in_words_of_indexing
from ..graph.text import line_of
from ..symbols.funcgraph import USER_CODE
from .advice import advice_on
from .found import MISSING, describe, lookup, operands
from .frames import (
    Frame,
    calls_of,
    frames_of,
    inside_tograph,
    is_librarys,
    joined,
    stack_frames,
    trimmed,
)

_TRACED = "in user code"
_RAN = "raised when the graph ran"


def shown(error: BaseException) -> BaseException:
    """The exception that left a trace or a run, made readable; it is the same object."""
    frames = frames_of(error.__traceback__)
    if not _noted(error):
        note = _trace_note(error, frames)
        if note:
            error.add_note(note)
    if not settings.DEBUG:
        _trim(error)
    return error


def at_run_time(error: BaseException, node: Node | None, graph: Graph) -> None:
    """Note the user's lines that made the node that failed, the node, and the types of its inputs."""
    in_words_of_indexing(error)
    if node is None or node.location is None or _noted(error):
        return
    line, kinds = line_of(graph, node)
    kept = getattr(node.location, "note", "")
    lines = [f"{_RAN}:", kept] if kept else _ran_at(node.location)
    lines.append(f"  by the node {line} of {graph.name!r}")
    lines += [f"  with {', '.join(kinds)}"] if kinds else []
    lines += _help(advice_on(error, {})) if not kept else []
    error.add_note("\n".join(lines))


def _ran_at(place: Location) -> list[str]:
    frames = calls_of(place)
    if len(frames) < 2:
        return [f"{_RAN}, at:{show_location(place)}"]
    calls = [line for f, n in _folded(frames) for line in _frame_lines(f, n, last=False)]
    return [f"{_RAN}:", f"{_TRACED} (* converted):", *calls]


def explained(error: BaseException) -> str:
    """The note of an exception that becomes part of a graph, to be shown when the graph raises it."""
    inner = frames_of(error.__traceback__)
    if not (inner or _by_converted_code(error.__traceback__)):
        return ""
    return _trace_note(error, joined(stack_frames(sys._getframe(1)), inner))


def _by_converted_code(trace: types.TracebackType | None) -> bool:
    """Whether converted code of a library raised it, and not an operator of tograph's."""
    while trace is not None:
        if trace.tb_frame.f_code in USER_CODE:
            return True
        trace = trace.tb_next
    return False


def _noted(error: BaseException) -> bool:
    return any(n.startswith((_TRACED, _RAN)) for n in getattr(error, "__notes__", ()))


def _trim(error: BaseException | None) -> None:
    """Take the library's frames out of an exception and of those that led to it, and those that the library raised for itself."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = trimmed(error.__traceback__)
        while is_librarys(error.__context__):
            error.__context__ = error.__context__.__context__
        error = error.__cause__ or error.__context__


def _trace_note(error: BaseException, frames: list[Frame]) -> str:
    if not frames:
        return ""
    values = _values(error, frames[-1])
    known = isinstance(error, TographError) and error.location == (frames[-1].file, frames[-1].line)
    listed = frames[:-1] if known else frames
    lines = [line for f, n in _folded(listed) for line in _frame_lines(f, n, f is frames[-1])]
    lines += [f"  where {name} is {text}" for name, text in values.items()]
    lines += _help(_advice(error, frames[-1]))
    if not lines:
        return ""
    plain = any(not f.converted for f in listed)
    marks = "* converted" + (", ** run as written" if plain else "")
    return "\n".join([f"{_TRACED} ({marks}):" if listed else f"{_TRACED}:", *lines])


def _folded(frames: list[Frame]) -> list[tuple[Frame, int]]:
    """Frames with how often each repeats: a recursion shows its line once."""
    found: list[tuple[Frame, int]] = []
    for frame in frames:
        if found and (found[-1][0].file, found[-1][0].line) == (frame.file, frame.line):
            found[-1] = frame, found[-1][1] + 1
        else:
            found.append((frame, 1))
    return found


def _frame_lines(frame: Frame, times: int, last: bool) -> list[str]:
    lines = [f'  File "{frame.file}", line {frame.line}, in {frame.function}  {frame.mark}']
    lines += [f"    {frame.source().strip()}"] if frame.source() else []
    lines += [f"    {frame.caret()}"] if last and frame.caret() else []
    return lines + ([f"    ({times - 1} more calls like this one)"] if times > 1 else [])


def _values(error: BaseException, frame: Frame) -> dict[str, str]:
    values: dict[str, Any] = operands(frame)
    name = getattr(error, "name", None)
    if isinstance(error, NameError) and name and lookup(frame, (name,)) is MISSING:
        values.pop(name, None)
    return {n: describe(v) for n, v in values.items()}


def _advice(error: BaseException, frame: Frame) -> str:
    if frame.raises():
        return ""  # the words, and what is wrong, are the user's own
    if type(error) in (NameError, ImportError) and inside_tograph(error.__traceback__):
        return "this was raised inside tograph, and is a defect of it; TOGRAPH_DEBUG=1 shows where"
    return advice_on(error, operands(frame))


def _help(advice: str) -> list[str]:
    return [f"  help: {advice}"] if advice else []
