"""Built-in functions, and a few of torch's and math's, on staged values: what plain Python gives, made by the graph."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import torch

from ..errors import StagingError
from ..runtime import control_flow, journal
from ..runtime.control_flow import StagedException
from ..runtime.funcgraph import current_graph, is_tracing, user_location
from ..runtime.growing import StagedList
from ..runtime.ops import OpaqueObject
from ..runtime.scalars import StagedBool, StagedFloat, new_scalar, to_python
from ..runtime.shapes import SYMBOLS
from ..runtime.structure import is_union
from ..runtime.symbolic import scalar_of
from . import attributes, subscripts, union
from .calls import METHODS, TENSOR_METHODS, call, handles, takes_functions
from .for_stmt import for_stmt
from .generators import Generator
from .iterables import (
    Enumerated,
    Mapped,
    Reversed,
    SequenceIterator,
    StagedRange,
    StagedSequence,
    Zipped,
    as_source,
    staged_source,
)
from .lists import new_list
from .logical import and_, or_
from .staging import is_staged
from .strings import StagedString, fstring, is_staged_part, outside, str_format


def _number(x: Any) -> Any:
    """A staged number for a one-element tensor."""
    return scalar_of(x) if isinstance(x, torch.Tensor) else x


def _any_staged(args: Any) -> bool:
    return any(
        is_staged(a) or is_union(a) or isinstance(a, (StagedException, StagedString)) for a in args
    )


def _unless_staged(function):
    """The built-in itself when nothing is staged; each option of a union apart."""

    def wrap(form):
        @functools.wraps(form)
        def run(*args, **kwargs):
            if union.holds_union(args, kwargs):
                return union.apply(run, *args, **kwargs)
            if not _any_staged(args) and not _any_staged(kwargs.values()):
                return function(*args, **kwargs)
            return form(*args, **kwargs)

        return handles(function)(run)

    return wrap


# ---- numbers


def _cast(kind: type):
    def cast(x=0, *rest, **kwargs):
        if rest or kwargs:
            raise TypeError(
                "int() can't convert non-string with explicit base: a staged value has base 10"
            )
        x = _number(x)
        return to_python(x, kind.__name__) if isinstance(x, SYMBOLS) else kind(x)

    return cast


_unless_staged(int)(_cast(int))
_unless_staged(float)(_cast(float))


@_unless_staged(bool)
def bool_(x=False):
    test = control_flow.predicate(x, "bool")
    return to_python(_number(test), "bool")


@_unless_staged(abs)
def abs_(x):
    return x.__abs__() if isinstance(x, SYMBOLS) else torch.abs(x)


@_unless_staged(round)
def round_(x, ndigits=None):
    if isinstance(x, SYMBOLS):
        return x.__round__(ndigits)
    return torch.round(x) if ndigits is None else torch.round(x, decimals=ndigits)


@_unless_staged(divmod)
def divmod_(a, b):
    return a // b, a % b


@_unless_staged(pow)
def pow_(a, b, mod=None):
    return a**b if mod is None else (a**b) % mod


@_unless_staged(complex)
def complex_(real, imag=0):
    raise StagingError(
        "complex() of a staged value is not supported; use torch.complex", user_location()
    )


@_unless_staged(str)
def str_(x="", *rest):
    return fstring((x, "s", ""))


@_unless_staged(repr)
def repr_(x):
    return fstring((x, "r", ""))


@_unless_staged(format)
def format_(x, spec=""):
    return fstring((x, "", spec))


@_unless_staged(hash)
def hash_(x):
    if isinstance(x, SYMBOLS):
        raise StagingError(
            "a staged number cannot be hashed: its value is known only when the graph runs",
            user_location(),
        )
    return hash(x)


# ---- sequences


@handles(len)
def len_(x):
    if is_union(x):
        return union.apply(len_, x)
    if isinstance(x, torch.Tensor):
        if x.dim() == 0:
            raise TypeError("len() of a 0-d tensor")
        return x.shape[0]
    if isinstance(x, StagedSequence):
        return x.length()
    sized = getattr(type(x), "__tograph_len__", None)
    if sized is not None:
        return sized(x)
    method = getattr(type(x), "__len__", None)
    return call(method, x) if type(method) is type(len_) else len(x)


@_unless_staged(range)
def range_(*args):
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    bounds = [_as_index(x) for x in (start, stop, step)]
    return StagedRange(*bounds)


def _as_index(x: Any) -> Any:
    if isinstance(x, torch.Tensor) and (x.dtype.is_floating_point or x.dtype.is_complex):
        raise TypeError("only integer tensors of a single element can be converted to an index")
    x = _number(x)
    if isinstance(x, StagedFloat):
        raise TypeError("'float' object cannot be interpreted as an integer")
    return to_python(x, "int") if isinstance(x, StagedBool) else x


def _sources_staged(iterables: Any) -> bool:
    return any(staged_source(x) is not None for x in iterables)


@handles(enumerate)
def enumerate_(iterable, start=0):
    source = staged_source(iterable)
    return enumerate(iterable, start) if source is None else Enumerated(source, start)


@handles(zip)
def zip_(*iterables, strict=False):
    if not _sources_staged(iterables):
        return zip(*iterables, strict=strict)
    sources = [as_source(x) for x in iterables]
    if strict:
        lengths = [s.length() for s in sources]
        for n in lengths[1:]:
            same = lengths[0] == n
            if same is False:
                raise ValueError("zip() arguments have different lengths")
    return Zipped(sources)


@handles(map)
def map_(function, *iterables):
    if not _sources_staged(iterables):
        return map(lambda *items: call(function, *items), *iterables)
    return Mapped(call, function, [as_source(x) for x in iterables])


@handles(filter)
def filter_(function, iterable):
    source = staged_source(iterable)
    if source is None:
        return _filtered(function, iterable)
    n = source.length()
    if isinstance(n, SYMBOLS):
        raise StagingError(
            "filter() over a staged sequence of unknown length is not supported; use a mask",
            user_location(),
        )
    kept = iterable
    mask = [
        call(function, source.item(i)) if function is not None else source.item(i) for i in range(n)
    ]
    return kept[
        torch.stack(
            [
                torch.as_tensor(m).reshape(()) if isinstance(m, torch.Tensor) else tensor(m)
                for m in mask
            ]
        ).bool()
    ]


def _filtered(function, iterable):
    for item in iterable:
        keep = item if function is None else call(function, item)
        if is_staged(keep):
            raise StagingError(
                "filter() by a staged condition is not supported on Python sequences; use a mask",
                user_location(),
            )
        if keep:
            yield item


@handles(reversed)
def reversed_(x):
    if isinstance(x, torch.Tensor) and is_staged(x):
        return x.flip(0)
    source = staged_source(x)
    return reversed(x) if source is None else Reversed(source)


@handles(sorted)
def sorted_(x, *, key=None, reverse=False):
    if isinstance(x, torch.Tensor) and is_staged(x):
        if x.dim() != 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        if key is None:
            return list(torch.sort(x, stable=True, descending=reverse).values.unbind(0))
        keys = torch.stack([_tensor0(call(key, row)) for row in x.unbind(0)])
        return list(x[torch.sort(keys, stable=True, descending=reverse).indices].unbind(0))
    items = list(x)
    keys = items if key is None else [call(key, i) for i in items]
    if not any(map(is_staged, keys)):
        order = sorted(range(len(items)), key=keys.__getitem__, reverse=reverse)
        return [items[i] for i in order]
    return _sort_staged(items, keys, reverse)


def _sort_staged(items, keys, reverse):
    order = torch.sort(
        torch.stack([_tensor0(k) for k in keys]), stable=True, descending=reverse
    ).indices
    stacked = torch.stack([_tensor0(i) for i in items])[order]
    if all(isinstance(i, (int, float, *SYMBOLS)) for i in items):
        return [scalar_of(v) for v in stacked.unbind(0)]
    return list(stacked.unbind(0))


def _tensor0(x: Any) -> torch.Tensor:
    return x if isinstance(x, torch.Tensor) else tensor(x)


def _extreme(which: str, builtin):
    def pick(*args, key=None, **default):
        items = list(args) if len(args) > 1 else args[0]
        if isinstance(items, torch.Tensor):
            if items.dim() != 1 or key is not None:
                return _fold(which, list(items.unbind(0)), key)
            if type(items.shape[0]) is int and items.shape[0] == 0:
                if default:
                    return default["default"]
                raise ValueError(f"{which}() arg is an empty sequence")
            return items.amin() if which == "min" else items.amax()
        items = list(items)
        return _fold(which, items, key) if items or not default else default["default"]

    def run(*args, **kwargs):
        inner = args[0] if len(args) == 1 else args
        if union.holds_union(args, kwargs):
            return union.apply(run, *args, **kwargs)
        staged = is_staged(inner) if isinstance(inner, torch.Tensor) else False
        if (
            len(args) == 1
            and not staged
            and not isinstance(inner, (list, tuple, dict, set, str, range))
            and inner is not None
        ) and hasattr(inner, "__iter__"):
            inner = list(inner)
            args = (inner,)
        staged = staged or (isinstance(inner, (list, tuple)) and any(map(is_staged, inner)))
        if not staged and kwargs.get("key") is None:
            return builtin(*args, **kwargs)
        return pick(*args, **kwargs)

    return handles(builtin)(run)


def _fold(which: str, items: list, key):
    """The first smallest or largest, as Python picks it: by comparisons from left to right."""
    if not items:
        raise ValueError(f"{which}() arg is an empty sequence")
    best, rank = items[0], items[0] if key is None else call(key, items[0])
    for item in items[1:]:
        other = item if key is None else call(key, item)
        better = other < rank if which == "min" else other > rank
        if is_staged(better):
            test = control_flow.predicate(better, which)
            pair = control_flow.staged_if(
                test, lambda i=item, o=other: (i, o), lambda b=best, r=rank: (b, r)
            )
            best, rank = pair
        elif better:
            best, rank = item, other
    return best


_extreme("min", min)
_extreme("max", max)


@handles(sum)
def sum_(items, start=0):
    if isinstance(items, torch.Tensor) and is_staged(items):
        total = items.sum(0, dtype=None if items.dtype == torch.bool else items.dtype)
        return total if isinstance(start, int) and start == 0 else start + total
    source = staged_source(items)
    if source is None:
        total = start
        for item in items:
            total = total + item
        return total
    n = source.length()
    rows = [source.item(i) for i in range(n)] if not isinstance(n, SYMBOLS) else None
    if rows is not None:
        return sum_(rows, start)
    box = [start]
    place = control_flow.Place(
        ("sum", id(box)), "the sum", lambda: box[0], lambda v: box.__setitem__(0, v), box
    )
    index = [0]
    at = control_flow.Place(
        ("index", id(index)),
        "the index",
        lambda: index[0],
        lambda v: index.__setitem__(0, v),
        index,
    )

    def body():
        i = index[0]
        place.set(box[0] + source.item(i))
        at.set(i + 1)

    control_flow.staged_while(lambda: index[0] < n, body, [at, place])
    return box[0]


def _truth(which):
    combine_ = or_ if which is any else and_

    def test(items):
        if isinstance(items, torch.Tensor) and is_staged(items):
            if items.dim() != 1:
                raise control_flow.ConditionError(
                    "Boolean value of Tensor with more than one value is ambiguous", user_location()
                )
            return items.any() if which is any else items.all()
        found = which is all
        for item in items:
            item = control_flow.predicate(item, which.__name__) if is_staged(item) else bool(item)
            if not is_staged(found) and found is (which is any):
                return found
            found = combine_(found, lambda item=item: item)
        return found

    return handles(which)(test)


_truth(any)
_truth(all)


@handles(list)
def list_(items=()):
    source = staged_source(items)
    if source is None:
        return new_list(*items)
    if isinstance(items, StagedList):
        return StagedList(items)
    n = source.length()
    if not isinstance(n, SYMBOLS):
        return new_list(*source)
    out = new_list()
    for_stmt(source, lambda item: call(out.append, item), ())
    return out


@handles(tuple)
def tuple_(items=()):
    source = staged_source(items)
    return tuple(items) if source is None else tuple(source)


@handles(iter)
def iter_(x, *rest):
    if isinstance(x, torch.Tensor) and is_staged(x):
        return SequenceIterator(list(x.unbind(0)))
    if not rest and is_tracing() and isinstance(x, (list, tuple, range)):
        return SequenceIterator(x)
    return iter(x, *rest)


@handles(next)
def next_(iterator, *default):
    if not isinstance(iterator, SequenceIterator):
        if journal.active() and journal.depth() > 1 and not isinstance(iterator, Generator):
            raise StagingError(
                "next() of this iterator inside a staged branch or loop is not supported: it would advance while tracing. Use "
                "iter() of a list or tuple, an index, or loop over it with for.",
                user_location(),
            )
        return next(iterator, *default)
    journal.record(journal.attribute(iterator, "position"))
    at, count = iterator.position, len_(iterator.items)
    inside = at < count

    def take():
        return subscripts.getitem(iterator.items, at)

    def end():
        if default:
            return default[0]
        raise StopIteration

    if is_staged(inside):
        found = control_flow.staged_if(inside, take, end)
        iterator.position = control_flow.staged_if(inside, lambda: at + 1, lambda: at)
        return found
    if not inside:
        return end()
    iterator.position = at + 1
    return take()


takes_functions(functools.reduce, itertools.accumulate, itertools.starmap, itertools.takewhile, itertools.dropwhile,
                torch.func.vmap, torch.vmap, torch.func.grad, torch.func.jvp, torch.func.vjp, torch.func.jacrev,
                torch.func.jacfwd, torch.func.hessian)  # fmt: skip


@handles(functools.reduce)
def reduce_(function, items, *initial):
    items = list(items) if staged_source(items) is None else list(staged_source(items))
    values = [*initial, *items]
    if not values:
        raise TypeError("reduce() of empty iterable with no initial value")
    total = values[0]
    for v in values[1:]:
        total = call(function, total, v)
    return total


# ---- questions about types


def _kind_of(x: Any) -> type | None:
    return x.node.kind if isinstance(x, SYMBOLS) else str if isinstance(x, StagedString) else None


@handles(isinstance)
def isinstance_(x, classes):
    if is_union(x):
        return union.test_options(lambda v: isinstance_(v, classes), x)
    if isinstance(x, StagedException):
        graph = current_graph()
        return new_scalar(
            "py.isinstance",
            (graph.resolve(x.handle_.ref), OpaqueObject(classes, "types")),
            bool,
            graph,
        )
    kind = _kind_of(x)
    if kind is not None:
        return issubclass(kind, classes) or isinstance(x, classes)
    if isinstance(x, StagedRange):
        return isinstance(range(0), classes)
    return isinstance(x, classes)


@handles(type)
def type_(x, *rest, **kwargs):
    if rest or kwargs:
        return type(x, *rest, **kwargs)
    if type(x) is StagedList:
        return list
    if is_union(x):
        return union.distribute(type_, x)
    # A size that torch made stays torch.SymInt: ``type(n) is int`` asks whether a size is static.
    return type(x) if type(x) is torch.SymInt else _kind_of(x) or type(x)


@handles(callable)
def callable_(x):
    return union.test_options(callable, x) if is_union(x) else callable(x)


@handles(torch.is_tensor)
def is_tensor(x):
    return isinstance_(x, torch.Tensor)


@handles(setattr)
def setattr_call(owner, name, value):
    return attributes.setattr_(owner, name, value)


@handles(hasattr)
def hasattr_call(owner, name):
    return attributes.has_attribute(owner, name)


@handles(getattr)
def getattr_call(owner, name, *default):
    if not default:
        return attributes.attr(owner, name)
    there = attributes.has_attribute(owner, name)
    if is_staged(there):
        return control_flow.staged_if(
            there, lambda: attributes.attr(owner, name), lambda: default[0]
        )
    return attributes.attr(owner, name) if there else default[0]


@handles(delattr)
def delattr_call(owner, name):
    return attributes.delattr_(owner, name)


# ---- output


@handles(print)
def print_(*values, sep=None, end=None, file=None, flush=False):
    """``print`` acts whenever the graph runs."""
    if not is_tracing():
        print(*values, sep=sep, end=end, file=file, flush=flush)
        return
    if union.holds_union(values, {}):
        union.apply(lambda *v: print_(*v, sep=sep, end=end, file=file, flush=flush), *values)
        return
    graph = current_graph()
    args = tuple(_printed(v, graph) for v in values)
    kwargs = {"sep": sep, "end": end, "flush": flush}
    kwargs = {k: v for k, v in kwargs.items() if v is not None and v is not False}
    if file is not None:
        kwargs["file"] = outside(file, graph)
    graph.add("tg.print", args, kwargs)


def _printed(value: Any, graph) -> Any:
    if isinstance(value, (torch.Tensor, StagedString, StagedException, *SYMBOLS)) or is_staged_part(
        value
    ):
        return outside(value, graph)
    if value is None or type(value) in (bool, int, float, str, complex):
        return value
    text = str(value)
    return text


# ---- torch


def _leaf(x: Any) -> Any:
    if isinstance(x, SYMBOLS):
        return torch.scalar_tensor(x, dtype=_default_dtype(x))
    return x


def _default_dtype(x: Any) -> torch.dtype:
    kind = x.node.kind if isinstance(x, SYMBOLS) else type(x)
    return {bool: torch.bool, int: torch.int64}.get(kind, torch.get_default_dtype())


def tensor(data, *, dtype=None, device=None, requires_grad=False, **kwargs):
    """``torch.tensor`` of data with staged parts."""
    if union.holds_union((data,), {}):
        return union.apply(
            lambda d: tensor(d, dtype=dtype, device=device, requires_grad=requires_grad), data
        )
    if not _nested_staged(data):
        return torch.tensor(data, dtype=dtype, device=device, requires_grad=requires_grad, **kwargs)
    out = _nested_tensor(data)
    if isinstance(data, torch.Tensor):
        out = data.detach().clone()
    if dtype is not None or device is not None:
        out = out.to(dtype=dtype or out.dtype, device=device)
    return out.requires_grad_() if requires_grad else out


def _nested_staged(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(map(_nested_staged, data))
    return is_staged(data)


def _nested_tensor(data: Any) -> torch.Tensor:
    if isinstance(data, (list, tuple)):
        rows = [_nested_tensor(d) for d in data]
        if not rows:
            return torch.empty(0)
        dtype = functools.reduce(torch.promote_types, [r.dtype for r in rows])
        return torch.stack([r.to(dtype) for r in rows])
    if isinstance(data, torch.Tensor):
        return data
    return torch.scalar_tensor(data, dtype=_default_dtype(data))


handles(torch.tensor)(tensor)


@handles(torch.as_tensor)
def as_tensor(data, dtype=None, device=None):
    if isinstance(data, torch.Tensor):
        return (
            data
            if dtype is None and device is None
            else data.to(dtype=dtype or data.dtype, device=device)
        )
    return tensor(data, dtype=dtype, device=device)


def _lists_of_tensors(function):
    @handles(function)
    def run(tensors, *args, **kwargs):
        if is_union(tensors):
            return union.apply(run, tensors, *args, **kwargs)
        if isinstance(tensors, StagedList):
            if tensors.handle is None:
                return function(list(tensors), *args, **kwargs)
            return (
                tensors.stack(*args, **kwargs)
                if function is torch.stack
                else tensors.cat(*args, **kwargs)
            )
        if isinstance(tensors, (list, tuple)) and union.holds_union(tensors, {}):
            return union.apply(lambda *t: function(list(t), *args, **kwargs), *tensors)
        return function(tensors, *args, **kwargs)

    return run


for _function in (
    torch.stack,
    torch.cat,
    torch.concat,
    torch.concatenate,
    torch.hstack,
    torch.vstack,
    torch.dstack,
):
    _lists_of_tensors(_function)


def _as_plain_number(name: str):
    kind = {
        "item": None,
        "__bool__": "bool",
        "__int__": "int",
        "__float__": "float",
        "__index__": "int",
    }[name]

    def form(x):
        if not is_staged(x):
            return getattr(x, name)()
        return scalar_of(x) if kind is None else to_python(scalar_of(x), kind)

    return form


for _name in ("item", "__bool__", "__int__", "__float__", "__index__"):
    TENSOR_METHODS[_name] = _as_plain_number(_name)


@_unless_staged(torch.is_nonzero)
def is_nonzero(x):
    return bool_(x)


def tolist(x):
    if not is_staged(x):
        return x.tolist()
    return scalar_of(x) if x.dim() == 0 else [tolist(row) for row in x.unbind(0)]


TENSOR_METHODS["tolist"] = tolist
METHODS[str, "format"] = str_format


# ---- math


def _math(name: str):
    function = getattr(math, name)
    whole = name in ("floor", "ceil", "trunc", "isqrt", "gcd", "comb", "factorial")
    kind = int if whole else bool if name in ("isnan", "isinf", "isfinite") else float

    def form(*args):
        graph = current_graph()
        numbers = [_number(a) for a in args]
        values = tuple(n.node.value(graph) if isinstance(n, SYMBOLS) else n for n in numbers)
        return new_scalar(f"py.math.{name}", values, kind, graph)

    return _unless_staged(function)(form)


for _name in ["sqrt", "sin", "cos", "tan", "exp", "log", "log2", "log10", "tanh", "sinh", "cosh", "asin", "acos", "atan", "atan2", "fabs", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite", "hypot", "pow", "fmod", "copysign", "log1p", "expm1", "erf", "gamma", "lgamma", "degrees", "radians", "isqrt", "gcd", "comb", "factorial"]:  # fmt: skip
    _math(_name)
