"""Views whose place in memory follows from sizes that only the run knows: ``x[:, :n]``.

Their strides are told as if the elements lay in order, so that torch's code does not compare sizes. Where they do not, eager PyTorch copies in
``reshape``, ``flatten`` and ``contiguous``: what these give of such a view is one or the other, and is not written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...errors import AliasError, StagingError
from ..inference.shapes import Meta, contiguous
from .funcgraph import user_location


def is_open(chain: tuple[Any, ...], meta: Meta) -> bool:
    """Whether the elements of a view may lie otherwise than in order, where its strides say that they do. ``meta``: of the view itself."""
    made = [*(v.base for v in chain[1:]), meta]
    return any(map(_opens, chain, made))


def is_cut(chain: tuple[Any, ...], meta: Meta) -> bool:
    """Whether a view has a slice of a staged size on its way: it says the strides of a tensor that is made anew."""
    made = [*(v.base for v in chain[1:]), meta]
    return any(not m.static and v.func is _SLICE for v, m in zip(chain, made))


_SLICE = torch.ops.aten.slice.Tensor


def strides(x: Any) -> tuple[Any, ...]:
    """The strides of a view whose own say that its elements lie in order, by those of what it is a view of."""
    found = list(x.storage_.meta.stride)
    for view in x.chain:
        step = _STEPS.get(view.func._schema.name.split("::")[-1])
        if step is None and not is_open(x.chain, x.meta):
            return tuple(x.stride())
        if step is None:
            raise StagingError(
                f"the strides of a view made by {view.func} follow from sizes that are known only when the graph runs, and cannot be asked for",
                user_location(),
            )
        found = step(found, view.base.size, *view.args)
    return tuple(found)


Strides = list[Any]


def _sliced(found: Strides, size: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Strides:  # fmt: skip
    found[dim] = found[dim] * step
    return found


def _selected(found: Strides, size: Any, dim: int, index: Any) -> Strides:
    del found[dim]
    return found


def _transposed(found: Strides, size: Any, *dims: int) -> Strides:
    if len(found) > 1:
        a, b = dims or (0, 1)
        found[a], found[b] = found[b], found[a]
    return found


def _unsqueezed(found: Strides, size: Any, dim: int) -> Strides:
    dim = dim if dim >= 0 else dim + len(found) + 1
    return [*found[:dim], found[dim] * size[dim] if dim < len(found) else 1, *found[dim:]]


_STEPS: dict[str, Callable[..., Strides]] = {
    "slice": _sliced,
    "select": _selected,
    "t": _transposed,
    "transpose": _transposed,
    "permute": lambda found, size, dims: [found[i] for i in dims],
    "as_strided": lambda found, size, shown, steps, *at: list(steps),
    "unsqueeze": _unsqueezed,
    "detach": lambda found, size: found,
    "alias": lambda found, size: found,
}


def check(chain: tuple[Any, ...], what: str) -> None:
    """AliasError for what ``reshape`` or ``contiguous`` made of a view, where only the run knows whether that is a copy."""
    if any(v.unsure for v in chain):
        raise AliasError(
            "the result of reshape(), flatten() or contiguous() of a slice shares memory with it or is a copy, by sizes that are known only when the graph "
            f"runs; so it cannot be {what} here. Use clone() where it is assigned.",
            user_location(),
        )


def _opens(view: Any, made: Meta) -> bool:
    name = view.func._schema.name.split("::")[-1]
    if made.static or name not in ("slice", "expand"):
        return False
    given = view.base
    if name == "expand":
        return len(made.size) > len(given.size) or any(
            _is_one(n) and not _is_one(m) for n, m in zip(given.size, made.size)
        )
    dim = view.args[0] if view.args else 0
    step = view.args[3] if len(view.args) > 3 else 1
    before = given.size[: dim % len(given.size)]
    return not (_is_one(step) and all(map(_is_one, before)) and _in_order(given))


def _is_one(n: Any) -> bool:
    return type(n) is int and n == 1


def _in_order(x: Meta) -> bool:
    """Whether strides are those of a tensor that is made anew, as far as they are known."""
    plain = contiguous(x.dtype, x.size, x.device).stride
    pairs = [(s, t) for s, t, n in zip(x.stride, plain, x.size) if not _is_one(n)]
    return all(s == t for s, t in pairs if type(s) is int and type(t) is int)
