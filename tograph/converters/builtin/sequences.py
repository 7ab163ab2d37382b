"""Built-ins that make or take sequences: ``len``, ``range``, ``enumerate``, ``zip``, ``map``, ``filter``, ``sorted``, ``iter``, ``next``."""

from __future__ import annotations

import collections
from typing import Any

import torch

from ...errors import ConditionError, StagingError
from ...runtime import control_flow
from ...runtime.guarding import guards, reads
from ...runtime.guarding.unconverted import check_keys
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.library.staged_string import StagedString
from ...runtime.symbols import journal
from ...runtime.symbols.funcgraph import is_tracing, user_location
from ...runtime.symbols.scalars import StagedBool, to_python
from ...runtime.symbols.symbolic import as_symbolic, scalar_of
from ...runtime.values import inner_lists, locations
from ...runtime.values.growing import StagedList
from ...runtime.values.listed import parts
from ...runtime.values.staged_tuples import as_tuple
from ...runtime.values.structure import is_growing, is_union
from ...runtime.values.tables import is_table
from .. import keyed, members, special_results, text_options, union
from ..call_rules import DECIDING, is_user_function
from ..calls import call
from ..consumers import gathered
from ..for_stmt import for_stmt
from ..generators import Generator
from ..growing_lists import in_order
from ..iter_call import iterator_of
from ..iterables import (
    Enumerated,
    Mapped,
    Reversed,
    StagedRange,
    StagedSequence,
    Steps,
    Zipped,
    beside,
    staged_source,
)
from ..iterators import SequenceIterator, advancing, numbered, over
from ..lists import new_list
from ..registry import METHODS, handles, takes_functions
from ..sequence_index import PYTHON_NAMES
from ..staging import is_staged
from ..steady import steady
from ..tables import keys_of
from ..tensor_index import as_place
from ..user_operators import as_bool, defines_operators, holds_staged, lt, method_of
from .forms import unless_staged
from .reductions import tensor0
from .zipping import Parted, listed, parted, with_generator, zipped


@handles(len)
def len_(x):
    if text_options.is_many(x):
        return text_options.asked(len_, x)
    if is_union(x):
        return union.apply(len_, x)
    if isinstance(x, torch.Tensor):
        if x.dim() == 0:
            raise TypeError("len() of a 0-d tensor")
        return x.shape[0]
    if isinstance(x, StagedSequence):
        return _counted(x)
    sized = getattr(type(x), "__tograph_len__", None)
    if sized is not None:
        return sized(x)
    watch = reads.current()
    own = is_user_function(getattr(type(x), "__len__", None))
    if watch is not None and guards.extends_container(x) and not own:
        watch.size(x)
    if isinstance(x, dict) and members.is_conditional(x):
        return keyed.dict_length(x)
    if type(x) is set:
        return members.length(x)
    method = getattr(type(x), "__len__", None)
    return special_results.size(call(method, x)) if type(method) is type(len_) else len(x)


def _counted(x: StagedSequence) -> Any:
    if isinstance(x, (Enumerated, Zipped, Mapped, Parted)):
        raise TypeError(f"object of type {PYTHON_NAMES[type(x).__name__]!r} has no len()")
    return x.length()


@unless_staged(range)
def range_(*args):
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    bounds = [_as_index(x) for x in (start, stop, step)]
    return StagedRange(*bounds)


def _as_index(x: Any) -> Any:
    x = as_place(x)
    return to_python(x, "int") if isinstance(x, StagedBool) else x


def _sources_staged(iterables: Any) -> bool:
    return any(staged_source(x) is not None for x in iterables)


@handles(enumerate)
def enumerate_(iterable, start=0):
    start = as_place(start)
    iterable = listed(iterator_of(iterable))
    if isinstance(iterable, Generator):
        return call(_numbered, iterable, start)
    source = staged_source(iterable)
    if source is not None:
        return Enumerated(source, start)
    if type(iterable) is StagedList and is_tracing():
        return Steps(iterable, start)
    return over(
        (iterable,), lambda i, item: (start + i, item), lambda: numbered(steady(iterable), start)
    )


@handles(zip)
def zip_(*iterables, strict=False):
    rows = None if strict else parted(iterables)
    if rows is not None:
        return rows
    iterables = tuple([listed(iterator_of(x)) for x in iterables])
    found = with_generator(iterables, strict)
    if found is not None:
        return found
    sources = beside(iterables) if _sources_staged(iterables) else None
    if sources is None:
        iterables = tuple(map(_items_of, iterables))
        if strict:
            return advancing(zip(*iterables, strict=True))
        return over(iterables, lambda i, *items: items, lambda: zip(*iterables))
    return zipped(sources, strict)


