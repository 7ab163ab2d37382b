"""Who asked for a value that is known only when the graph runs: what an error says of the frame."""

from __future__ import annotations

import inspect
import os

from .funcgraph import USER_CODE

_LIBRARY = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep


def asked_by(frame) -> str:
    """Why a value was asked for: code that was not converted, or a built-in that compares or tests."""
    if frame.f_code in USER_CODE and frame.f_code.co_flags & inspect.CO_GENERATOR:
        return (
            "A generator whose values are taken by anything but a `for` runs as plain Python: loop over it with `for`, or "
            "write it as a function that returns a list."
        )
    if frame.f_code in USER_CODE or frame.f_code.co_filename.startswith(_LIBRARY):
        return (
            "A built-in operation asked for it (==, in, index, count, remove, sort, max with a key, ...), which compares or "
            "tests by itself: write a loop or a comparison of single tensors, or use torch.equal, torch.sort or torch.any."
        )
    return (
        "Here the code runs as plain Python: it was not converted (tg.do_not_convert, autograph=False, or a library "
        "that is left alone)."
    )
