"""``StagedDict`` and ``StagedSet``: dicts and sets of converted code that take keys which only the run knows.

A dict display, ``dict()``, ``set()``, ``Counter()`` and their kind make Python's own as long as all keys are known. Where a new key of one is staged,
tracing begins again (``Retrace``), and what that line makes is a list of the graph: of pairs of key and value in the order of insertion, or of the items of a set.
A key is looked up by comparison. What leaves the function is Python's dict or set.

Invariants: the content is always one of the graph, so all keys are of one kind, and so are all values; no two keys are equal.
"""

from __future__ import annotations

import functools
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ...errors import Location, StagingError
from ..symbols.funcgraph import current_graph, is_tracing, user_location
from . import inner_lists
from .growing import StagedList, as_staged
from .records import Columns
from .structure import STAGED, Choice, Leaf, Spec, Tree, leaf_types


class StagedTable(StagedList):
    """A dict or set whose content is a value of the graph."""

    python: type = dict  # what it stands for
    default_factory: Callable[[], Any] | None = None
    kind_ = "dict"

    def __init__(self, items: Any = ()):
        super().__init__(items)
        if self.handle is None:
            self.become(as_staged(StagedList(items)))

    @property
    def __class__(self) -> type:
        return self.python

    def clear(self) -> None:
        self.become(as_staged(StagedList()))

    def copy(self) -> Any:
        return inner_lists.copies(type(self)(self))

    __copy__ = copy

    def _no_operator(self, other: Any) -> Any:
        """Operators of lists, which dicts and sets do not have."""
        return NotImplemented

    __add__ = __radd__ = __iadd__ = __mul__ = __rmul__ = __imul__ = _no_operator

    def keys_list(self) -> StagedList:
        """The keys, or the items of a set, as a list of the graph."""
        return StagedList(self)

    def in_order(self) -> StagedList:
        return self.keys_list()

    def _cannot(self, what: str) -> StagingError:
        name = self.python.__name__
        return StagingError(
            f"a {name} with keys or items that are known only when the graph runs cannot {what}; use [], in, len, get, setdefault, pop, del, update, "
            "keys, values, items, add, discard, remove and loops over it. Its keys are of one kind, and so are its values",
            user_location(),
        )


_SET_ORDER = (
    "the items of this set are known only when the graph runs, and so is their order: it cannot be gone over, and none can be popped. Use sorted(), len(), min(), max(), "
    "sum(), `in`, or a dict, which keeps the order of insertion"
)


class StagedSet(StagedTable):
    """A set, which has no order that the graph could know."""

    python = set
    kind_ = "set"
    only_added = (
        False  # it was made of items that came one after the other, and none has been taken out
    )

    def in_order(self) -> StagedList:
        raise StagingError(_SET_ORDER, user_location())

    @classmethod
    def _plain(cls, items: Any) -> Any:
        return set(items)


class StagedDict(StagedTable):
    """A dict, ``OrderedDict``, ``Counter`` or ``defaultdict``: a list of pairs."""

    @classmethod
    def _plain(cls, items: Any) -> Any:
        if cls.python is defaultdict:
            return defaultdict(cls.default_factory, items)
        return cls.python(dict(items))

    def keys_list(self) -> StagedList:
        return self._part(0)

    def values_list(self) -> StagedList:
        return self._part(1)

    def _part(self, place: int) -> StagedList:
        """The list of the keys or of the values, which are columns of the list of pairs."""
        spec = self.item_spec
        if spec is None:
            return as_staged(StagedList())
        assert isinstance(spec, Tree)
        if not leaf_types(spec.parts[place]):  # None or () as every key, or as every value
            spec = _counted(spec, place)
            columns = STAGED.refilled(self.columns, self.item_spec, spec)
        else:
            columns = list(self.columns)
        count = len(leaf_types(spec.parts[0]))
        columns = columns[count:] if place else columns[:count]
        return StagedList()._hold(columns, record_of(spec.parts[place]))


def _counted(spec: Tree, place: int) -> Tree:
    """The spec of pairs of which one part, that is always the same, has a column."""
    parts = [Choice((p,)) if i == place else p for i, p in enumerate(spec.parts)]
    return Tree(spec.cls, spec.aux, tuple(parts))


