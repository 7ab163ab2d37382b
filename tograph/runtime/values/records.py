"""What the items of a list of the graph may be: tensors, numbers, records of these, and lists of these.

A list of tuples is kept in columns, one list of the graph for each leaf of its items. So is one of lists: an inner list of
items of one kind is a column of lists, one of different kinds (``[name, count]``) is a record of fixed length. Items that can change
are taken only where the trace is ``nested`` (see ``inner_lists``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from ..graph import types
from ..graph.types import OBJECT, ListType, ScalarType, TensorType, Type
from ..symbols.funcgraph import current_graph, is_tracing
from ..symbols.retrace import Retrace
from . import joins, pytrees
from .flattening import unflatten
from .structure import STAGED, Choice, Const, Leaf, Spec, Tree, is_staged_list, leaf_types


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
        rows = zip(*columns, strict=True)
        if self._plain:
            return list(rows)
        return [unflatten(self.item, iter(row), lambda v: v) for row in rows]

    @cached_property
    def _plain(self) -> bool:
        """Whether the items are tuples with one value from each column."""
        item = self.item
        return (
            isinstance(item, Tree)
            and item.cls is tuple
            and (item.aux, item.number, item.outer) == (None, None, None)
            and all(isinstance(p, Leaf) and not p.fixed for p in item.parts)
        )


def _same_form(a: Spec, b: Spec) -> bool:
    if isinstance(a, Choice) and isinstance(b, Choice):
        return len(a.options) == len(b.options) and all(map(_same_kind, a.options, b.options))
    if isinstance(a, Tree) and isinstance(b, Tree):
        same = a.cls is b.cls and a.aux == b.aux and len(a.parts) == len(b.parts)
        return same and all(map(_same_form, a.parts, b.parts))
    return isinstance(b, Leaf) if isinstance(a, Leaf) else joins.equal(a, b)


def _same_kind(a: Spec, b: Spec) -> bool:
    """Whether options of choices have one form, and columns that hold both."""
    if isinstance(a, Leaf) and isinstance(b, Leaf):
        return types.join(a.type, b.type) is not None
    return _same_form(a, b)


def _with_types(spec: Spec, kinds: Iterator[Type]) -> Spec:
    if isinstance(spec, Leaf):
        return Leaf(next(kinds))
    if isinstance(spec, Tree):
        return Tree(spec.cls, spec.aux, tuple(_with_types(p, kinds) for p in spec.parts))
    if isinstance(spec, Choice):
        next(kinds)
        return Choice(tuple(_with_types(o, kinds) for o in spec.options))
    return spec


def item_of(spec: Spec) -> Spec | None:
    """The spec of items like this one, with every tensor and number open; None for what a list of the graph cannot hold."""
    if isinstance(spec, Leaf):
        return Leaf(spec.type) if isinstance(spec.type, (TensorType, ScalarType)) else None
    opened = joins.text_of(spec) or _open_record(spec)
    if (
        opened is None
        or leaf_types(opened)
        or (isinstance(opened, Const) and opened.value is not None)
    ):
        return opened
    return Choice(
        (opened,)
    )  # of None and empty tuples only their number is known when the graph runs


def _open_record(spec: Spec) -> Spec | None:
    if isinstance(spec, Leaf):
        return Leaf(spec.type) if spec.type == OBJECT else item_of(spec)
    text = joins.text_of(spec)  # another item may hold another string
    if text is not None or isinstance(spec, Choice):
        return text or _one_list(spec) or _one_of(spec)
    if isinstance(spec, Const):
        return spec if spec.value is None or isinstance(spec.value, bytes) else None
    if not isinstance(spec, Tree) or not (is_frozen(spec.cls) or _may_hold(spec.cls)):
        return None
    if issubclass(spec.cls, STAGED.lists):
        found = open_list([spec])
        if found is not None or is_staged_list(spec):
            return found
    parts = [_open_record(p) for p in spec.parts]
    return None if None in parts else Tree(spec.cls, spec.aux, tuple(parts))


def _may_hold(cls: type) -> bool:
    """Whether objects of a class that can change may be items; the trace notes that one was refused."""
    known = issubclass(cls, (STAGED.lists, dict)) or pytrees.is_plain_class(cls)
    if not is_tracing():
        return False
    root = current_graph().root
    root.unnested = root.unnested or (known and not root.nested)
    return known and root.nested


def _one_of(spec: Choice) -> Spec | None:
    """Items of different kinds that cannot change."""
    options = [_open_record(o) for o in spec.options]
    if len(options) > MANY or None in options or any(map(_can_change, options)):
        return None
    found = functools.reduce(joins.join, options)
    tuples = [o for o in options if isinstance(o, Tree) and o.cls in (tuple, STAGED.tuples)]
    if len(tuples) < 3 and not any(map(is_staged_list, tuples)):
        return found
    joined = STAGED.join_tuples(tuples)
    rest = [o for o in options if not any(o is t for t in tuples)]
    return found if joined is None else functools.reduce(joins.join, rest, joined)


MANY = 8


def _can_change(spec: Spec) -> bool:
    if not isinstance(spec, Tree) or spec.cls is STAGED.texts:
        return False
    if not is_frozen(spec.cls):
        return True
    return any(map(_can_change, [_inner(spec)] if is_staged_list(spec) else spec.parts))


def _one_list(spec: Choice) -> Spec | None:
    """Lists of different lengths as one list of the graph."""
    lists = all(isinstance(o, Tree) and issubclass(o.cls, STAGED.lists) for o in spec.options)
    if not lists or not all(_may_hold(o.cls) for o in spec.options):
        return None
    return open_list(list(spec.options))


def open_list(specs: list[Spec]) -> Spec | None:
    """A list of the graph that covers lists of one class; None where their items are of different kinds."""
    cls = specs[0].cls
    if any(s.cls is not cls for s in specs) or (len(specs) == 1 and _is_mixed(specs[0])):
        return None
    element: Any = None
    for spec in specs:
        found = element_of(spec)
        if found is not None:
            element = found if element is None else joins.join(element, found)
    if element is None:
        return Tree(cls, "staged", (Leaf(ListType(None)),))
    item = item_of(element)
    if item is None:
        return None
    parts = tuple(Leaf(ListType(kind)) for kind in leaf_types(item))
    return Tree(cls, "staged" if isinstance(item, Leaf) else Columns(item), parts)


def _is_mixed(spec: Spec) -> bool:
    """Whether a list of known length has both tensors and numbers: of one kind they would be tensors."""
    if is_staged_list(spec) or not is_tracing() or current_graph().root.mixed:
        return False
    return len({isinstance(p.type, ScalarType) for p in spec.parts if isinstance(p, Leaf)}) > 1


def element_of(spec: Spec) -> Any:
    """The join of the items of a list spec: None for an empty list, a Choice when items differ in kind."""
    if spec.aux == "staged":
        found = spec.parts[0].type.element
        return None if found is None else Leaf(found)
    if isinstance(spec.aux, Columns):
        kinds = [p.type.element for p in spec.parts]
        return None if None in kinds else spec.aux.spec(kinds)
    out: Any = None
    for part in spec.parts:
        part = Leaf(part.type) if isinstance(part, Leaf) else item_of(part) or part
        out = part if out is None else joins.join(out, part)
    return out


def fitted(columns: Sequence[Any], have: Spec | None, want: Spec) -> list[Any]:
    """The columns of items ``have`` as those of items ``want``, which covers them: what was empty so far has the columns of what it may hold."""
    if have is None:
        return [columns[0]] * len(leaf_types(want))
    if _widens(have, want):
        return STAGED.refilled(columns, have, want)
    return list(_fitted(iter(columns), have, want))


def _widens(have: Spec, want: Spec) -> bool:
    """Whether a part of an item, or of a list in it, may be of more kinds in ``want``."""
    if isinstance(want, Choice) or isinstance(have, Choice):
        return not _same_form(have, want)
    if not (isinstance(have, Tree) and isinstance(want, Tree)) or is_empty_list(have):
        return False
    if is_staged_list(have) or is_staged_list(want):
        staged = is_staged_list(have) and is_staged_list(want)
        return _widens(_inner(have), _inner(want)) if staged else want.cls is STAGED.tuples
    return any(map(_widens, have.parts, want.parts))


def _inner(spec: Tree) -> Spec:
    """The form of the items of a list of the graph."""
    return spec.aux.item if isinstance(spec.aux, Columns) else spec.parts[0]


def _fitted(columns: Iterator[Any], have: Spec, want: Spec) -> Iterator[Any]:
    if is_empty_list(have) and leaf_types(want):
        yield from [next(columns)] * len(leaf_types(want))
    elif isinstance(have, Tree) and isinstance(have.aux, Columns) and isinstance(want, Tree):
        yield from _fitted(columns, have.aux.item, want.aux.item)
    elif isinstance(have, Tree) and isinstance(want, Tree) and not is_staged_list(have):
        if is_staged_list(want):
            raise Retrace(mixed=True)  # a record of tensors and numbers, and one of another length
        for a, b in zip(have.parts, want.parts, strict=True):
            yield from _fitted(columns, a, b)
    else:
        for _ in leaf_types(have):
            yield next(columns)


def is_empty_list(spec: Spec) -> bool:
    """Whether a list of the graph has been empty so far."""
    return isinstance(spec, Tree) and spec.aux == "staged" and spec.parts[0].type == ListType(None)


def is_frozen(cls: type) -> bool:
    """Whether the parts of an object of a class are the same as long as it lives."""
    made_once = issubclass(cls, tuple) or pytrees.is_frozen_dataclass(cls)
    return made_once or getattr(cls, "__tograph_frozen__", False)


def named(spec: Spec | None) -> str:
    if isinstance(spec, Leaf):
        return str(spec.type)
    return f"({', '.join(map(named, spec.parts))})" if isinstance(spec, Tree) else "constant"
