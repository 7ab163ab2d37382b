"""Gradients of rising order: a loop whose iterations each differentiate what the one before took, unrolled as branches (``control_flow.unrolled``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import GradientError
from ..graph.families import ALTERNATIVES
from ..symbols.funcgraph import FuncGraph, user_location


def check_unrolled(nodes: Iterable[Any], graph: FuncGraph) -> None:
    """An error where each iteration of a loop may differentiate gradients of rising order that another one, unrolled as branches, has taken: that takes very long."""
    around: FuncGraph | None = graph
    while around is not None and not around.repeats:
        around = around.outer
    calls = [n.call.node for n in nodes if hasattr(n, "call")]
    if around is not None and any(n.op in ALTERNATIVES for n in calls):
        raise GradientError(_RISEN, user_location())


_RISEN = (
    "a gradient with create_graph=True that is taken inside of a staged loop goes through gradients that another loop has taken, each of which is of a higher order than "
    "the one before. Detach what that loop gives, or take the gradient after the loops."
)