def _items_of(x: Any) -> Any:
    """What Python can go over: the items of a staged sequence of known length one by one."""
    source = staged_source(x)
    return steady(x) if source is None else iter(source)


@handles(map)
def map_(function, *iterables):
    iterables = tuple(map(iterator_of, iterables))
    if is_tracing() and any(isinstance(x, Generator) for x in iterables):
        if len(iterables) == 1:
            return call(_mapped, function, iterables[0])
        return call(_mapped_rows, function, call(zip, *iterables))
    sources = beside(iterables) if _sources_staged(iterables) else None
    if sources is None:
        iterables = tuple(map(_items_of, iterables))
        return over(
            iterables,
            lambda i, *items: call(function, *items),
            lambda: map(lambda *items: call(function, *items), *iterables),
        )
    return Mapped(call, function, sources)


@handles(filter)
def filter_(function, iterable):
    iterable = iterator_of(iterable)
    return call(_kept, function, iterable) if is_tracing() else filter(function, iterable)


def _numbered(items, number):
    for item in items:
        yield number, item
        number += 1


def _mapped(function, items):
    for item in items:
        yield function(item)


def _mapped_rows(function, rows):
    for row in rows:
        yield function(*row)


def _kept(function, items):
    for item in items:
        if item if function is None else function(item):
            yield item


DECIDING.update((_numbered, _mapped, _mapped_rows, _kept))


def _backwards(x):
    for i in range(len(x) - 1, -1, -1):
        yield x[i]


DECIDING.add(_backwards)


@handles(reversed)
@union.each
def reversed_(x):
    if isinstance(x, set):
        raise TypeError("'set' object is not reversible")
    own = method_of(x, "__reversed__")
    if own is not None:
        return call(own, x)
    if not hasattr(type(x), "__reversed__") and method_of(x, "__getitem__") and hasattr(type(x), "__len__"):  # fmt: skip
        return call(_backwards, x)
    x = keys_of(x) if is_table(x) else x
    if isinstance(x, torch.Tensor) and is_staged(x):
        return x.flip(0)
    source = staged_source(x)
    if source is not None:
        return Reversed(source)
    if type(x) is range and is_tracing():
        return SequenceIterator(x[::-1])
    return over((x,), lambda i, item: item, lambda: reversed(steady(x)), backwards=True)


@handles(sorted)
@union.each
def sorted_(x, *, key=None, reverse=False):
    if is_staged(reverse):
        items = gathered(
            keys_of(x) if is_table(x) else members.in_any_order(x) if key is None else x
        )
        backwards = control_flow.predicate(as_bool(reverse), "sorted")
        return control_flow.staged_if(
            backwards,
            lambda: sorted_(items, key=key, reverse=True),
            lambda: sorted_(items, key=key, reverse=False),
        )
    if isinstance(x, torch.Tensor) and is_staged(x):
        if key is None and x.dim() == 1 and type(x.shape[0]) is int:
            made = torch.sort(x, stable=True, descending=reverse).values.unbind(0)
            return new_list(*_copies(made, [x]))
        x = list_(x)
    if key is None:
        x = members.in_any_order(x)
    x = gathered(x)
    if isinstance(x, StagedSequence) and is_staged(x.length()):
        x = list_(x)
    if is_growing(x):
        return in_order(x, key, reverse)
    items = list(x)
    keys = items if key is None else [call(key, i) for i in items]
    if not any(map(_undecided, keys)):
        order = sorted(range(len(items)), key=keys.__getitem__, reverse=reverse)
        return new_list(*(items[i] for i in order))
    return new_list(*_sort_staged(items, keys, reverse))


def _undecided(key):
    """Whether comparing a key may have to wait for the graph."""
    inside = isinstance(key, (list, tuple, dict)) and holds_staged(key)
    known = not (is_staged(key) or is_union(key) or isinstance(key, StagedString) or inside)
    return not known or defines_operators(type(key))


