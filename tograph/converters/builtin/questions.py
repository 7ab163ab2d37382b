"""What a program asks torch of its modes: see ``runtime.questions``."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.guarding import questions, reads
from ...runtime.symbols.funcgraph import is_tracing
from ..registry import handles


def _answered(question: Callable[[], bool]) -> None:
    @handles(question)
    def asked() -> bool:
        watch = reads.current() if is_tracing() else None
        return question() if watch is None else questions.answer(question, watch.began, watch)


for _question in questions.QUESTIONS:
    _answered(_question)
