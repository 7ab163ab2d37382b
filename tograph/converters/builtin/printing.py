"""``print`` when the graph runs.

Each run prints to the standard streams and to files from outside of the function. A file that the function itself made, of a user's class or
in memory, is written as its ``write`` says: that of the class is converted, and a text in memory takes what is known while tracing.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import torch

from ...runtime import control_flow
from ...runtime.graph import prints
from ...runtime.graph.ops import OpaqueObject
from ...runtime.guarding import reads, unconverted
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.library.staged_string import StagedString
from ...runtime.symbols.funcgraph import current_graph, is_tracing
from ...runtime.traces.shown import shows_staged
from .. import text_options, union
from ..call_rules import CONVERTED_CODE, is_unconverted
from ..conversion import convert_if_needed
from ..outside_world import is_opened_here, plain_text
from ..registry import handles
from ..strings import fstring, outside

# What no class of the user's gives a text.
_OWN = (torch.Tensor, StagedString, control_flow.StagedException, list, tuple, dict, set, *SYMBOLS)


@handles(print)
def print_(*values, sep=None, end=None, file=None, flush=False):
    """``print`` acts whenever the graph runs."""
    if not is_tracing():
        print(*values, sep=sep, end=end, file=file, flush=flush)
        return
    values = tuple(map(text_options.as_text, values))
    if union.holds_union((sep, end, *values), {}):
        union.apply(
            lambda s, e, *v: print_(*v, sep=s, end=e, file=file, flush=flush), sep, end, *values
        )
        return
    if file is None and sys.stdout is not current_graph().root.stdout:
        file = sys.stdout  # one that the function has put there
        if file is None:
            return
    if is_opened_here(file):
        print(*map(_plain, values), sep=_plain(sep), end=_plain(end), file=file, flush=flush)
        return
    graph = current_graph()
    if write := _own_write(file):
        _written(write, values, sep, end)
        if flush:
            file.flush()
        return
    args = tuple(_printed(v, graph) for v in values)
    sep, end = (outside(x, graph) if isinstance(x, StagedString) else x for x in (sep, end))
    kwargs = {"sep": sep, "end": end, "flush": flush}
    kwargs = {k: v for k, v in kwargs.items() if v is not None and v is not False}
    kept = reads.is_outside(file)
    file = prints.stream(file, kept) if graph.root.is_standard(file) else file
    if isinstance(file, io.StringIO):
        graph.root.told.append(file)
    if file is not None:  # one from outside is this very object, whose ``write`` may change it
        plain = kept and not hasattr(file, "handle_")
        kwargs["file"] = OpaqueObject(file, "file") if plain else outside(file, graph)
    fails = not prints.is_standard(file)  # ``write`` of a user's file may raise
    graph.add("tg.print", args, kwargs, unsure=fails).unsure = fails


def _own_write(file: Any) -> Callable[[Any], Any] | None:
    """How a file is written that the function itself has made; None for others."""
    if file is None or current_graph().root.is_standard(file) or reads.is_outside(file):
        return None
    write = getattr(type(file), "write", None)
    if write is io.StringIO.write:
        return lambda text: _remember(file, text)
    if is_unconverted(write) or getattr(write, "__code__", None) in CONVERTED_CODE:
        return lambda text: convert_if_needed(write)(file, text)
    return None


def _remember(file: io.StringIO, text: Any) -> None:
    if isinstance(text, StagedString):
        text.refuse("written to a text in memory")
    unconverted.run(file.write, (text,), {})


def _written(write: Callable[[Any], Any], values: tuple, sep: Any, end: Any) -> None:
    """The writes of a ``print``."""
    for i, value in enumerate(values):
        if i:
            write(" " if sep is None else sep)
        write(fstring((value, "s", "")))
    write("\n" if end is None else end)


def _plain(value: Any) -> Any:
    """What is printed to a file that was opened while tracing."""
    return plain_text(value, isinstance(value, _OWN) and shows_staged(value))


def _printed(value: Any, graph) -> Any:
    if isinstance(value, _OWN) and shows_staged(value):
        return outside(value, graph)
    if value is None or type(value) in (bool, int, float, str, complex):
        return value
    text = fstring((value, "s", ""))
    return text if isinstance(text, str) else outside(text, graph)
