"""Functional updates and their in-place forms: a table, and two rows of the op table for each.

``inplace.OP(base, ...)``  writes into the storage of ``base``, a value that nothing else needs any more, and gives it on
                           as its output: ``overwrites`` argument 0.
``update.OP(r, ...)``      writes into the resource ``r``: ``writes`` argument 0, no output.

Both give the bits that ``OP`` gives, fail where it fails, and before they have written when it is an index that is wrong.
``tg.borrow(r)`` looks at a resource without a copy: whoever uses it must do so before the next write.
``tg.list_freeze`` makes a tuple of a list that was written in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..graph import ops
from ..graph.ir import Node
from ..graph.ops import Effects

INPLACE, UPDATE, BORROW, FREEZE = "inplace.", "update.", "tg.borrow", "tg.list_freeze"


def _into(view: Callable[..., torch.Tensor], name: str) -> Callable[..., Any]:
    """Write the second argument through a view of the first; shapes that differ raise what the functional op raises."""

    def run(base: torch.Tensor, source: torch.Tensor, *args: Any) -> torch.Tensor:
        place = view(base, *args)
        if place.shape != source.shape:
            ops.lookup(name).run(base, source, *args)
        place.copy_(source)
        return base

    return run


def _method(name: str) -> Callable[..., Any]:
    """The in-place overload of a torch op."""
    library, base, variant = name.split(".")
    return ops.overload(f"{library}.{base}_.{variant}")


def _owned(items: Any) -> list:
    return items if type(items) is list else list(items)


def _push(items: Any, v: Any) -> list:
    items = _owned(items)
    items.append(v)
    return items


def _set(items: Any, i: Any, v: Any) -> list:
    i, items = ops.written_index(items, i), _owned(items)
    items[i] = v
    return items


def _write_cell(items: Any, i: Any, v: Any, limit: Any) -> list:
    i, items = ops.array_index(i, limit), _owned(items)
    items += [None] * (i + 1 - len(items))
    items[i] = v
    return items


_aten = torch.ops.aten
_SCATTERS = {
    "aten.select_scatter.default": torch.select,
    "aten.slice_scatter.default": _aten.slice.Tensor,
    "aten.diagonal_scatter.default": _aten.diagonal.default,
}
_WRITES = ["aten.index_put.default", "aten.index_copy.default", "aten.index_add.default", "aten.index_fill.int_Scalar",
           "aten.index_fill.int_Tensor", "aten.scatter.src", "aten.scatter.value", "aten.scatter_add.default",
           "aten.masked_fill.Scalar", "aten.masked_fill.Tensor", "aten.masked_scatter.default"]  # fmt: skip
# What these give is contiguous, whatever their base is; the others keep the order of its dims.
_IN_A_ROW = frozenset(_WRITES) - {"aten.index_put.default", "aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor"}  # fmt: skip
# In place only on resources: elsewhere they are cheaper as part of a kernel.
_POINTWISE = ["aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor", "aten.addcmul.default",
              "aten.addcdiv.default", "aten.lerp.Scalar", "aten.clamp.default", "aten.neg.default"]  # fmt: skip
_LISTS = {"tg.list_push": _push, "tg.list_set": _set, "tg.array_write": _write_cell}

FORMS: dict[str, Callable[..., Any]] = {name: _into(view, name) for name, view in _SCATTERS.items()}
FORMS |= {name: _method(name) for name in _WRITES}
FORMS |= _LISTS


def is_update(node: Node) -> bool:
    """Whether a node gives its first argument with some of it replaced."""
    return node.op in FORMS


def _quietly(run: Callable[..., Any]) -> Callable[..., None]:
    """The write of a resource: autograd does not see it, as it does not see ``tg.assign``."""

    def write(target: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        with torch.no_grad():
            run(target, *args, **kwargs)

    return write


def _in_a_row(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """``run`` on a value that lies in memory as the result of the functional op does; else that op."""

    def write(base: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        form = run if base.is_contiguous() else ops.lookup(name).run
        return form(base, *args, **kwargs)

    return write


def _register(name: str, run: Callable[..., Any], on_values: bool, on_resources: bool) -> None:
    fails = ops.lookup(name).effects.may_fail
    own = _in_a_row(name, run) if name in _IN_A_ROW else run
    rows = [(INPLACE, own, Effects(may_fail=fails, overwrites=(0,)), 1)] * on_values
    rows += [(UPDATE, _quietly(run), Effects(may_fail=fails, writes=(0,)), 0)] * on_resources
    for prefix, action, effects, outputs in rows:
        ops.register(prefix + name, run=action, effects=effects, gradient=ops.NONE, outputs=outputs)  # fmt: skip
        if name in ops.FAILS_BY_VALUE:
            ops.FAILS_BY_VALUE[prefix + name] = ops.FAILS_BY_VALUE[name]


for _name, _run in FORMS.items():
    _register(_name, _run, True, _name not in _LISTS)
for _name in _POINTWISE:
    _register(_name, _method(_name), False, True)
ops.register(BORROW, run=lambda x: x, effects=Effects(reads=(0,)), gradient=ops.NONE)
ops.register(FREEZE, run=tuple, effects=ops.PURE, gradient=ops.NONE)
