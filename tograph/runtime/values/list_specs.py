"""The staged list that covers lists of different lengths."""

from __future__ import annotations

from . import structure
from .records import open_list
from .structure import Spec, Tree


def join_lists(specs: list[Spec]) -> Spec | None:
    """A staged list that covers lists of different lengths; None when they are no such lists."""
    cls = getattr(specs[0], "cls", type(None))
    alike = issubclass(cls, structure.STAGED.lists) and all(
        isinstance(s, Tree) and s.cls is cls for s in specs
    )
    if not alike:
        return None
    return open_list(specs)


structure.STAGED.join_lists = join_lists
