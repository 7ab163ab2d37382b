"""A host program with a probe around every node: times for reports, ranges for torch's profiler.

``Clock`` adds up the seconds and the runs of each node, its regions included. ``Ranges`` opens a
a range of ``torch.profiler`` around each node, named after the user's line: ``newton.py:29 aten.div.Tensor``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import torch

from ..graph.ir import Graph, Node
from . import host

_profiler = torch.autograd.profiler


def profiled() -> bool:
    """Whether a torch profiler is running now."""
    return getattr(_profiler, "_is_profiler_enabled", False)


class Clock:
    """Seconds and runs of each node."""

    def __init__(self, nodes: Sequence[Node]):
        self.nodes = nodes
        self.seconds, self.runs = [0.0] * len(nodes), [0] * len(nodes)
        self.started: list[float] = []

    def before(self, index: int) -> None:
        self.started.append(time.perf_counter())

    def after(self, index: int) -> None:
        self.seconds[index] += time.perf_counter() - self.started.pop()
        self.runs[index] += 1

    def close(self) -> None:
        self.started.clear()


class Range:
    """``torch.profiler.record_function``, whose first use imports a module: code that begins and ends under a profiler ``with_stack`` is a name
    that the profiler reads after it is freed."""

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> None:
        self._record = torch.ops.profiler._record_function_enter_new(self.name, None)

    def __exit__(self, *_: Any) -> None:
        with torch._C.DisableTorchFunctionSubclass():
            torch.ops.profiler._record_function_exit._RecordFunction(self._record)


class Ranges:
    """A range of the profiler around each node."""

    def __init__(self, nodes: Sequence[Node]):
        self.names = [f"{place_of(n)} {n.op}".strip() for n in nodes]
        self.open: list[Any] = []

    def before(self, index: int) -> None:
        made = Range(self.names[index])
        made.__enter__()
        self.open.append(made)

    def after(self, index: int) -> None:
        self.open.pop().__exit__(None, None, None)

    def close(self) -> None:
        while self.open:
            self.after(0)


def place_of(node: Node) -> str:
    """``file.py:12`` of a node, or an empty string."""
    return f"{os.path.basename(node.location[0])}:{node.location[1]}" if node.location else ""


class Probed:
    """The host program of a graph with a probe. ``make`` builds the probe from the nodes."""

    def __init__(self, graph: Graph, make: Any):
        writer = _Writer()
        self.program = host.build(graph, writer)
        self.probe = make(writer.probed)
        writer.relay.target = self.probe

    def run(self, *inputs: Any) -> list[Any]:
        try:
            return self.program.run(*inputs)
        finally:
            self.probe.close()


class _Relay:
    """Stands for the probe in the program, which is made before it."""

    target: Any = None

    def before(self, index: int) -> None:
        self.target.before(index)

    def after(self, index: int) -> None:
        self.target.after(index)


class _Writer(host.Writer):
    def __init__(self) -> None:
        super().__init__()
        self.probed: list[Node] = []
        self.relay = _Relay()
        self.bound["tg_probe"] = self.relay

    def node(self, node: Node, indent: int, keep: Any) -> None:
        index = len(self.probed)
        self.probed.append(node)
        self.line(indent, f"tg_probe.before({index})")
        super().node(node, indent, keep)
        self.line(indent, f"tg_probe.after({index})")
