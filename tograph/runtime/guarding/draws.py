"""What numpy's random generators draw, they draw while tracing: a trace in which one drew serves one call, and the next one draws anew.

The generator that all of the program shares is looked at before and after a trace, whoever draws from it; others where they are given to code
that is not converted. A trace that begins again draws what it drew before.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..recording import opaque
from ..symbols import journal
from ..symbols.retrace import Retrace
from ..symbols.root import Root
from . import sources


def is_generator(x: Any) -> bool:
    """Whether ``x`` is a random generator of numpy; `import tograph` does not load them."""
    return _are_loaded() and isinstance(x, (np.random.RandomState, np.random.Generator))


class Draws:
    """The generators from which a trace may draw, each with its state before."""

    def __init__(self) -> None:
        self.before: dict[int, tuple[Any, Any]] = {}
        self.fresh: list[Any] = []  # those that were seeded
        self.loaded = _are_loaded()
        if self.loaded:
            self.note(np.random.mtrand._rand)

    def note(self, x: Any) -> None:
        """``x`` may draw from here on, if it is a generator."""
        if is_generator(x):
            self.before.setdefault(id(x), (x, _state(x)))

    def seeded(self, function: Any, owner: Any) -> None:
        """``function``, a method of ``owner`` or a function of numpy, seeds a generator."""
        shared = _are_loaded() and function is np.random.seed
        x = np.random.mtrand._rand if shared else owner
        if is_generator(x):
            journal.lasts(opaque.refusal(x, "and what it holds afterwards depends on a staged condition"))  # fmt: skip
        if is_generator(x):
            self.fresh.append(x)

    def changed(self) -> list[Any]:
        """The generators that have drawn, or that the code has seeded."""
        drawn = [x for x, state in self.before.values() if not _same(_state(x), state)]
        return [*drawn, *self.fresh]

    def check(self, watch: Any, root: Root) -> None:
        """Where one has drawn, the trace serves this call only; nothing draws when its graph runs, since that would be in another order."""
        if _are_loaded() and not self.loaded:
            raise Retrace  # none was looked at
        changed = self.changed()
        if changed and root.draws:
            raise Retrace(drawn=True)
        for x in changed:
            source = watch.source_of(x) or sources.object_(x, "a random generator of numpy")
            watch.check(source, "once", "False", None, "what it draws")

    def put_back(self) -> None:
        """The trace begins again."""
        for x, state in self.before.values():
            if isinstance(x, np.random.RandomState):
                x.set_state(state)
            else:
                x.bit_generator.state = state


def _are_loaded() -> bool:
    """Whether there are generators: numpy loads them when they are first asked for."""
    return "numpy.random" in sys.modules


def _state(x: Any) -> Any:
    if isinstance(x, np.random.RandomState):
        return x.get_state(legacy=False)
    return x.bit_generator.state


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b)
