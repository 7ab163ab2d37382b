"""Keys of dicts that are known only when the graph runs, and keys that are there on some paths only.

A staged number or string, or a tuple that holds one, is compared with the keys that there are. A key that was set or taken out under a
staged condition has a union with ``MISSING`` as its value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import torch

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.guarding import reads
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library.staged_string import StagedString
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ..runtime.symbols.journal import MISSING
from ..runtime.values import facts, inner_lists, locations, tables
from ..runtime.values.growing import StagedList
from ..runtime.values.reserved import reserve, shrinks
from ..runtime.values.structure import holds_missing, is_growing, is_union, may_miss
from . import tensor_keys
from .call_rules import is_user_function
from .calls import call
from .container_changes import check_default, record_key
from .new_keys import NEW_KEY, need_table
from .staging import is_staged, is_staged_key
from .union import apply, distribute, distribute_missing, test_options


def same_key(k, key):
    """Whether a key of a dict equals another key; a staged bool, or False where they cannot be equal."""
    if is_union(key):
        return distribute(lambda option: same_key(k, option), key)
    if isinstance(key, SYMBOLS):
        return key == k if isinstance(k, (int, float, *SYMBOLS)) else False
    if isinstance(key, StagedString):
        return key == k if isinstance(k, (str, StagedString)) else False
    if isinstance(key, torch.Tensor):
        return key is k or (isinstance(k, torch.Tensor) and tensor_keys.is_one(k, key))
    if not is_staged_key(key):
        return k == key
    if type(k) is not tuple or len(k) != len(key):
        return False
    found = True
    for part in map(same_key, k, key):
        if part is False:
            return False
        found = part if found is True else found if part is True else found & part
    return found


def where_key(items: dict, key, found, absent):
    """``found(k)`` for the key of ``items`` that equals a staged key, ``absent()`` where none does."""
    keys = list(items)

    def chain(i: int):
        if i == len(keys):
            return absent()
        same = same_key(keys[i], key)
        if same is False:
            return chain(i + 1)
        if same is True:
            return found(keys[i])
        test = control_flow.predicate(same, "subscript")
        return control_flow.staged_if(test, lambda: found(keys[i]), lambda: chain(i + 1))

    return chain(0)


def contains_key(x, key):
    """Whether a staged number, or a tuple that holds some, is a key."""
    there = False
    for k in x:
        same = same_key(k, key)
        if same is False:
            continue
        same = control_flow.predicate(same, "in")
        if isinstance(x, dict) and may_miss(x[k]):
            same = same & test_options(lambda v: v is not MISSING, x[k])
        there = same if there is False else there | same
    return there


def lookup(items: dict, key):
    """``items[key]`` of a staged key."""
    found = where_key(items, key, lambda k: read_key(items, k), lambda: no_key(items, key))
    if not hasattr(type(items), "__missing__"):  # else what follows has the key
        current_graph().root.looked_up[id(items), id(key)] = items, key, current_graph()
    return found


def read_key(x: dict, key):
    """``x[key]`` of a key that a dict has."""
    found = x[key]
    _note_key(x, key, found)
    return distribute_missing(found, lambda: no_key(x, key)) if may_miss(found) else found


def write_key(x: dict, key, value) -> None:
    """``x[key] = value`` of a key that is known, or one of several."""
    if is_union(key):
        distribute(lambda k: write_key(x, k, value), key)
        return
    value = reserve(x, key, value) if _misses(x, key) else value
    method = type(x).__setitem__
    if is_user_function(method):
        record_key(x, key)
        call(method, x, key, value)
        return

    def write() -> None:
        record_key(x, key)
        x[key] = value

    inner_lists.changing(x, write)


def _misses(x: dict, key) -> bool:
    """Whether a key of a dict of Python's own is not there, on the path that is traced."""
    if type(x).__setitem__ is not dict.__setitem__ or type(key).__hash__ is None:
        return False
    held = dict.get(x, key, MISSING)
    if not is_union(held):
        return held is MISSING
    return all(held.options_[i] is MISSING for i in facts.possible(held))


