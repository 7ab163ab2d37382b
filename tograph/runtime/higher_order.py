"""Control flow as functions: ``cond``, ``switch_case``, ``while_loop``, ``map_fn``, ``scan``, ``foldl``, ``foldr``.

They take plain Python callables. With a Python condition, or outside of a function, they run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import InvalidArgumentError, LoopTypeError, ShapeInvariantError, StructureError
from . import control_flow, structure
from .control_flow import LoopOptions, predicate
from .funcgraph import is_tracing, user_location
from .journal import Location
from .shapes import SYMBOLS
from .structure import spec_of
from .symbolic import SymTensor, scalar_of


def _staged(x: Any) -> bool:
    return isinstance(x, (SymTensor, *SYMBOLS)) or (isinstance(x, torch.Tensor) and is_tracing())


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """``true_fn()`` if ``pred`` else ``false_fn()``, as one ``If`` when ``pred`` is a tensor of a function.

    Example: ``tg.cond(x > 0, lambda: x, lambda: -x)``
    """
    if not _staged(pred):
        return true_fn() if pred else false_fn()
    return control_flow.staged_if(predicate(pred, "cond"), true_fn, false_fn)


def switch_case(
    branch_index: Any, branch_fns: Any, default: Callable[[], Any] | None = None
) -> Any:
    """Run the branch of an index; an index out of range runs ``default``, or else the last branch.

    ``branch_fns``: a list of functions, or a dict or list of pairs from index to function.
    """
    pairs = (
        dict(branch_fns)
        if isinstance(branch_fns, dict) or _pairs(branch_fns)
        else dict(enumerate(branch_fns))
    )
    if not pairs:
        raise InvalidArgumentError("switch_case needs at least one branch", user_location())
    count = max(pairs) + 1
    other = default or pairs[max(pairs)]
    functions = [pairs.get(i, other) for i in range(count)] + ([default] if default else [])
    if not _staged(branch_index):
        i = int(branch_index)
        return functions[i]() if 0 <= i < count else other()
    regions = {
        f"branch{i}": control_flow.trace_region(f"branch{i}", f) for i, f in enumerate(functions)
    }
    index = scalar_of(branch_index) if isinstance(branch_index, torch.Tensor) else branch_index
    return control_flow.join_regions("Case", [index], regions)


def _pairs(branch_fns: Any) -> bool:
    return all(isinstance(p, tuple) and len(p) == 2 for p in branch_fns)


def while_loop(  # noqa: C901  the contract is checked on every path
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    shape_invariants: Sequence[Any] | None = None,
    maximum_iterations: Any = None,
    parallel_iterations: int = 10,
) -> tuple[Any, ...]:
    """``while cond(*v): v = body(*v)`` from ``loop_vars``; returns the last variables as a tuple.

    ``shape_invariants``: a shape for each variable, with None for sizes that change. A body that changes a dtype, or
    a shape without an invariant, is an error.

    Example: ``i, s = tg.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i), (0, torch.tensor(0)))``
    """
    box = list(loop_vars)

    def place(k: int) -> Location:
        return Location(
            ("loop", id(box), k),
            f"loop_vars[{k}]",
            lambda: box[k],
            lambda v: box.__setitem__(k, v),
            box,
        )

    places = [place(k) for k in range(len(box))]
    invariants = {}
    for p, shape in zip(places, shape_invariants or ()):
        if isinstance(p.get(), torch.Tensor) and shape is not None:
            invariants[p.key] = tuple(shape)
    declared = set(invariants)

    def test() -> Any:
        return cond(*box)

    def step() -> None:
        out = body(*box)
        out = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if len(out) != len(box):
            raise StructureError(
                f"the body of while_loop returned {len(out)} values for {len(box)} loop_vars",
                user_location(),
            )
        for k, new in enumerate(out):
            _check(places[k], box[k], new, places[k].key in declared)
            places[k].set(new)

    first = test()
    if not _staged(first):
        count = 0
        while first and (maximum_iterations is None or count < maximum_iterations):
            step()
            first, count = test(), count + 1
            if _staged(first):
                break
        else:
            return tuple(box)
    options = LoopOptions(invariants, maximum_iterations, parallel_iterations)
    control_flow.staged_while(test, step, places, options, first=first)
    return tuple(box)


def _check(place: Location, old: Any, new: Any, declared: bool) -> None:
    """The contract of ``while_loop``: kinds of variables do not change."""
    a, b = spec_of(old), spec_of(new)
    if isinstance(a, structure.Leaf) and isinstance(b, structure.Leaf):
        before, after = getattr(a.type, "dtype", None), getattr(b.type, "dtype", None)
        if before != after:
            raise LoopTypeError(
                f"'{place.name}' has dtype {before} before the loop, but dtype {after} after one iteration",
                user_location(),
            )
        x, y = getattr(a.type, "shape", None), getattr(b.type, "shape", None)
        if (
            not declared
            and isinstance(old, SymTensor)
            and x is not None
            and y is not None
            and x != y
        ):
            raise ShapeInvariantError(
                f"'{place.name}' has shape {x} before the loop, but shape {y} after one iteration. Use shape_invariants to say "
                "which sizes change.",
                user_location(),
            )


# ---- loops over the first dimension


def _rows(elems: Any) -> tuple[int, Callable[[Any], Any]]:
    if isinstance(elems, (tuple, list)):
        return elems[0].shape[0], lambda i: type(elems)(torch.select(e, 0, i) for e in elems)
    if isinstance(elems, dict):
        return next(iter(elems.values())).shape[0], lambda i: {
            k: torch.select(e, 0, i) for k, e in elems.items()
        }
    return elems.shape[0], lambda i: torch.select(elems, 0, i)


def _stacked(columns: list[Any]) -> Any:
    first = columns[0]
    if isinstance(first, (tuple, list)):
        return type(first)(_stacked([c[k] for c in columns]) for k in range(len(first)))
    if isinstance(first, dict):
        return {k: _stacked([c[k] for c in columns]) for k in first}
    return torch.stack([torch.as_tensor(c) for c in columns])


def _run(
    elems: Any, step: Callable[[Any, Any], tuple[Any, Any]], carry: Any, reverse: bool = False
) -> tuple[Any, list[Any]]:
    """``carry, out = step(carry, row)`` over the rows; results in order of the rows."""
    count, row = _rows(elems)
    order = range(int(count)) if not isinstance(count, SYMBOLS) else None
    if order is None:
        raise StructureError(
            "map_fn and scan need a first dimension that is known while tracing", user_location()
        )
    outs: list[Any] = []
    for i in reversed(order) if reverse else order:
        carry, out = step(carry, row(i))
        outs.append(out)
    return carry, outs[::-1] if reverse else outs


def map_fn(fn: Callable[[Any], Any], elems: Any) -> Any:
    """``fn`` of every row of ``elems`` (a tensor, or a structure of tensors), stacked.

    Example: ``tg.map_fn(lambda row: row / row.sum(), x)``
    """
    return _stacked(_run(elems, lambda _, x: (None, fn(x)), None)[1])


def scan(
    fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, reverse: bool = False
) -> Any:
    """All values of ``acc = fn(acc, row)``, stacked; without ``initializer`` the first row is the first value."""
    if initializer is None:
        first, rest = _first(elems, reverse)
        outs = _run(rest, lambda acc, x: (fn(acc, x),) * 2, first, reverse)[1]
        return _stacked([*outs, first] if reverse else [first, *outs])
    return _stacked(_run(elems, lambda acc, x: (fn(acc, x),) * 2, initializer, reverse)[1])


def foldl(fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None) -> Any:
    """The last value of ``acc = fn(acc, row)`` from the first row to the last."""
    return _fold(fn, elems, initializer, reverse=False)


def foldr(fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None) -> Any:
    """The last value of ``acc = fn(acc, row)`` from the last row to the first."""
    return _fold(fn, elems, initializer, reverse=True)


def _fold(fn, elems, initializer, reverse):
    if initializer is None:
        initializer, elems = _first(elems, reverse)
    return _run(elems, lambda acc, x: (fn(acc, x), None), initializer, reverse)[0]


def _first(elems: Any, reverse: bool) -> tuple[Any, Any]:
    """(the row to start from, the other rows)"""
    at, rest = (-1, slice(None, -1)) if reverse else (0, slice(1, None))
    if isinstance(elems, (tuple, list)):
        return type(elems)(e[at] for e in elems), type(elems)(e[rest] for e in elems)
    return elems[at], elems[rest]
