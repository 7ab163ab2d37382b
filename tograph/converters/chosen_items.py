"""The items of what is one iterable or another by a staged condition.

Those of two that have equally many are taken as pairs that the condition chooses from. Else they are put into one list, whose length only the run knows.
"""

from __future__ import annotations

from typing import Any

from ..runtime.values.growing import StagedList
from ..runtime.values.structure import is_growing
from .calls import call
from .lists import new_list
from .union import apply

_SIZED = (list, tuple, StagedList)


def items_of(x: Any) -> Any:
    """What goes over the items of a union."""
    sizes = {len(o) if _has_size(o) else -1 for o in x.options_}
    if len(sizes) == 1 and sizes != {-1}:
        return x
    found = new_list()
    apply(lambda chosen: call(found.extend, chosen), x)
    return found


def _has_size(x: Any) -> bool:
    return type(x) in _SIZED and not is_growing(x)
