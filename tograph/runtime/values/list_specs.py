"""The staged list that covers lists of different lengths, and the staged tuple that covers tuples."""

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


def join_tuples(specs: list[Spec]) -> Spec | None:
    """A tuple of the graph that covers tuples of different lengths; None when they are no such tuples."""
    tuples = structure.STAGED.tuples
    if not all(isinstance(s, Tree) and s.cls in (tuple, tuples) for s in specs):
        return None
    return open_list([Tree(tuples, s.aux, s.parts) for s in specs if isinstance(s, Tree)])


structure.STAGED.join_lists, structure.STAGED.join_tuples = join_lists, join_tuples
