"""Rows of what is read and written: constants, captured tensors, what loops know of earlier iterations, and the state of a ``try`` body."""

from __future__ import annotations

import torch

from .aten_rows import overload
from .opaque import plain
from .rows import IO, NONE, PURE, REPLAY, Effects, register
from .types import ObjectType, ScalarType, TensorType, parse_type


def _constant(data, dtype, device):
    return torch.tensor(data, dtype=dtype, device=device)


def _read(x):
    """A snapshot of a captured tensor."""
    return x.clone()


def _assign(x, value):
    """Where autograd watches the run, the tensor gets the history of the value, as in eager PyTorch; a leaf stays one."""
    if torch.is_grad_enabled() and value.requires_grad and not (x.is_leaf and x.requires_grad):
        x.copy_(value)
        return
    with torch.no_grad():
        x.copy_(value)


def _written(old, new):
    """The content ``new`` with the history of ``old``: what a write that autograd does not see makes of a tensor."""
    if not torch.is_grad_enabled() or not getattr(old, "requires_grad", False):
        return new.detach() if getattr(new, "requires_grad", False) else new
    made = old.clone()
    with torch.no_grad():
        made.copy_(new)
    return made


def _random_fill(name, size, stride, dtype, device, *args, **kwargs):
    """Memory of these strides, filled by an in-place random op: the strides decide where each draw goes."""
    target = torch.empty_strided(size, stride, dtype=dtype, device=device)
    return overload(name)(target, *map(plain, args), **{k: plain(v) for k, v in kwargs.items()})


register("tg.random_fill", run=_random_fill, effects=Effects(random=True), gradient=REPLAY)  # fmt: skip
register("py.constant", run=lambda v: v, effects=PURE, gradient=NONE)
register("tg.constant", run=_constant, effects=PURE, gradient=NONE, aliases=False)


def _earlier(past, given, outside, leaves):
    raise NotImplementedError("a gradient through earlier iterations outside of a loop")


def _leads(loop, place, outside):
    raise NotImplementedError("what state was computed from, outside of a loop")


def _wrote_earlier(x):
    raise NotImplementedError("whether earlier iterations wrote, outside of a loop")


# Only while a loop is recorded: see ``histories`` and ``loop_histories``.
register("tg.wrote_earlier", run=_wrote_earlier, effects=PURE, gradient=NONE)
register("tg.leads", run=_leads, effects=PURE, gradient=NONE)
register("tg.earlier", run=_earlier, effects=PURE, gradient=REPLAY, outputs=2)
# No gradient passes what is ``freed``: see the module of that name.
register("tg.identity", run=lambda x, freed=False: x, effects=PURE, gradient=REPLAY)
register("tg.written", run=_written, effects=PURE, gradient=REPLAY)
register("tg.read", run=_read, effects=Effects(reads=(0,)), gradient=REPLAY, aliases=False)
register("tg.assign", run=_assign, effects=Effects(writes=(0,)), gradient=NONE, outputs=0)
register("tg.choose", run=lambda tag, options: options[tag], effects=PURE, gradient=REPLAY)


# ---- the state of a try body


class ProgressCell:
    """What the variables of a ``try`` body held before the op that may have failed: a number and values."""

    def __init__(self) -> None:
        self.tag, self.values = 0, []


def _cell_set(cell, tag, values):
    cell.tag, cell.values = tag, values


def _cell_get(cell, tag, index, kind):
    """A value of the setting ``tag``; where another one was the last, a value that nobody reads."""
    if cell.tag == tag and tag:
        return cell.values[index]
    return zero_of(parse_type(kind))


def zero_of(kind):
    """Some value of a type."""
    if isinstance(kind, ScalarType):
        return kind.kind(0)
    if isinstance(kind, TensorType):
        return torch.zeros([n or 0 for n in kind.shape], dtype=kind.dtype, device=kind.device)
    return None if isinstance(kind, ObjectType) else ()


register("tg.cell_new", run=ProgressCell, effects=IO, gradient=NONE)
register("tg.cell_set", run=_cell_set, effects=IO, gradient=NONE, outputs=0)
register("tg.cell_tag", run=lambda cell: cell.tag, effects=IO, gradient=NONE)
register("tg.cell_get", run=_cell_get, effects=IO, gradient=NONE)
