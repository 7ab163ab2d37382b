"""What a program asks torch of its own modes, such as ``torch.is_grad_enabled()``.

The answer is a constant of the trace, and one of the call: a call in another mode has another trace. A trace runs with the gradient mode on
whatever the call's is, so the answer is what the call began with, until the code enters a mode of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .guards import ANSWER, Check
from .sources import global_

if TYPE_CHECKING:
    from .place_checks import PlaceChecks

QUESTIONS: tuple[Callable[[], bool], ...] = (
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.is_anomaly_enabled,
    torch.are_deterministic_algorithms_enabled,
)
_SOURCES = {q: global_(vars(torch), q.__name__) for q in QUESTIONS}
_IN_A_TRACE = {torch.is_grad_enabled: True}


def answers() -> dict[Any, bool]:
    """The answers now."""
    return {q: q() for q in QUESTIONS}


def answer(question: Callable[[], bool], began: dict[Any, bool], watch: PlaceChecks) -> bool:
    """The answer in a trace; ``began``: the answers where its call began."""
    now, before = question(), began[question]
    if now != _IN_A_TRACE.get(question, before):
        return now  # the code's own
    return at_the_start(question, began, watch)


def at_the_start(question: Callable[[], bool], began: dict[Any, bool], watch: PlaceChecks) -> bool:
    """The answer where the call began, whatever the code has entered since."""
    before = began[question]
    watch.check(_SOURCES[question], "answer", ANSWER, before, str(before))
    return before


def grad_mode(before: bool) -> Check:
    """The check that a call begins with gradients on, or off."""
    return Check(_SOURCES[torch.is_grad_enabled], ANSWER, before, str(before))
