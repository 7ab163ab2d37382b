"""Built-ins that reduce an iterable: ``min``, ``max``, ``sum``, ``any``, ``all``, ``functools.reduce``."""

from __future__ import annotations

from typing import Any

import torch

from ...runtime import control_flow
from ...runtime.graph.types import INT
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.funcgraph import user_location
from ...runtime.symbols.symbolic import scalar_of
from ...runtime.values import locations
from ...runtime.values.structure import Leaf
from ...runtime.values.tables import StagedSet
from .. import union
from ..call_rules import is_user_function
from ..calls import call
from ..consumers import found_in, gathered
from ..for_stmt import for_stmt
from ..generators import Generator
from ..if_stmt import if_stmt
from ..iter_call import iterator_of
from ..iterables import StagedRange, StagedSequence, staged_source
from ..logical import and_, not_, or_
from ..registry import handles
from ..staging import is_staged
from ..user_operators import add, as_bool, gt, holds_staged, lt
from .torch_functions import tensor


def tensor0(x: Any) -> torch.Tensor:
    """A number as a tensor that holds all of it: a float of Python has 64 bits."""
    if isinstance(x, torch.Tensor):
        return x
    kind = x.node.kind if isinstance(x, SYMBOLS) else type(x)
    return tensor(x, dtype=torch.float64) if kind is float else tensor(x)


def _items(args: tuple, key: Any) -> Any:
    """What ``min`` and ``max`` choose from: a tensor, or a sequence."""
    if len(args) > 1:
        return args
    items = gathered(_of_integers(args[0]) if key is None else args[0])
    if _open_source(items, key) is not None:
        return items
    plain = isinstance(items, (list, tuple, dict, set, str, range, torch.Tensor))
    return items if plain or not hasattr(items, "__iter__") else list(items)


def _open_source(items: Any, key: Any = None) -> StagedSequence | None:
    """The items with their indices, where their number is known only when the graph runs; a tensor without a key has a way of its own."""
    if isinstance(items, torch.Tensor) and items.dim() == 1 and key is None:
        return None
    source = staged_source(items)
    return source if source is not None and is_staged(source.length()) else None


def _pick_growing(which: str, items: StagedSequence, key: Any, default: dict[str, Any]) -> Any:
    """Of as many items as the run knows. A key is computed once of each."""
    count = items.length()

    def none():
        if default:
            return default["default"]
        raise ValueError(f"{which}() arg is an empty sequence")

    def some():
        best = items.item(0)
        rank = best if key is None else call(key, best)

        def body(index):
            nonlocal best, rank
            item = items.item(index)
            other = item if key is None else call(key, item)

            def take():
                nonlocal best, rank
                best, rank = item, other

            better = (lt if which == "min" else gt)(other, rank)
            if_stmt(better, take, lambda: None, ("best", "rank"))

        for_stmt(StagedRange(1, count, 1), body, ("best", "rank"))
        return best

    return control_flow.staged_if(control_flow.predicate(count == 0, which), none, some)


def _pick(which: str, items: Any, key: Any = None, **default: Any) -> Any:
    source = _open_source(items, key)
    if source is not None:
        return _pick_growing(which, source, key, default)
    if isinstance(items, torch.Tensor):
        if items.dim() != 1 or key is not None:
            rows = list(items.unbind(0))
            return _fold(which, rows, key) if rows or not default else default["default"]
        if type(items.shape[0]) is int and items.shape[0] == 0:
            if default:
                return default["default"]
            raise ValueError(f"{which}() arg is an empty sequence")
        return torch.select(items, 0, scalar_of(_position(which, items)))
    items = list(items)
    return _fold(which, items, key) if items or not default else default["default"]


def _position(which: str, items: torch.Tensor) -> torch.Tensor:
    """Where the element is that Python picks: the first of equals; a NaN in front of all others, and no other NaN."""
    argument = torch.argmin if which == "min" else torch.argmax
    if items.dtype == torch.bool:
        return argument(items.to(torch.uint8))
    if not items.dtype.is_floating_point:
        return argument(items)
    nan = items.isnan()
    last = float("inf") if which == "min" else float("-inf")
    return torch.where(nan[0], 0, argument(torch.where(nan, last, items)))


