"""``print`` when the graph runs."""

from __future__ import annotations

from typing import Any

import torch

from ...runtime import control_flow
from ...runtime.graph import prints
from ...runtime.graph.ops import OpaqueObject
from ...runtime.guarding import reads
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.library.staged_string import StagedString
from ...runtime.symbols.funcgraph import current_graph, is_tracing
from ...runtime.traces.shown import shows_staged
from .. import text_options, union
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
    if is_opened_here(file):
        print(*map(_plain, values), sep=_plain(sep), end=_plain(end), file=file, flush=flush)
        return
    graph = current_graph()
    args = tuple(_printed(v, graph) for v in values)
    sep, end = (outside(x, graph) if isinstance(x, StagedString) else x for x in (sep, end))
    kwargs = {"sep": sep, "end": end, "flush": flush}
    kwargs = {k: v for k, v in kwargs.items() if v is not None and v is not False}
    kept = reads.is_outside(file)
    file = prints.stream(file, kept)
    if file is not None:  # one from outside is this very object, whose ``write`` may change it
        plain = kept and not hasattr(file, "handle_")
        kwargs["file"] = OpaqueObject(file, "file") if plain else outside(file, graph)
    graph.add("tg.print", args, kwargs)


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
