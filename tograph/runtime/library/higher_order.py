"""Control flow as functions: ``cond``, ``switch_case``, ``while_loop``.

They take plain Python callables. With a Python condition, or outside of a function, they run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import torch

from ...errors import (
    InvalidArgumentError,
    LoopTypeError,
    ShapeInvariantError,
    SignatureError,
    StructureError,
)
from .. import control_flow
from ..control_flow import LoopOptions, predicate
from ..inference.shapes import SYMBOLS
from ..symbols.funcgraph import is_tracing, user_location
from ..symbols.journal import Location
from ..symbols.misuse import check_callable, check_whole
from ..symbols.symbolic import SymTensor, scalar_of
from ..values import structure
from ..values.structure import spec_of
from .custom import called


def _staged(x: Any) -> bool:
    return isinstance(x, (SymTensor, *SYMBOLS)) or (isinstance(x, torch.Tensor) and is_tracing())


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """``true_fn()`` if ``pred`` else ``false_fn()``, as one ``If`` when ``pred`` is a tensor of a function.

    Example: ``tg.cond(x > 0, lambda: x, lambda: -x)``
    """
    check_callable(true_fn, "cond", "true_fn")
    check_callable(false_fn, "cond", "false_fn")
    true_fn, false_fn = called(true_fn), called(false_fn)
    if not _staged(pred):
        return true_fn() if pred else false_fn()
    return control_flow.staged_if(predicate(pred, "cond"), true_fn, false_fn)


def switch_case(
    branch_index: Any, branch_fns: Any, default: Callable[[], Any] | None = None
) -> Any:
    """Run the branch of an index; an index out of range runs ``default``, or else the last branch.

    ``branch_fns``: a list of functions, or a dict or list of pairs from index to function. ``branch_index``: a whole number
    or a tensor of one.

    Example: ``tg.switch_case(kind, [lambda: x, lambda: x * x], default=lambda: -x)``
    """
    check_whole(branch_index, "switch_case", "branch_index")
    pairs = _branches(branch_fns)
    if default is not None:
        check_callable(default, "switch_case", "default")
        default = called(default)
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


def _branches(branch_fns: Any) -> dict[int, Callable[[], Any]]:
    """The function of each index."""
    if not isinstance(branch_fns, (list, tuple, dict)):
        raise SignatureError(
            f"'branch_fns' of switch_case must be a list, tuple or dict of functions, not {branch_fns!r}",
            user_location(),
        )
    paired = all(isinstance(p, tuple) and len(p) == 2 for p in branch_fns)
    by_index = isinstance(branch_fns, dict) or paired
    pairs = dict(branch_fns if by_index else enumerate(branch_fns))
    if not pairs:
        raise InvalidArgumentError("switch_case needs at least one branch", user_location())
    for i, fn in pairs.items():
        if not isinstance(i, int) or i < 0:
            raise SignatureError(
                f"the indices of 'branch_fns' of switch_case are whole numbers from 0 on, not {i!r}",
                user_location(),
            )
        check_callable(fn, "switch_case", f"branch_fns[{i}]")
    return {i: called(fn) for i, fn in pairs.items()}


def while_loop(
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
    check_callable(cond, "while_loop", "cond")
    check_callable(body, "while_loop", "body")
    cond, body = called(cond), called(body)
    options = LoopOptions({}, maximum_iterations, parallel_iterations)
    box = _loop_vars(loop_vars)
    places = [_place(box, k) for k in range(len(box))]
    options.shape_invariants = _invariants(places, shape_invariants)

    def test() -> Any:
        return _condition(cond(*box))

    def step() -> None:
        _assign(places, body(*box), options.shape_invariants)

    first, count = test(), 0
    while not _staged(first):
        if not first or (maximum_iterations is not None and count >= maximum_iterations):
            return tuple(box)
        step()
        first, count = test(), count + 1
    if maximum_iterations is not None:
        options.maximum_iterations = maximum_iterations - count
    control_flow.staged_while(test, step, places, options, first=first)
    return tuple(box)


def _place(box: list[Any], k: int) -> Location:
    """The loop variable ``k``, a location that the loop carries."""
    key, name = ("loop", id(box), k), f"loop_vars[{k}]"
    return Location(key, name, lambda: box[k], lambda v: box.__setitem__(k, v), box)


def _condition(go: Any) -> Any:
    if go is None:
        raise StructureError(
            "the cond of while_loop returned None: return the condition", user_location()
        )
    if isinstance(go, (list, tuple, dict)):  # which are true for ever
        raise StructureError(
            f"the cond of while_loop returned a {type(go).__name__}: return the condition alone, one bool",
            user_location(),
        )
    return go


def _assign(places: Sequence[Location], out: Any, declared: Container[Any]) -> None:
    """What the body returned becomes the loop variables."""
    out = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    if len(out) != len(places):
        raise StructureError(
            f"the body of while_loop returned {len(out)} values for {len(places)} loop_vars",
            user_location(),
        )
    for place, new in zip(places, out):
        _check(place, place.get(), new, place.key in declared)
        place.set(new)


def _loop_vars(loop_vars: Any) -> list[Any]:
    if not isinstance(loop_vars, (list, tuple)):
        raise StructureError(
            f"'loop_vars' of while_loop must be a list or tuple of values, not a {type(loop_vars).__name__}: write (x,) for one",
            user_location(),
        )
    return list(loop_vars)


def _invariants(places: Sequence[Location], shapes: Any) -> dict[Any, tuple[int | None, ...]]:
    """The declared shape of each variable that is a tensor."""
    if shapes is None:
        return {}
    if not isinstance(shapes, (list, tuple)) or len(shapes) != len(places):
        found = len(shapes) if isinstance(shapes, (list, tuple)) else repr(shapes)
        raise ShapeInvariantError(
            f"'shape_invariants' of while_loop must be a list with a shape, or None, for each of the {len(places)} loop_vars, "
            f"not {found}",
            user_location(),
        )
    pairs = [(p, s) for p, s in zip(places, shapes) if s is not None]
    return {p.key: tuple(s) for p, s in pairs if isinstance(p.get(), torch.Tensor)}


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
