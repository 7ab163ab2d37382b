"""Graphs, streams and events of ``fake_driver``: what a real driver refuses is an error here too.

A graph's nodes wait for what their stream has captured, and for events; a launch runs them in any order that keeps to that, another one each
time. A handle of a conditional node has no value when its graph is launched, and none behind the node that has read it, until a kernel sets it:
CUDA leaves such a value undefined, or a loop without end.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable
from typing import Any

KERNEL, MEMCPY, CONDITIONAL = "KERNEL", "MEMCPY", "CONDITIONAL"


class Graph:
    """``nodes``: (kind, action, the numbers of the nodes before it). ``parameters``: of the kernels and copies, addresses. ``around``: of a body, the graph of its node."""

    numbered: weakref.WeakValueDictionary[int, Graph] = weakref.WeakValueDictionary()
    undefined: int | None = None  # the value of a handle when its graph is launched

    def __init__(self, around: Graph | None = None) -> None:
        self.around = around
        self.handles: dict[int, int | None] = {} if around is None else around.handles
        self.parameters: dict[int, list[int]] = {}
        self.kept: list[Any] = []
        self.nodes: list[tuple[str, Callable[[], None], set[int]]] = []
        self.random = random.Random(0)
        Graph.numbered[int(self)] = self

    def __int__(self) -> int:
        return id(self)

    def launch(self) -> None:
        assert self.around is None, "a body is no graph of its own"
        for handle in self.handles:
            self.handles[handle] = self.undefined
        self.run()

    def run(self) -> None:
        waiting = dict(enumerate(self.nodes))
        while waiting:
            ready = [i for i, node in waiting.items() if waiting.keys().isdisjoint(node[2])]
            waiting.pop(i := self.random.choice(ready))
            self.nodes[i][1]()

    def behind(self, ends: set[int]) -> set[int]:
        """Nodes, and all that come before them."""
        return ends | {j for i in ends for j in self.behind(self.nodes[i][2])}

    def conditional(self, kind: str, handle: int, bodies: list[Graph]) -> None:
        """What a conditional node does."""
        if kind == "WHILE":
            while self._taken(handle):
                bodies[0].run()
        elif (number := self._taken(handle)) and kind == "IF":
            bodies[0].run()
        elif kind == "SWITCH" and number < len(bodies):
            bodies[number].run()

    def _taken(self, handle: int) -> int:
        value, self.handles[handle] = self.handles[handle], None
        assert value is not None, "a node whose handle no kernel has set"
        return value


class Refused(RuntimeError):
    """What CUDA's runtime makes of a call; torch raises it."""


class Stream:
    cuda: Any  # the driver
    count = 0

    def __init__(self, device: Any = None):
        Stream.count += 1
        self.cuda_stream = Stream.count

    @staticmethod
    def external(number: int, device: Any = None) -> Stream:
        made = Stream.__new__(Stream)
        made.cuda_stream = number
        return made

    def wait_stream(self, other: Stream) -> None:
        event = Event()
        event.record(other)
        self.wait_event(event)

    def wait_event(self, event: Event) -> None:
        """Behind a node of a capture the stream takes part in it."""
        of = self.cuda.capturing
        if event.graph is None:
            if event.recorded and self.cuda_stream in of:
                raise Refused("cudaErrorStreamCaptureIsolation")
            return
        if event.graph not in of.values():
            raise Refused("cudaErrorCapturedEvent")
        if of.setdefault(self.cuda_stream, event.graph) is not event.graph:
            raise Refused("cudaErrorStreamCaptureMerge")
        self.cuda.tails.setdefault(self.cuda_stream, set()).update(event.tails)


class Event:
    def __init__(self, *_: Any, **__: Any) -> None:
        self.recorded, self.graph = False, None
        self.tails: set[int] = set()

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or Stream.cuda.current[-1]
        self.recorded, self.graph = True, stream.cuda.capturing.get(stream.cuda_stream)
        self.tails = set(stream.cuda.tails.get(stream.cuda_stream, ()))

    def synchronize(self) -> None:
        if self.graph is not None:
            raise Refused("cudaErrorCapturedEvent")

    def query(self) -> bool:
        self.synchronize()
        return True


class CUDAGraph:
    """torch's."""

    cuda: Any

    def __init__(self, keep_graph: bool = False):
        self.keep_graph = keep_graph

    def capture_begin(self, pool: Any, capture_error_mode: str) -> None:
        self.cuda.begin(self, pool, capture_error_mode)

    def capture_end(self) -> None:
        self.cuda.end(self)

    def replay(self) -> None:
        self.root.launch()

    def instantiate(self) -> None:
        assert self.keep_graph

    def raw_cuda_graph_exec(self) -> Graph:
        return self.root