def record_of(spec: Spec) -> Columns | None:
    return None if isinstance(spec, Leaf) else Columns(spec)


class View(StagedList):
    """What ``keys``, ``values`` and ``items`` give: the content at that time; a loop goes over that of ``table``."""

    frozen = True
    table: StagedDict
    name = ""
    python: type = type({}.keys())
    kind_ = "view of a dict"

    @property
    def __class__(self) -> type:
        return self.python


class StagedKeys(View):
    isdisjoint: Callable[..., Any]

    @classmethod
    def _plain(cls, items: Any) -> Any:
        return dict.fromkeys(items).keys()


class StagedValues(View):
    python = type({}.values())

    @classmethod
    def _plain(cls, items: Any) -> Any:
        return dict(enumerate(items)).values()


class StagedItems(View):
    isdisjoint: Callable[..., Any]
    python = type({}.items())

    @classmethod
    def _plain(cls, items: Any) -> Any:
        return dict(items).items()


def _outside(name: str) -> Callable[..., Any]:
    """A method that converted code has another form of."""

    def method(self: StagedTable, *args: Any, **kwargs: Any) -> Any:
        return self._refuse(f"do {name}() outside of converted code")

    method.__name__ = name
    return method


_METHODS = {
    StagedDict: {*dir(Counter), *dir(OrderedDict)},
    StagedSet: {*dir(set)},
}
for _cls, _names in _METHODS.items():
    for _name in sorted(_names):
        if not _name.startswith("_") and _name not in ("clear", "copy", "values"):
            setattr(_cls, _name, _outside(_name))


StagedKeys.isdisjoint = StagedItems.isdisjoint = _outside("isdisjoint")

StagedKeys.__name__ = "dict_keys"
StagedValues.__name__ = "dict_values"
StagedItems.__name__ = "dict_items"
StagedSet.__name__ = "set"
VIEWS = {"keys": StagedKeys, "values": StagedValues, "items": StagedItems}


def view(x: StagedDict, name: str) -> StagedList:
    """``x.keys()``, ``x.values()`` or ``x.items()``"""
    part = {"keys": x.keys_list, "values": x.values_list}.get(name, lambda: StagedList(x))()
    made = inner_lists.copies(VIEWS[name](part))
    made.table, made.name = x, name
    return made


@functools.cache
def kind_of(python: type, factory: Callable[[], Any] | None = None) -> type[StagedTable]:
    """The class of the tables that stand for a class of Python's; of a ``defaultdict`` with its factory."""
    if python is set:
        return StagedSet
    factory = staticmethod(factory) if isinstance(factory, FunctionType) else factory
    named = {"python": python, "default_factory": factory}
    return type(python.__name__, (StagedDict,), named)


KINDS = (dict, OrderedDict, Counter, defaultdict, set)


def is_table(x: Any) -> bool:
    """Whether a dict or set is one of the graph."""
    return issubclass(type(x), StagedTable)


def table_of(x: Any) -> StagedTable:
    """A table with the content of Python's dict or set."""
    cls = kind_of(type(x), getattr(x, "default_factory", None))
    return cls(x if isinstance(x, set) else x.items())


# ---- which dicts and sets become tables


def made(x: Any) -> Any:
    """``x``, a dict or set that converted code has just made, or the table that stands for it."""
    if not is_tracing() or type(x) not in KINDS:
        return x
    root, site = current_graph().root, user_location()
    if site in root.tabled:
        table = table_of(x)
        if isinstance(table, StagedSet):
            table.only_added = _is_free(x)
        return table
    root.tables[id(x)] = x, site
    return x


_SMALL = set().__sizeof__()


def _is_free(x: set) -> bool:
    """Whether each item of a set is at the place that its hash tells, in a table of Python's smallest size: it is there in whatever order they came."""
    return x.__sizeof__() == _SMALL and len({hash(i) % 8 for i in x}) == len(x)


def site_of(x: Any) -> Location | None:
    """Where a dict or set was made that can be a table; None for any other."""
    root = current_graph().root
    found = root.tables.get(id(x))
    return None if found is None or root.untabled else found[1]