def _extreme(which: str, builtin):
    def run(*args, **kwargs):
        if union.holds_union(args, kwargs):
            return union.apply(run, *args, **kwargs)
        if not args or not kwargs.keys() <= {"key", "default"} or (args[1:] and "default" in kwargs):  # fmt: skip
            return builtin(*([0] for _ in args), **kwargs)  # Python's own error
        items = _items(args, kwargs.get("key"))
        if union.holds_union((items,), {}):
            return union.apply(run, items, **kwargs)
        key = kwargs.get("key")
        staged = (isinstance(items, torch.Tensor) and is_staged(items)) or _open_source(items, key) is not None  # fmt: skip
        if isinstance(items, (list, tuple)) and not staged:
            staged = holds_staged(items)
        if not staged and key is None:
            return builtin(items, **kwargs)
        return _pick(which, items, **kwargs)

    return handles(builtin)(run)


def _fold(which: str, items: list, key):
    """The first smallest or largest, as Python picks it: by comparisons from left to right."""
    if not items:
        raise ValueError(f"{which}() arg is an empty sequence")
    best, rank = items[0], items[0] if key is None else call(key, items[0])
    for item in items[1:]:
        other = item if key is None else call(key, item)
        better = as_bool((lt if which == "min" else gt)(other, rank))
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


def _of_integers(x: Any) -> Any:
    """A set of whole numbers, or one that was empty so far, as a list, for what is the same in any order; anything else as it is."""
    if not issubclass(type(x), StagedSet):
        return x
    spec = x.item_spec
    return x.keys_list() if spec is None or (isinstance(spec, Leaf) and spec.type == INT) else x


@handles(sum)
@union.each
def sum_(items, start=0):
    items = gathered(_of_integers(items) if type(start) is int else items)
    if isinstance(items, torch.Tensor) and is_staged(items):
        if items.dim() == 0:
            raise TypeError("iteration over a 0-d tensor")
        if type(items.shape[0]) is int and items.shape[0] == 0:
            return start
        total = items.sum(0, dtype=None if items.dtype == torch.bool else items.dtype)
        return total if isinstance(start, int) and start == 0 else start + total
    source = staged_source(items)
    if source is None:
        total = start
        for item in items:
            total = add(total, item)
        return total
    n = source.length()
    rows = [source.item(i) for i in range(n)] if not isinstance(n, SYMBOLS) else None
    if rows is not None:
        return sum_(rows, start)
    box = [start]
    place = locations.item(box, "sum", "the sum")
    index = [0]
    at = locations.item(index, "index", "the index")

    def body():
        i = index[0]
        place.set(box[0] + source.item(i))
        at.set(i + 1)

    control_flow.staged_while(lambda: index[0] < n, body, [at, place])
    return box[0]


def _is_true(item, which):
    item = union.truth(item, which.__name__)
    return as_bool(item) if is_staged(item) else bool(item)


def _truth(which):
    combine_ = or_ if which is any else and_

    def test(items):
        if isinstance(items, torch.Tensor) and is_staged(items):
            if items.dim() != 1:
                kind = control_flow.ConditionError
                raise kind(kind.plain, user_location())
            return call(bool, items.any() if which is any else items.all())
        items = iterator_of(items)
        fresh = isinstance(items, Generator) and items.fresh
        if fresh or _open_source(items) is not None:
            found = found_in(items, which is any)
            return call(bool, found if which is any else not_(found))
        found = which is all
        for item in items:
            if is_user_function(getattr(type(item), "__bool__", getattr(type(item), "__len__", None))):  # fmt: skip
                found = combine_(found, lambda item=item: _is_true(item, which))
            else:  # nothing happens where its truth is not asked for
                truth = _is_true(item, which)
                found = combine_(found, lambda truth=truth: truth)
            if not is_staged(found) and found is (which is any):
                return found
        return call(bool, found)

    return handles(which)(union.each(test))


_truth(any)


_truth(all)
