"""What dicts and sets of the graph do with many items (``tables`` does it with one), and the table of all their methods.

Functions of this module that are in ``DECIDING`` are converted like the user's.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.symbols.funcgraph import user_location
from ..runtime.values.growing import StagedList
from ..runtime.values.tables import (
    StagedDict,
    StagedItems,
    StagedKeys,
    StagedSet,
    StagedTable,
    is_table,
    kind_of,
    view,
)
from . import growing_lists
from .call_rules import DECIDING
from .calls import call
from .new_keys import need_table
from .registry import TABLE_KEYS, TABLE_METHODS
from .staging import is_staged
from .tables import (
    add,
    changing,
    clear,
    contains,
    delitem,
    discard,
    get,
    getitem,
    items_in,
    keys_of,
    loses,
    move_to_end,
    pop,
    popitem,
    remove,
    setdefault,
    setitem,
)
from .user_operators import TABLES_EQUAL, TABLES_OPERATOR


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


def _combined(made, a, b, form):
    for key, n in a.items():
        m = form(n, b[key])
        if m > 0:
            made[key] = m
    for key, n in b.items():
        m = form(0, n)
        if key not in a and m > 0:
            made[key] = m


def _sum(n, m):
    return n + m


def _less(n, m):
    return n - m


def _greater(n, m):
    return m if n < m else n


def _smaller(n, m):
    return n if n < m else m


def _same_counts(a, b):
    return all(b[key] == n for key, n in a.items()) and all(a[key] == n for key, n in b.items())


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
                 _count_of, _elements, _combined, _sum, _less, _greater, _smaller, _same_counts))  # fmt: skip


def _pairs(x: Any) -> Any:
    """Pairs of key and value: of a dict, or what is given as such."""
    if is_table(x):
        return StagedList(x)
    return list(x.items()) if isinstance(x, dict) else x


def update(x: StagedTable, /, *others: Any, **named: Any) -> None:
    for other in (*others, named) if named else others:
        if isinstance(x, StagedSet):
            if isinstance(other, (set, frozenset, dict)):
                loses(x)  # Python makes room for all of its items at first
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
        loses(x)
        changing(x)
        x.become(made)

    return method


def equal(a: Any, b: Any) -> Any:
    """``a == b``, one of them a table."""
    mapping = isinstance(a, dict)
    if mapping is not isinstance(b, dict) or not (mapping or isinstance(b, (set, frozenset))):
        return False
    if a.__class__ is b.__class__ is Counter:
        return call(_same_counts, a, b)
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
_COUNTS = {"add": _sum, "sub": _less, "or": _greater, "and": _smaller}


def _counts(form: Callable[..., Any]) -> Callable[..., StagedTable]:
    """``a + b`` and its kind of two ``Counter`` objects: what is not above 0 is left out."""

    def combined(a: Any, b: Any) -> StagedTable:
        made = kind_of(Counter)()
        call(_combined, made, a, b, form)
        return made

    return combined


def no_frozen() -> StagingError:
    return StagingError(
        "a frozenset cannot be made of items that are known only when the graph runs, or beside a set of such: use a set",
        user_location(),
    )


def _form(name: str, a: Any, b: Any) -> Callable[..., StagedTable] | None:
    """What ``a | b`` and its kind of two dicts or two sets do; None where there is no such operator."""
    if isinstance(a, dict):
        if isinstance(a, Counter) and isinstance(b, Counter):
            return _counts(_COUNTS[name]) if name in _COUNTS else None
        return _union if name == "or" and isinstance(b, dict) else None
    return _OPERATORS.get(name) if isinstance(b, (set, frozenset)) else None


def operator(name: str, a: Any, b: Any) -> Any:
    """``a | b`` and its kind, with ``name`` "or", and "ior" in place; NotImplemented where there is no such operator."""
    a, b = as_set(a), as_set(b)
    form = _form(name.removeprefix("i"), a, b)
    if name == "ior" and is_table(a) and isinstance(a, dict) and a.__class__ is not Counter:
        form = _union
    if form is None:
        return NotImplemented
    if isinstance(a, frozenset):
        raise no_frozen()
    if not name.startswith("i"):
        return form(a, b)
    if not is_table(a):
        need_table(a)
        raise StagingError(f"the {type(a).__name__} that is changed cannot take keys that are known only when the graph runs", user_location())  # fmt: skip
    _updating(form)(a, b)
    return a


def as_set(x: Any) -> Any:
    """The keys or items of a dict as a set, which operators take them for."""
    return kind_of(set)(x) if type(x) in (StagedKeys, StagedItems) else x


def unary(name: str, x: StagedTable) -> Any:
    """``+x`` and ``-x``; NotImplemented but of a ``Counter``."""
    form = {"pos": _sum, "neg": _less}.get(name)
    if form is None or x.python is not Counter:
        return NotImplemented
    return _counts(form)(Counter(), x)


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
OF_SETS: dict[str, Callable[..., Any]] = {
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
    forms: dict[str, Callable[..., Any]] = OF_SETS if isinstance(x, StagedSet) else _DICT
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
TABLES_OPERATOR += [operator, unary]
TABLE_KEYS.append(keys_of)
