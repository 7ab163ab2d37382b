"""What dicts and sets of the graph do (``runtime.values.tables``): keys are looked up by comparison, when the graph runs.

A set has no order that the graph could know: what would show one is refused. Functions of this module that are in ``DECIDING`` are converted
like the user's.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import torch

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import user_location
from ..runtime.values import locations
from ..runtime.values.growing import StagedList
from ..runtime.values.structure import TaggedUnion
from ..runtime.values.tables import (
    StagedDict,
    StagedSet,
    StagedTable,
    is_table,
    kind_of,
    view,
)
from . import growing_lists
from .call_rules import DECIDING
from .calls import call
from .if_stmt import if_stmt
from .new_keys import need_table
from .registry import TABLE_KEYS, TABLE_METHODS
from .staging import is_staged
from .user_operators import TABLES_EQUAL, TABLES_OPERATOR

_SET_ORDER = (
    "the items of this set are known only when the graph runs, and so is their order: it cannot be gone over. Use sorted(), len(), min(), max(), "
    "sum(), `in`, or a dict, which keeps the order of insertion"
)


def position(x: StagedTable, key: Any) -> Any:
    """The place of a key, -1 without it."""
    if isinstance(key, torch.Tensor):
        raise StagingError(
            "a tensor is a key by its identity: use its number, int(x) or x.item(), as the key",
            user_location(),
        )
    if type(key) is not TaggedUnion and (
        type(key).__hash__ is None or isinstance(key, (list, dict, set))
    ):
        raise TypeError(f"unhashable type: {key.__class__.__name__!r}")
    if x.item_spec is None:
        return -1
    return growing_lists.position(x.keys_list(), key)


def contains(x: StagedTable, key: Any) -> Any:
    return position(x, key) >= 0


def _change(x: StagedTable) -> None:
    journal.record(locations.contents(x))


def _where(at: Any, absent: Callable[[], Any], found: Callable[[], Any]) -> Any:
    """What one of two functions gives; they change nothing but tables."""
    if not is_staged(at):
        return absent() if at < 0 else found()
    return control_flow.staged_if(control_flow.predicate(at < 0, "subscript"), absent, found)


def _add(x: StagedTable, item: Any) -> None:
    _change(x)
    StagedList.append(x, item)


def add(x: StagedSet, item: Any) -> None:
    """``x.add(item)``"""
    _where(position(x, item), lambda: _add(x, item), lambda: None)


def setitem(x: StagedDict, key: Any, value: Any) -> None:
    """``x[key] = value``: a new key is the last one, one that is there stays where it is."""
    at = position(x, key)

    def put() -> None:
        _change(x)
        StagedList.__setitem__(x, at, (x.keys_list().item(at), value))

    _where(at, lambda: _add(x, (key, value)), put)


def getitem(x: StagedDict, key: Any) -> Any:
    """``x[key]``"""
    if x.python is defaultdict and x.default_factory is not None:
        return _setdefault(x, key, lambda: call(x.default_factory))
    at = position(x, key)
    if x.python is Counter:
        return _where(at, lambda: 0, lambda: x.item(at)[1])

    def absent() -> None:
        raise KeyError(key)

    _where(at, absent, lambda: None)
    return x.item(at)[1]  # not in a branch: a list that it is keeps its place


def get(x: StagedDict, key: Any, default: Any = None) -> Any:
    at = position(x, key)
    return _where(at, lambda: default, lambda: x.item(at)[1])


def _setdefault(x: StagedDict, key: Any, made: Callable[[], Any]) -> Any:
    at = position(x, key)
    _where(at, lambda: _add(x, (key, made())), lambda: None)
    last = x.length() - 1
    return x.item(_where(at, lambda: last, lambda: at))[1]


def setdefault(x: StagedDict, key: Any, default: Any = None) -> Any:
    return _setdefault(x, key, lambda: default)


def _taken(x: StagedTable, at: Any) -> Any:
    _change(x)
    return x.take(at)


def _drop(x: StagedTable, at: Any) -> None:
    _taken(x, at)


def delitem(x: StagedDict, key: Any) -> None:
    """``del x[key]``"""
    at = position(x, key)

    def absent() -> None:
        raise KeyError(key)

    _where(at, absent, lambda: _drop(x, at))


def pop(x: StagedTable, *args: Any) -> Any:
    if isinstance(x, StagedSet):
        raise StagingError(_SET_ORDER, user_location())
    key, *default = args
    at = position(x, key)

    def absent() -> Any:
        if default:
            return default[0]
        raise KeyError(key)

    return _where(at, absent, lambda: _taken(x, at)[1])


def popitem(x: StagedDict, last: bool = True) -> Any:
    def empty() -> None:
        raise KeyError("popitem(): dictionary is empty")

    if_stmt(x.length() == 0, empty, None, ())
    return _taken(x, -1 if last else 0)


def move_to_end(x: StagedDict, key: Any, last: bool = True) -> None:
    at = position(x, key)

    def absent() -> None:
        raise KeyError(key)

    def move() -> None:
        item = _taken(x, at)
        StagedList.insert(x, x.length() if last else 0, item)

    _where(at, absent, move)


def discard(x: StagedSet, item: Any) -> None:
    at = position(x, item)
    _where(at, lambda: None, lambda: _drop(x, at))


def remove(x: StagedSet, item: Any) -> None:
    delitem(x, item)


def clear(x: StagedTable) -> None:
    _change(x)
    x.clear()


def keys_of(x: Any) -> Any:
    """What going over a table gives: its keys in order; of a set it is refused."""
    if isinstance(x, StagedSet):
        raise StagingError(_SET_ORDER, user_location())
    return view(x, "keys")


def items_in(x: Any) -> Any:
    """The keys of a table, the items of a set among them, for who asks for no order; anything else as it is."""
    return x.keys_list() if is_table(x) else x


# ---- converted


def _put_all(x, pairs):
    for key, value in pairs:
        x[key] = value


def _count_all(x, items):
    for item in items:
        x[item] = x[item] + 1


def _count_pairs(x, pairs, sign):
    for key, n in pairs:
        x[key] = x[key] + sign * n


def _add_all(x, items):
    for item in items:
        x.add(item)


def _discard_all(x, items):
    for item in items:
        x.discard(item)


def _kept(made, items, others):
    for item in items:
        if item in others:
            made.add(item)


def _all_in(items, others):
    return all(item in others for item in items)


def _none_in(items, others):
    return not any(item in others for item in items)


def _same_pairs(pairs, other):
    return all(key in other and other[key] == value for key, value in pairs)


def _most_common(items, n):
    found = sorted(items, key=_count_of, reverse=True)
    return found if n is None else found[:n]


def _count_of(pair):
    return pair[1]


def _elements(pairs):
    return [key for key, n in pairs for _ in range(n)]


DECIDING.update((_put_all, _count_all, _count_pairs, _add_all, _discard_all, _kept, _all_in, _none_in, _same_pairs, _most_common,
                 _count_of, _elements))  # fmt: skip


def _pairs(x: Any) -> Any:
    """Pairs of key and value: of a dict, or what is given as such."""
    if is_table(x):
        return StagedList(x)
    return list(x.items()) if isinstance(x, dict) else x


def update(x: StagedTable, *others: Any, **named: Any) -> None:
    for other in (*others, named) if named else others:
        if isinstance(x, StagedSet):
            call(_add_all, x, items_in(other))
        elif x.python is Counter:
            _count(x, other, 1)
        else:
            call(_put_all, x, _pairs(other))


def _count(x: StagedDict, other: Any, sign: int) -> None:
    if isinstance(other, dict):
        call(_count_pairs, x, _pairs(other), sign)
    elif sign == 1:
        call(_count_all, x, items_in(other))
    else:
        call(_count_pairs, x, _pairs(call(Counter, other)), sign)


def subtract(x: StagedDict, other: Any) -> None:
    _count(x, other, -1)


def _copied(x: Any) -> StagedTable:
    """A new table of the same items."""
    if is_table(x):
        return x.copy()
    return kind_of(set)(call(list, x)) if isinstance(x, (set, frozenset)) else kind_of(type(x))(x.items())  # fmt: skip


def _union(x: Any, *others: Any) -> StagedTable:
    made = _copied(x)
    update(made, *others)
    return made


def _difference(x: Any, *others: Any) -> StagedTable:
    made = _copied(x)
    for other in others:
        call(_discard_all, made, items_in(other))
    return made


def _intersection(x: Any, *others: Any) -> StagedTable:
    for other in others:
        made = kind_of(set)()
        call(_kept, made, items_in(x), other)
        x = made
    return _copied(x)


def _symmetric(x: Any, other: Any) -> StagedTable:
    return _union(_difference(x, other), _difference(other, x))


def _updating(form: Callable[..., StagedTable]) -> Callable[..., None]:
    def method(x: StagedTable, *others: Any) -> None:
        made = form(x, *others)
        _change(x)
        x.become(made)

    return method


def equal(a: Any, b: Any) -> Any:
    """``a == b``, one of them a table."""
    mapping = isinstance(a, dict)
    if mapping is not isinstance(b, dict) or not (mapping or isinstance(b, (set, frozenset))):
        return False
    both_ordered = OrderedDict in (a.__class__, b.__class__) and a.__class__ is b.__class__
    if both_ordered:
        return growing_lists.equal(StagedList(_pairs(a)), StagedList(_pairs(b)))
    same = call(len, a) == call(len, b)
    inside = (_same_pairs, _pairs(a), b) if mapping else (_all_in, items_in(a), b)
    if not is_staged(same):
        return call(*inside) if same else False
    test = control_flow.predicate(same, "==")
    return control_flow.staged_if(test, lambda: call(*inside), lambda: False)


_OPERATORS = {"or": _union, "sub": _difference, "and": _intersection, "xor": _symmetric}


def operator(name: str, a: Any, b: Any) -> Any:
    """``a | b`` and its kind, with ``name`` "or", and "ior" in place; NotImplemented where there is no such operator."""
    kinds = (dict,) if isinstance(a, dict) else (set, frozenset)
    form = _OPERATORS.get(name.removeprefix("i") if name.startswith("i") else name)
    plain = isinstance(a, dict) and (name.removeprefix("i") != "or" or a.__class__ is Counter)
    if form is None or plain or not isinstance(b, kinds):
        return NotImplemented
    if not name.startswith("i"):
        return form(a, b)
    if not is_table(a):
        need_table(a)
        raise StagingError(f"the {type(a).__name__} that is changed cannot take keys that are known only when the graph runs", user_location())  # fmt: skip
    _updating(form)(a, b)
    return a


def _most(x: StagedDict, n: Any = None) -> Any:
    return call(_most_common, StagedList(x), n)


def _total(x: StagedDict) -> Any:
    return call(sum, x.values_list())


_DICT = {
    "get": get, "pop": pop, "popitem": popitem, "setdefault": setdefault, "update": update, "clear": clear,
    "keys": lambda x: view(x, "keys"), "values": lambda x: view(x, "values"), "items": lambda x: view(x, "items"),
    "copy": lambda x: x.copy(), "__getitem__": getitem, "__setitem__": setitem, "__delitem__": delitem,
    "__contains__": contains, "__len__": lambda x: x.length(),
}  # fmt: skip
_COUNTER = {
    "most_common": _most, "elements": lambda x: call(_elements, StagedList(x)), "total": _total, "subtract": subtract,
}  # fmt: skip
_SET = {
    "add": add, "discard": discard, "remove": remove, "pop": pop, "clear": clear, "update": update, "copy": lambda x: x.copy(),
    "union": _union, "difference": _difference, "intersection": _intersection, "symmetric_difference": _symmetric,
    "difference_update": _updating(_difference), "intersection_update": _updating(_intersection),
    "symmetric_difference_update": _updating(_symmetric),
    "issubset": lambda x, other: call(_all_in, items_in(x), call(set, other)),
    "issuperset": lambda x, other: call(_all_in, items_in(other), x),
    "isdisjoint": lambda x, other: call(_none_in, items_in(other), x),
    "__contains__": contains, "__len__": lambda x: x.length(),
}  # fmt: skip


def method(x: StagedTable, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A method of a table."""
    forms: dict[str, Callable[..., Any]] = _SET if isinstance(x, StagedSet) else _DICT
    form = forms.get(name)
    if x.python is Counter:
        form = _COUNTER.get(name, form)
    if form is None and name == "move_to_end":
        form = move_to_end
    if form is None:
        raise x._cannot(f"do {name}()")
    return form(x, *args, **kwargs)


TABLE_METHODS.append(method)
TABLES_EQUAL.append(equal)
TABLES_OPERATOR.append(operator)
TABLE_KEYS.append(keys_of)
