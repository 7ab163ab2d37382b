"""What the items of a list are: the join of their specs, and the staged list that covers lists of different lengths."""

from __future__ import annotations

from typing import Any

from . import structure
from .joins import join
from .records import Columns, item_of
from .structure import Leaf, Spec, Tree, leaf_types
from .types import ListType


def element_of(spec: Spec) -> Any:
    """The join of the items of a list spec: None for an empty list, a Choice when items differ in kind."""
    if spec.aux == "staged":
        found = spec.parts[0].type.element
        return None if found is None else Leaf(found)
    if isinstance(spec.aux, Columns):
        return spec.aux.spec([p.type.element for p in spec.parts])
    out: Any = None
    for part in spec.parts:
        part = Leaf(part.type) if isinstance(part, Leaf) else item_of(part) or part
        out = part if out is None else join(out, part)
    return out


def join_lists(specs: list[Spec]) -> Spec | None:
    """A staged list that covers lists of different lengths; None when they are no such lists."""
    cls = getattr(specs[0], "cls", type(None))
    alike = issubclass(cls, structure.STAGED.lists) and all(
        isinstance(s, Tree) and s.cls is cls for s in specs
    )
    if not alike:
        return None
    element: Any = None
    for spec in specs:
        found = element_of(spec)
        if found is not None:
            element = found if element is None else join(element, found)
    if element is None:
        return Tree(cls, "staged", (Leaf(ListType(None)),))
    item = item_of(element)
    if item is None:
        return None
    parts = tuple(Leaf(ListType(kind)) for kind in leaf_types(item))
    return Tree(cls, "staged" if isinstance(item, Leaf) else Columns(item), parts)
