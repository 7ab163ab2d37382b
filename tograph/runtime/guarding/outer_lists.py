"""Lists from outside of a function that grow by a staged condition: ``if c: self.log.append(x)``.

What a call adds to such a list is a list of the graph, by which the call extends it; nothing of what it held before is needed. Tracing begins
again where a list turns out to be one (``Retrace.grown``), and once more, without any, where that fails (``ungrown``, the error): one that is read, or changed otherwise, is then a list of the
graph from the beginning of the call (``outer_tables``), with a trace for each content.

Invariants: the list itself does not change in a trace after the first addition; a look at it then, or in a staged construct, is an error, and so is a
second name for it, by which it could be read unseen.
``watch`` is that of the trace, which knows how a list was found.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import StructureError
from ..inference.shapes import SYMBOLS
from ..symbols import journal
from ..symbols.funcgraph import current_graph, is_tracing, user_location
from ..symbols.journal import Location
from ..symbols.retrace import Retrace
from ..symbols.root import Root
from ..symbols.symbolic import SymTensor
from ..values.growing import StagedList
from ..values.reach import own_variables
from ..values.structure import is_growing, is_union


def need(place: Location, watch: Any) -> None:
    """The number of items in a list depends on a staged condition: one from outside is traced as a list that grows."""
    x = place.keep
    if not is_outer(place, watch):
        return
    root = current_graph().root
    if root.ungrown is not None:
        raise root.ungrown
    if id(x) in root.grown:
        raise _cannot(watch.source_of(x).label)
    raise Retrace(grown=frozenset([id(x)]))


def prefer(place: Location, contents: Sequence[list], watch: Any) -> None:
    """A list gets as many items on every path, with other contents: as one that grows it needs no trace for each length."""
    if not is_outer(place, watch):
        return
    root, old = current_graph().root, place.get()
    if root.ungrown is not None or id(place.keep) in root.grown:
        return
    if len({_kind(x) for new in contents for x in new[len(old) :]}) > 1:
        return
    if all(_follows(new, old) for new in contents) and any(len(new) > len(old) for new in contents):
        raise Retrace(grown=frozenset([id(place.keep)]))


def is_outer(place: Location, watch: Any) -> bool:
    """Whether a location is the content of a list from outside."""
    x = place.keep
    return place.key[0] == "contents" and type(x) is list and watch is not None and watch.source_of(x) is not None  # fmt: skip


def _follows(new: list, old: list) -> bool:
    """Whether a content begins with another one, and goes on with what a list of the graph holds as it is."""
    return len(new) >= len(old) and all(map(operator.is_, new, old)) and all(map(_own, new[len(old) :]))  # fmt: skip


def _kind(item: Any) -> Any:
    """What kind of thing an item is: a number and a tensor would both be tensors in a list of the graph."""
    if isinstance(item, (tuple, list)) and not is_growing(item):
        return tuple(map(_kind, item))
    if is_union(item):  # `max(rate, 0)` is an int or a float
        kinds = {_kind(option) for option in item.options_}
        return kinds.pop() if len(kinds) == 1 else type(item)
    return "tensor" if isinstance(item, torch.Tensor) else "number" if isinstance(item, (int, float, *SYMBOLS)) else type(item)  # fmt: skip


def check_kinds(x: list, items: Any, watch: Any) -> None:
    """StructureError for numbers and tensors in one list from outside that grows."""
    if is_growing(items) or not isinstance(items, (list, tuple)):
        return
    kinds = current_graph().root.kinds.setdefault(id(x), set())
    kinds.update(map(_kind, items))
    if len(kinds) > 1:
        raise _cannot(watch.source_of(x).label)


def _own(item: Any) -> bool:
    """Whether an item is a number, string or tensor of the function's own, or a tuple of these: no object that others hold."""
    if type(item) is tuple:
        return all(map(_own, item))
    if isinstance(item, SymTensor):
        return item.storage_.external is None and item.storage_.argument is None
    return isinstance(item, (int, float, str, *SYMBOLS))


def additions(x: list, watch: Any) -> StagedList | None:
    """What the call adds to ``x``, if that is a list from outside that grows."""
    if watch is None or not is_tracing():
        return None
    root = current_graph().root
    if id(x) not in root.grown:
        return None
    if id(x) not in root.additions:
        source = watch.source_of(x)
        if source is None or not _changed_blindly(x):
            return None
        lent = any(real is x for _, real in root.lent)
        if lent or any(held is x for held in own_variables()):
            raise _cannot(source.label)
        made = StagedList()
        root.additions[id(x)] = x, made
        watch.sources[id(made)] = made, source
        journal.guard(x, _refuse(source.label))
    return root.additions[id(x)][1]


def _changed_blindly(x: list) -> bool:
    """Whether all changes of a list so far are steps of the function itself that do not depend on what it held."""
    key = ("contents", id(x))
    first, *inner = journal.open_journals()
    steps = first.steps.get(key) is not None or key not in first.entries
    return steps and not any(key in log.entries for log in inner)


def extended(x: Any, root: Root) -> list | None:
    """The list from outside that ``x`` holds the additions of."""
    return next((real for real, made in root.additions.values() if made is x), None)


def look(x: Any, watch: Any, whole: bool = False) -> None:
    """A container is about to be read: StructureError for a list whose items are known only when the graph runs.

    ``whole``: by a name of the function, or as an argument, in a way that nothing tells of: that may be at any time.
    """
    if type(x) is not list or not (is_tracing() and journal.active()):
        return
    root = current_graph().root
    if id(x) in root.grown and (whole or id(x) in root.additions or journal.is_nested()):
        source = None if watch is None else watch.source_of(x)
        raise _cannot("a list" if source is None else source.label)


def _refuse(name: str) -> Callable[[], None]:
    def refuse() -> None:
        raise _cannot(name)

    return refuse


def _cannot(name: str) -> StructureError:
    error = StructureError(
        f"{name}, a list from outside of the function, gets a number of items that depends on a staged condition: what it holds is known only when "
        "the graph runs, so it can be appended to and extended here, by items of one kind, where it is found (`self.log.append(x)`), and not be read, named or changed "
        "otherwise. Read it outside of the function, pass it as an argument, or gather the items in a list that the function makes",
        user_location(),
    )
    error.grown = True
    return error