def no_key(x, key):
    """What a dict gives for a key that it does not have."""
    missing = getattr(type(x), "__missing__", None)
    if is_user_function(missing):
        return call(missing, x, key)
    if isinstance(x, Counter):
        return 0
    if isinstance(x, defaultdict) and x.default_factory is not None:
        _check_new(x, key)
        value = reserve(x, key, call(x.default_factory))
        write_key(x, key, value)
        return value
    raise KeyError(key)


def _absent(key):
    raise KeyError(key)


def _note_key(x, key, found) -> None:
    watch = reads.current()
    if watch is not None:
        watch.missing_key(x, key) if found is MISSING else watch.item(x, key, found)


def dict_get(x, key, default=None):
    """``x.get(key, default)``"""
    if is_staged_key(key):
        return where_key(x, key, lambda k: dict_get(x, k, default), lambda: default)
    found = x.get(key, MISSING)
    if type(key).__hash__ is not None:
        _note_key(x, key, found)
    if may_miss(found):
        return distribute_missing(found, lambda: default)
    return default if found is MISSING else found


def _held(x, key, absent, taken):
    """What a key that is known holds, after ``taken()``, else ``absent()``; NotImplemented where it is Python's own."""
    found = dict.get(x, key, MISSING)
    if not (journal.active() or may_miss(found)):
        return NotImplemented
    _note_key(x, key, found)
    if found is MISSING:
        return absent()
    taken()
    return distribute_missing(found, absent) if may_miss(found) else found


def dict_pop(x, key, *default):
    """``x.pop(key, default)`` where it is staged, or recorded key by key; NotImplemented where it is Python's own."""
    absent = (lambda: default[0]) if default else (lambda: _absent(key))
    if is_staged_key(key):
        return where_key(x, key, lambda k: call(x.pop, k, *default), absent)

    def take():
        shrinks(x)
        journal.record(locations.key_of(x, key, f"[{key!r}]"))
        x.pop(key)

    return _held(x, key, absent, take)


def set_default(x, key, default=None):
    """``x.setdefault(key, default)`` where it is staged, or recorded key by key; NotImplemented where it is Python's own."""

    def absent():
        _check_new(x, key)
        value = reserve(x, key, default)
        if value is default and current_graph().outer is not None:
            check_default(default)
        write_key(x, key, value)
        return value

    if is_staged_key(key):
        need_table(x)
        check_default(default)
        return where_key(x, key, lambda k: call(x.setdefault, k, default), absent)
    return _held(x, key, absent, lambda: None)


def dict_update(x, /, *others, **named):
    """``x.update(other)`` by a dict whose keys depend on a staged condition; NotImplemented by any other."""
    for other in others:
        pairs = type(other) in (list, StagedList) and not is_growing(other)
        staged = pairs and any(type(p) is tuple and is_staged_key(p[0]) for p in other if p)
        if staged or tables.is_table(other) or is_growing(other):
            need_table(x)
    if not any(isinstance(o, dict) and holds_missing(dict.values(o)) for o in others):
        return NotImplemented
    for k, v in [*dict.items(others[0]), *named.items()]:
        if may_miss(v):
            test = test_options(lambda o: o is not MISSING, v)
            control_flow.staged_if(test, lambda k=k, v=v: write_key(x, k, v), lambda: None)
        else:
            write_key(x, k, v)
    return None


def update(x, /, *others, **named):
    """``dict_update`` of a dict that there is: in a staged branch or loop its keys are set one by one, as another path may set others."""
    if any(map(is_union, others)):
        return apply(lambda *chosen: call(x.update, *chosen, **named), *others)
    found = dict_update(x, *others, **named)
    plain = all(type(o) in (dict, tuple) or (isinstance(o, list) and not is_growing(o)) for o in others)  # fmt: skip
    if found is not NotImplemented or not plain or len(others) > 1 or isinstance(x, Counter) or not journal.active():  # fmt: skip
        return found
    if current_graph().outer is None:
        return found
    reads.passed(others)
    for k, v in dict(*others, **named).items():
        write_key(x, k, v)
    return None


