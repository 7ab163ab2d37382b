"""The items of a heap as rows, where they are objects that can change and the heap is a list of the graph.

Such an object has its place in the list. ``heapq`` moves all but the one that it takes, and some for a while to a second place: there they are
tuples of what they hold, in a list of the same columns. ``put_back`` is the list with its items in their new places; those that have a name
lose theirs. The object that is taken is the last one that leaves the list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime.symbols import journal
from ...runtime.symbols.funcgraph import current_graph
from ...runtime.values import locations, pytrees
from ...runtime.values.growing import StagedList, as_staged
from ...runtime.values.homes import can_change
from ...runtime.values.records import Columns, is_frozen
from ...runtime.values.structure import Leaf, Tree
from ..registry import handles
from ..staging import is_staged


def rows_of(heap: Any, item: Any = None) -> tuple[Any, Callable[[Any], Any] | None]:
    """The rows of a heap, and what makes an item of one; the heap itself and None where its items move as they are."""
    if not (type(heap) is StagedList and current_graph().root.nested):
        return heap, None
    if heap.handle is None and _is_compared(heap, item):
        journal.record(locations.contents(heap))
        heap.become(as_staged(heap))
    spec = heap.item_spec if heap.handle is not None else None
    if not (isinstance(spec, Tree) and pytrees.is_plain_class(spec.cls)):
        return heap, None
    if is_frozen(spec.cls) or not all(map(_stays, spec.parts)):
        return heap, None
    cls, aux = spec.cls, spec.aux
    row = Columns(Tree(tuple, None, spec.parts))
    return StagedList()._hold(heap.columns, row), lambda parts: pytrees.rebuild(
        cls, aux, list(parts)
    )


def _is_compared(heap: StagedList, item: Any) -> bool:
    """Whether objects that can change are ordered by what only the run knows."""
    objects = [*list.__iter__(heap), *([] if item is None else [item])]
    if len(objects) < 2 or not all(map(can_change, objects)):
        return False
    parts = [pytrees.parts_of(x) for x in objects]
    return any(is_staged(p) for found in parts if found is not None for p in found[1])


def _stays(part: Any) -> bool:
    """Whether a part of an object cannot change."""
    return isinstance(part, Leaf) or not isinstance(part, Tree)


def put_back(heap: Any, rows: Any) -> None:
    """``heap`` with its items where ``rows`` have them."""
    if rows is heap:
        return
    journal.record(locations.contents(heap))
    heap.replace(StagedList()._hold(rows.columns, heap.record))


# The library's code that is converted calls them, as they are.
handles(rows_of)(rows_of)
handles(put_back)(put_back)
