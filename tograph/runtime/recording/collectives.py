"""Collectives of ``torch.distributed`` while tracing: recorded, and what they write is written to the tensors that were given.

``dist.all_reduce(x)`` and its kind arrive as ops of torch's ``c10d`` library, which write their first argument. The graph has the op that gives
new values (``graph.collectives``). The ``Work`` that torch's code gets is one that has ended: the graph waits where the collective stands.
Autograd does not see what they write, as in eager PyTorch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from ...errors import UnsupportedOpError
from ..graph import ops
from ..graph.collectives import GROUP, SILENT, flat, schema_names
from ..graph.types import ScalarType
from ..inference.infer import tensor_type
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.symbolic import argument, as_symbolic, wrap
from ..values.flattening import symbolic
from ..writes.mutation import write

LIBRARY = "c10d"
_distributed_c10d: Any = getattr(torch._C, "_distributed_c10d", None)  # not in every build of torch

# Whose result says more than the tensors: the rank that sent.
_REFUSED = {"recv_any_source_": "dist.recv without src tells which rank sent: name the rank"}


class _Posting(threading.local):
    def __init__(self) -> None:
        self.requests: list[Request] | None = None


_posting = _Posting()


class _Ended(getattr(_distributed_c10d, "FakeWork", object)):
    """Work that has ended; one object stands for all of it."""

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> Any:
        raise UnsupportedOpError(
            "get_future() of a collective cannot be part of a graph: read the tensors that it was given",
            user_location(),
        )


_ENDED = _Ended()


class Request:
    """What ``isend`` and ``irecv`` give in a trace."""

    def __init__(self, number: Any, targets: list[torch.Tensor]):
        self.number, self.targets = number, targets

    def wait(self, timeout: Any = None) -> bool:
        """Record that the run waits here, and that the tensors have what was received from here on."""
        graph = current_graph()
        before = tuple(argument(graph, t) for t in self.targets)
        _write("tg.arrived", (argument(graph, self.number), before), self.targets)
        return True

    def is_completed(self) -> bool:
        raise UnsupportedOpError(
            "is_completed() of isend() and irecv() cannot be part of a graph: call wait()",
            user_location(),
        )


@contextmanager
def posting() -> Iterator[list[Request]]:
    """Inside, what is sent and received is begun only (``dist.isend``, ``dist.irecv``); the requests."""
    before, _posting.requests = _posting.requests, []
    try:
        yield _posting.requests
    finally:
        _posting.requests = before


def communicate(func: Any, args: tuple, kwargs: dict) -> Any:
    """Record an op of ``c10d``; what torch's own code expects of it."""
    name = func._schema.name.split("::")[-1]
    if name in _REFUSED:
        raise UnsupportedOpError(_REFUSED[name], user_location())
    given = _given(func, args, kwargs)
    place = schema_names(name).index(GROUP)
    group = dist.ProcessGroup.unbox(given[place]).group_name
    targets = [] if name in SILENT else flat(given[0])
    stated = name, group, tuple(_argument(a, i == place) for i, a in enumerate(given))
    if _posting.requests is None:
        _write("tg.collective", stated, targets)
    else:
        graph = current_graph()
        number = graph.emit("tg.post", *stated, type=ScalarType(int))
        _posting.requests.append(Request(symbolic(number, graph), targets))
    return _returned(func, given[0])


def _write(op: str, args: tuple, targets: list[torch.Tensor]) -> None:
    """Record an op that gives what is written to tensors, without a word to autograd."""
    graph = current_graph()
    kinds = [as_symbolic(t).meta._replace(offset=0) for t in targets]
    node = graph.add(op, args, None, [tensor_type(m) for m in kinds])
    with torch.no_grad():
        for target, value, meta in zip(targets, node.outputs, kinds):
            write(target, wrap(value, meta, graph))


def _given(func: Any, args: tuple, kwargs: dict) -> list[Any]:
    """All arguments by position, with those that have defaults."""
    rest = func._schema.arguments[len(args) :]
    return [*args, *(kwargs.get(a.name, a.default_value) for a in rest)]


def _argument(x: Any, group: bool) -> Any:
    """An argument as it stands in the node; the run finds the group by its name."""
    if group:
        return None
    made = argument(current_graph(), x)
    return ops.OpaqueObject(made, "ReduceOp") if isinstance(made, torch.ScriptObject) else made


def _returned(func: Any, first: Any) -> Any:
    """What the op returns: nothing, its first argument, work that has ended, or both of these."""
    count = len(func._schema.returns)
    if not count:
        return None
    work = _ENDED.boxed()
    return (first, work) if count == 2 else work