def merged(a, b):
    """``a | b`` of dicts where keys of ``b`` depend on a staged condition; NotImplemented of any other."""
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return NotImplemented
    made = a.copy()
    return NotImplemented if dict_update(made, b) is NotImplemented else made


def new_dict(*parts: tuple) -> dict:
    """A dict display: pairs of key and value, and ``(mapping,)`` for ``**mapping``."""
    spread = [i for i, part in enumerate(parts) if len(part) == 1]
    if any(is_union(parts[i][0]) for i in spread):

        def of(*options) -> dict:
            given = {i: (x,) for i, x in zip(spread, options)}
            return new_dict(*(given.get(i, part) for i, part in enumerate(parts)))

        return apply(of, *(parts[i][0] for i in spread))
    if is_tracing() and any(map(_makes_table, parts)):
        table: Any = tables.kind_of(dict)()
        for part in parts:
            if len(part) == 1:
                call(table.update, part[0])
            else:
                call(table.__setitem__, *part)
        return table
    made: dict = {}
    tensor_keys.apart(part[0] for part in parts if len(part) > 1)
    for part in parts:
        if len(part) == 1:
            reads.passed(part)
            if dict_update(made, *part) is NotImplemented:
                made.update(_mapping(part[0]))
        elif is_union(part[0]):
            write_key(made, *part)
        else:
            made[part[0]] = part[1]
    return tables.made(made)


def _makes_table(part: tuple) -> bool:
    return tables.is_table(part[0]) if len(part) == 1 else is_staged_key(part[0])


def new_set(*items: Any) -> set:
    """A set display."""
    if is_tracing() and any(map(is_staged_key, items)):
        table: Any = tables.kind_of(set)()
        call(table.update, items)
        table.only_added = True
        return table
    tensor_keys.apart(items)
    return tables.made(set(items))


def _mapping(x):
    if not hasattr(x, "keys"):
        raise TypeError(f"{type(x).__name__!r} object is not a mapping")
    return x


def dict_length(x):
    """``len(x)``: the keys that some paths did not set count where they were."""
    n = len(x)
    for v in x.values():
        if may_miss(v):
            gone = test_options(lambda o: o is MISSING, v)
            n = n - (
                control_flow.staged_if(gone, lambda: 1, lambda: 0) if is_staged(gone) else int(gone)
            )
    return n


def set_staged(items: dict, key, value) -> None:
    """Write a dict by a staged number: the key that it is gets the value; it has to be there."""
    if not _was_there(items, key):
        need_table(items)
    equal = {k: same for k in items if (same := same_key(k, key)) is not False}
    there = contains_key(items, key)
    if there is False:
        _no_new_key()
    control_flow.staged_if(there, lambda: None, _no_new_key)
    for k, test in equal.items():
        old = read_key(items, k)
        same = control_flow.predicate(test, "subscript")
        new = control_flow.staged_if(same, lambda: value, lambda old=old: old)
        write_key(items, k, new)


def _was_there(items: dict, key) -> bool:
    """Whether the same key was read before: then it is there."""
    found = current_graph().root.looked_up.get((id(items), id(key)))
    return found is not None and current_graph().within(found[2])


def _check_new(x: dict, key) -> None:
    if is_staged_key(key):
        need_table(x)


def _no_new_key():
    if control_flow.has_alternative():
        raise StagingError(NEW_KEY, user_location())
    graph = current_graph()
    kept = graph.root.untabled
    if graph.outer is None:
        raise kept or StagingError(NEW_KEY, user_location())
    control_flow.refuse(
        f"{NEW_KEY}. As a dict of the graph it is refused: {kept}" if kept else NEW_KEY
    )
