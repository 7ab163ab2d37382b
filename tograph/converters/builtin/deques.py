"""``collections.deque`` in converted code: a deque that can become a list of the graph, and what of it takes staged control flow."""

from __future__ import annotations

import operator
from collections import deque
from typing import Any

from ...runtime.symbols import journal
from ...runtime.symbols.funcgraph import is_tracing
from ...runtime.values import locations
from ...runtime.values.deques import StagedDeque, bounded
from ...runtime.values.growing import StagedList
from ..calls import call
from ..for_stmt import for_stmt
from ..if_stmt import if_stmt
from ..registry import GROWING, METHODS, handles
from ..sequence_index import select
from ..staging import is_staged


@handles(deque)
def deque_(iterable: Any = (), maxlen: Any = None) -> Any:
    if not is_tracing():
        return deque(iterable, maxlen)
    made = bounded(deque(maxlen=maxlen).maxlen)()
    call(made.extend, call(list, iterable))
    return made


def _extendleft(items: StagedDeque, others: Any) -> None:
    others = items.copy() if others is items else others
    for_stmt(others, lambda x: call(items.appendleft, x), ())


def _rotate(items: StagedDeque, n: Any = 1) -> None:
    def turn() -> None:
        cut = -n % items.length()
        turned = items.sliced(slice(cut, None, None))
        turned.extend(items.sliced(slice(None, cut, None)))
        call(items.clear)
        call(items.extend, turned)

    if_stmt(items.length() > 0, turn, None, ())


def _turned(items: Any, n: Any = 1) -> Any:
    """``items.rotate(n)`` by a number of the graph, of as many items as are known."""
    if not is_staged(n):
        return NotImplemented
    n = call(operator.index, n)
    held = list(items)
    places = [(i - n) % len(held) for i in range(len(held))] if held[1:] else []
    new = [select(held, at) for at in places]
    journal.record(locations.contents(items))
    for i, item in enumerate(new):
        items[i] = item
    return None


METHODS[StagedList, "rotate"] = METHODS[deque, "rotate"] = _turned
GROWING["extendleft"] = _extendleft
GROWING["rotate"] = _rotate
