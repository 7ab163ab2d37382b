"""What the items of a list of the graph may be: tensors, numbers, and records of these that cannot change.

A list of tuples is kept in columns, one list of the graph for each leaf of its items.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from . import joins, structure
from .flattening import unflatten
from .structure import Leaf, Spec, Tree, leaf_types
from .types import OBJECT, ScalarType, TensorType, Type


class Columns:
    """The form of the items of a list of records: a spec whose leaves are the columns, in order."""

    def __init__(self, item: Spec):
        self.item = item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and _same_form(self.item, other.item)

    def __hash__(self) -> int:
        return hash(len(leaf_types(self.item)))

    def spec(self, kinds: Sequence[Type]) -> Spec:
        """The spec of an item whose leaves have these types."""
        return _with_types(self.item, iter(kinds))

    def items(self, columns: Sequence[Sequence[Any]]) -> list[Any]:
        """The items, from the contents of the columns."""
        return [unflatten(self.item, iter(row), lambda v: v) for row in zip(*columns, strict=True)]


def _same_form(a: Spec, b: Spec) -> bool:
    if isinstance(a, Tree) and isinstance(b, Tree):
        same = a.cls is b.cls and a.aux == b.aux and len(a.parts) == len(b.parts)
        return same and all(map(_same_form, a.parts, b.parts))
    return isinstance(a, Leaf) and isinstance(b, Leaf) if isinstance(a, Leaf) else joins.equal(a, b)


def _with_types(spec: Spec, kinds: Iterator[Type]) -> Spec:
    if isinstance(spec, Leaf):
        return Leaf(next(kinds))
    if isinstance(spec, Tree):
        return Tree(spec.cls, spec.aux, tuple(_with_types(p, kinds) for p in spec.parts))
    return spec


def item_of(spec: Spec) -> Spec | None:
    """The spec of items like this one, with every tensor and number open; None for what a list of the graph cannot hold.

    Items that can be changed after the append are none: the list would not see the change.
    """
    if isinstance(spec, Leaf):
        return Leaf(spec.type) if isinstance(spec.type, (TensorType, ScalarType)) else None
    opened = joins.text_of(spec) or _open_record(spec)
    return opened if opened is not None and leaf_types(opened) else None


def _open_record(spec: Spec) -> Spec | None:
    if isinstance(spec, Leaf):
        return Leaf(spec.type) if spec.type == OBJECT else item_of(spec)
    text = joins.text_of(spec)  # another item may hold another string
    if text is not None or isinstance(spec, structure.Choice):
        return text
    if isinstance(spec, structure.Const):
        return spec if spec.value is None or isinstance(spec.value, bytes) else None
    if not isinstance(spec, Tree) or not _is_frozen(spec.cls):
        return None
    parts = [_open_record(p) for p in spec.parts]
    return None if None in parts else Tree(spec.cls, spec.aux, tuple(parts))


def _is_frozen(cls: type) -> bool:
    params = getattr(cls, "__dataclass_params__", None)
    frozen = params is not None and params.frozen
    return frozen or issubclass(cls, tuple) or getattr(cls, "__tograph_frozen__", False)


def named(spec: Spec | None) -> str:
    if isinstance(spec, Leaf):
        return str(spec.type)
    return f"({', '.join(map(named, spec.parts))})" if isinstance(spec, Tree) else "constant"
