"""Collectives of ``torch.distributed`` as ops of a graph.

``tg.collective(name, group, args)``: ``name`` is that of an op of torch's ``c10d`` library, whose arguments ``args`` are, with None in place of the
process group; ``group`` is that group's name, by which the run finds it: destroyed and made again, it is the new one. All ops but ``SILENT`` write the
tensors of their first argument; the op gives these as new values. It is ``io``: all ranks see it, each time and in the order of the program.

``tg.post(name, group, args)`` begins a ``send`` or ``recv_`` and gives its number; ``tg.arrived(number, before)`` waits for that, and gives what was
received: at a second time ``before``, what the tensors hold.

Private names of torch: ``_resolve_process_group``, and the ``c10d`` ops, whose arguments have been the same since torch 2.1.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

SILENT = frozenset(["send", "barrier", "monitored_barrier_"])
GROUP = "process_group"  # what all of these ops call it

_numbers = itertools.count(1)
_posted: dict[int, tuple[Any, list[torch.Tensor]]] = {}  # the work, and what it writes


def schema_names(name: str) -> list[str]:
    """The names of the arguments of a collective."""
    return [a.name for a in getattr(torch.ops.c10d, name).default._schema.arguments]


def flat(x: Any) -> list[torch.Tensor]:
    """The tensors in an argument, which is a tensor or a list, or a list of lists, of tensors."""
    return [x] if isinstance(x, torch.Tensor) else [t for part in x for t in flat(part)]


def run(name: str, group: str, args: tuple) -> Any:
    """Take part in a collective; what it wrote, as a new tensor or several."""
    work, given = _begun(name, group, args)
    if work is not None:
        work.wait()
    return _results(() if name in SILENT else flat(given[0]))


def post(name: str, group: str, args: tuple) -> int:
    """Begin to send or receive; the number of the request."""
    work, given = _begun(name, group, args)
    for sent in [n for n, (w, wrote) in list(_posted.items()) if not wrote and w.is_completed()]:
        _posted.pop(sent, None)  # nobody has waited for it
    number = next(_numbers)
    _posted[number] = work, [] if name in SILENT else flat(given[0])
    return number


def arrived(number: int, before: Sequence[torch.Tensor]) -> Any:
    """Wait for a request; what was received, or ``before`` where the program has waited for it already."""
    if number not in _posted:
        return _results([x.clone() for x in before])
    work, wrote = _posted.pop(number)
    if work is not None:
        work.wait()
    return _results(wrote)


def _results(wrote: Sequence[torch.Tensor]) -> Any:
    return wrote[0] if len(wrote) == 1 else tuple(wrote)


def _begun(name: str, group: str, args: tuple) -> tuple[Any, list[Any]]:
    """A collective that has begun: its work, None where it has ended; its arguments."""
    found = dist.distributed_c10d._resolve_process_group(group)
    given = [_own(a, copy=i == 0 and name not in SILENT) for i, a in enumerate(args)]
    given[schema_names(name).index(GROUP)] = found.boxed()
    with torch.no_grad():
        made = getattr(torch.ops.c10d, name)(*given)
    work = made[-1] if isinstance(made, tuple) else made
    return None if work is None else dist.Work.unbox(work), given


def _own(x: Any, copy: bool) -> Any:
    """An argument with its tensors contiguous, as backends take them, and new where they are written."""
    if isinstance(x, torch.Tensor):
        x = x.detach()
        return x.clone(memory_format=torch.contiguous_format) if copy else x.contiguous()
    if isinstance(x, (list, tuple)):
        return [_own(y, copy) for y in x]
    return getattr(x, "value", x)  # of an opaque object
