"""The entry of a graph that Python runs, and where an error of a host program came from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from ..diagnosis import at_run_time, shown
from ..execution import host
from ..graph.ir import Graph, Node
from ..native.entry import make_host_entry


def by_host(
    graph: Graph,
    captured: Sequence[torch.Tensor],
    run: Callable[..., Any],
    single: bool,
    watched: Collection[int] = (),
) -> Callable[..., Any] | None:
    """A built-in function that checks its arguments and calls the host program ``run``; ``single``: its result is no tuple.

    ``watched``: the inputs that require a gradient, where ``run`` joins calls with autograd.
    """

    def call(*tensors: Any) -> Any:
        try:
            outputs = run(*tensors, *captured)
        except Exception as error:  # ops and the user's functions raise anything: the same error goes on, with its line
            __tracebackhide__ = True
            add_location(error, graph)
            raise shown(error)  # noqa: B904  the same object
        return outputs[0] if single else tuple(outputs)

    return make_host_entry(call, [v.type for v in graph.inputs], captured, watched)


def add_location(error: BaseException, graph: Graph) -> None:
    """Note on an error which line of the user's code made the op that failed."""
    node, made = _failed(f"<tograph host program of {graph.name}>")
    if node is not None and node.location is None:  # the call of a callee, by no line of the user's
        node, made = _failed("<tograph host program of ")
    at_run_time(error, node, made or graph)


def _failed(program: str) -> tuple[Node | None, Graph | None]:
    """The innermost node that failed in host programs whose names begin so, and the graph that it is of."""
    trace, found = sys.exc_info()[2], (None, None)
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(program):
            found = host.node_of(code, trace.tb_lineno)
        trace = trace.tb_next
    return found