def _sort_staged(items, keys, reverse):
    if len(keys) > 1 and any(isinstance(k, torch.Tensor) and k.dim() for k in keys):
        raise RuntimeError(ConditionError.plain)
    if not (_alike(keys) and _alike(items)):
        return _sort_by_comparing(items, keys, reverse)
    order = torch.sort(
        torch.stack([tensor0(k) for k in keys]), stable=True, descending=reverse
    ).indices
    stacked = torch.stack([tensor0(i) for i in items])[order]
    if all(isinstance(i, (int, float, *SYMBOLS)) for i in items):
        return [scalar_of(v) for v in stacked.unbind(0)]
    return _copies(stacked.unbind(0), items)


def _copies(made, items):
    """``made``, copies of tensors among ``items``, where Python gives these: neither may change while the other is used."""
    bases = [s for x in items if isinstance(x, torch.Tensor) for s in parts(as_symbolic(x).storage_)]  # fmt: skip
    for x in made:
        control_flow.lose(x, bases, "an item that sorted() gave")
    return list(made)


def _alike(items):
    """Whether items are numbers or tensors of one kind, which a tensor holds without changing any."""
    return len(kinds := set(map(_kept_kind, items))) == 1 and None not in kinds


def _kept_kind(x):
    if isinstance(x, torch.Tensor):
        return x.dtype, tuple(x.shape), x.device
    if isinstance(x, SYMBOLS):
        return x.node.kind
    if type(x) is int and not -(2**63) <= x < 2**63:
        return None
    return type(x) if type(x) in (bool, int, float) else None


def _sort_by_comparing(items, keys, reverse):
    """Stable, by staged exchanges of neighbours: for keys that are no numbers, such as tuples and strings."""
    items, keys = list(items), list(keys)

    def exchange(i):
        """Whether the items in front of these may have to move too."""
        a, b = (items[i], keys[i]), (items[i - 1], keys[i - 1])
        before = union.truth(lt(b[1], a[1]) if reverse else lt(a[1], b[1]), "sorted")
        if not is_staged(before) and not before:
            return False
        if is_staged(before):
            before = control_flow.predicate(before, "sorted")
            a, b = control_flow.staged_if(before, lambda: (a, b), lambda: (b, a))
        (items[i - 1], keys[i - 1]), (items[i], keys[i]) = a, b
        return True

    for last in range(1, len(items)):
        for i in range(last, 0, -1):
            if not exchange(i):
                break
    return items


@handles(list)
@union.each
def list_(items=()):
    items = gathered(items)
    source = staged_source(items)
    if source is None:
        return new_list(*iter(items))
    if isinstance(items, StagedList):
        return inner_lists.copies(StagedList(items))
    n = source.length()
    if not isinstance(n, SYMBOLS):
        return new_list(*source)
    out = new_list()
    for_stmt(source, lambda item: call(out.append, item), ())
    return out


@handles(tuple)
@union.each
def tuple_(items=()):
    items = gathered(items)
    source = staged_source(items)
    if source is None:
        return tuple(items)
    if isinstance(source.length(), SYMBOLS):
        return as_tuple(list_(items))
    return tuple(source)


for _kind in (*guards.MAPPINGS, collections.Counter):
    METHODS[(_kind, "get")] = keyed.dict_get
    METHODS[(_kind, "pop")] = keyed.dict_pop
    METHODS[(_kind, "setdefault")] = keyed.set_default
    if _kind is not collections.Counter:
        METHODS[(_kind, "update")] = keyed.update
    for _name in ("items", "keys", "values", "copy", "popitem"):

        def _listed(x, *args, _name=_name, **kwargs):
            if _name in ("items", "keys", "values") and members.is_conditional(x):
                reads.passed((x,))
                return members.Listing(x, _name)
            if _name == "copy" and type(x) is dict and members.is_conditional(x):
                return call(dict, x)
            check_keys(x)
            reads.passed((x,))
            if _name == "popitem":
                journal.record(locations.contents(x))
            return getattr(x, _name)(*args, **kwargs)

        METHODS[(_kind, _name)] = _listed


def _move_to_end(x, key, last=True):
    if journal.is_staged():
        raise StagingError("the order of an OrderedDict cannot depend on a staged condition", user_location())  # fmt: skip
    reads.passed((x,))
    journal.record(locations.contents(x))
    x.move_to_end(key, last)


METHODS[(collections.OrderedDict, "move_to_end")] = _move_to_end

takes_functions(torch.func.grad, torch.func.jvp, torch.func.vjp, torch.func.jacrev,
                torch.func.jacfwd, torch.func.hessian)  # fmt: skip
