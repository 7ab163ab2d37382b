"""``make_dual`` and ``unpack_dual`` of ``torch.autograd.forward_ad`` inside of a function: torch's own, noted where they are called (``symbols.duals``)."""

from __future__ import annotations

from typing import Any

from torch.autograd import forward_ad

from ...errors import GradientError
from ...runtime.symbols import duals
from ...runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ..registry import handles


@handles(forward_ad.make_dual)
def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    _note(duals.MADE)
    return forward_ad.make_dual(tensor, tangent, level=level)


@handles(forward_ad.unpack_dual)
def unpack_dual(tensor: Any, *, level: int | None = None) -> Any:
    _note(duals.UNPACKED)
    return forward_ad.unpack_dual(tensor, level=level)


def _note(what: str) -> None:
    if not is_tracing() or not duals.level_open():
        return
    graph = current_graph()
    if forward_ad._current_level == graph.root.level:
        raise GradientError(
            "a level of forward-mode AD (torch.autograd.forward_ad) that was opened around the call of a function is used inside: open it inside, "
            "or make and unpack dual tensors outside",
            user_location(),
        )
    duals.note(graph, what)
