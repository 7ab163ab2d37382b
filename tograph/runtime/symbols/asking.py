"""Who asked for a value that is known only when the graph runs: what an error says of the frame."""

from __future__ import annotations

import inspect
import os
import sys

import torch

from .funcgraph import USER_CODE, current_graph, is_tracing

_SYMBOLS = os.path.dirname(__file__) + os.sep
_TORCH = os.path.dirname(torch.__file__) + os.sep
_LIBRARY = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep


_GENERATOR = (
    "A generator whose values are taken by anything but a `for` runs as plain Python: loop over it with `for`, or "
    "write it as a function that returns a list."
)


def _in_generator(frame) -> bool:
    return frame.f_code in USER_CODE and bool(frame.f_code.co_flags & inspect.CO_GENERATOR)


def number_asked() -> str:
    """Why a staged number was asked for: torch's class of such numbers stands between who asks and us."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _between(frame.f_code.co_filename):
        frame = frame.f_back
    return _GENERATOR if _in_generator(frame) else "Here the code runs as plain Python: it was not converted."  # fmt: skip


def _between(file: str) -> bool:
    return file == torch.__file__ or file.startswith(_LIBRARY)


def asked_by(frame) -> str:
    """Why a value was asked for: code that was not converted, or a built-in that compares or tests."""
    if _in_generator(frame):
        return _GENERATOR
    if frame.f_code in USER_CODE or frame.f_code.co_filename.startswith(_LIBRARY):
        return (
            "A built-in operation asked for it (==, in, index, count, remove, sort, max with a key, ...), which compares or "
            "tests by itself: write a loop or a comparison of single tensors, or use torch.equal, torch.sort or torch.any."
        )
    return (
        "Here the code runs as plain Python: it was not converted (tg.do_not_convert, autograph=False, or a library "
        "that is left alone)."
    )


def refusal(error: Exception) -> Exception:
    """The error, noted where code of others asked for a value: code that is not converted may handle it and go on, with another result than in Python."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_code.co_filename.startswith(_SYMBOLS) or frame.f_code.co_filename == torch.__file__):  # fmt: skip
        frame = frame.f_back
    file = frame.f_code.co_filename
    if is_tracing() and not file.startswith((_LIBRARY, _TORCH)):
        current_graph().root.refusals.append(error)
    return error
