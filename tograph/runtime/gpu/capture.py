"""A plan as one CUDA graph with conditional nodes: tier 1. Not yet seen on a GPU.

Where the host has something to do between (``Host``), there are several graphs, and the host runs the loops around.

The plan's memory is allocated before; every kernel and library call runs once before the capture, which compiles it, loads it
and prepares its workspace; then torch captures the steps. The bodies of a conditional node are captured on streams
of their own, one for each level. An IF with two bodies is two IF nodes, the second with the inverted condition: drivers of
CUDA 12.8 and 12.9 can wire two bodies wrongly. A call copies its inputs, replays the graph and reads the error cell, if the
plan has one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..kernels.loop_ir import Unsupported
from ..kernels.triton_loops import ACTIVE
from ..text import parse_graph
from . import driver, planner, setter
from .coalescing import coalesced
from .execute import Stepwise
from .plan import Call, Conditional, Host, Plan, Run, Set, Step, View
from .storage import Failed


class Captured(Stepwise):
    """``run(*inputs)`` is one launch. DriverError where the graph cannot be made."""

    captures = True

    def __init__(self, plan: Plan, bound: Mapping[Any, torch.Tensor] | None = None):
        """``bound``: inputs that are read where they are; each call has to be given them there."""
        if why := driver.available(_needs(plan)):
            raise Unsupported(why)
        super().__init__(coalesced(plan), bound=bound)
        self.handles: dict[int, driver.Handle] = {}
        self.levels: list[torch.cuda.Stream] = []
        self.depth = 0
        with torch.cuda.device(self.memory.device), torch.no_grad():
            self.stream = self._level(0)
            self._warm()
            self.graphs: list[Any] = []
            self.program = self._recorded(self.plan.steps)
        self.memory.release()

    def run(self, *inputs: Any) -> list[Any]:
        try:
            return super().run(*inputs)
        finally:
            self.memory.release()

    def play(self) -> None:
        self._play(self.program)

    def _recorded(self, steps: Sequence[Step]) -> list[Any]:
        """The steps as CUDA graphs, with what the host does between them."""
        items: list[Any] = []
        pending: list[Step] = []
        for step in steps:
            if isinstance(step, Host) or (isinstance(step, Conditional) and step.yields):
                items += self._graph(pending)
                items.append(
                    step
                    if isinstance(step, Host)
                    else (step, [self._recorded(b) for b in step.bodies])
                )
                pending = []
            else:
                pending.append(step)
        return items + self._graph(pending)

    def _graph(self, steps: Sequence[Step]) -> list[Any]:
        """One CUDA graph. All share the memory that library functions take while they are captured."""
        if all(isinstance(s, (View, Set)) for s in steps):
            self.steps(steps)
            return []
        graph = torch.cuda.CUDAGraph()
        shared = {"pool": self.graphs[0].pool()} if self.graphs else {}
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="relaxed", **shared):
            self.steps(steps)
        self.graphs.append(graph)
        return [graph]

    def _play(self, items: Sequence[Any]) -> None:
        for item in items:
            if isinstance(item, Host):
                self._host(item)
            elif isinstance(item, tuple):
                self.decide(item[0], lambda k, bodies=item[1]: self._play(bodies[k]))
            else:
                item.replay()

    def _level(self, depth: int) -> torch.cuda.Stream:
        while len(self.levels) <= depth:
            self.levels.append(torch.cuda.Stream(self.memory.device))
        return self.levels[depth]

    def _warm(self) -> None:
        """Everything once, on the stream that it will be captured on: nothing is compiled or allocated in a capture.

        The memory has no content yet, on which a loop inside of a kernel might never end: their switch is off.
        """
        switches = [self.at(s.arguments[ACTIVE]) for s, _ in self.plan.walk() if isinstance(s, Run) and ACTIVE in s.arguments]  # fmt: skip
        for cell in switches:
            cell.fill_(False)
        for step, depth in self.plan.walk():
            if isinstance(step, (Run, Call, View)):
                stream = self._level(depth)
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    self.steps([step])
                torch.cuda.current_stream().wait_stream(stream)
        for cell in switches:
            cell.fill_(True)
        torch.cuda.synchronize()

    def _set(self, step: Set) -> None:
        if step.handle in self.handles:  # not that of a loop that the host runs
            self._write(self.handles[step.handle], setter.SET, step.cell)

    def _write(self, handle: driver.Handle, name: str, cell: Any) -> None:
        error = self.plan.error
        extra = self.at(error).data_ptr() if error is not None else 0
        handle.set(name, self.at(cell), extra, self._level(self.depth))

    def _conditional(self, step: Conditional) -> None:
        if step.kind == "switch":
            stream = self._level(self.depth)
            handle = driver.Handle(stream)
            handle.set(setter.SET_INDEX, self.at(step.cell), len(step.bodies) - 1, stream)
            self._node(handle, "switch", step.bodies)
            return
        names = [setter.SET, setter.INVERTED][: len(step.bodies)]
        handles = [driver.Handle(self._level(self.depth)) for _ in names]
        self.handles[step.handle] = handles[0]
        for handle, name in zip(handles, names):  # all before a body can change the condition
            self._write(handle, name, step.cell)
        for handle, body in zip(handles, step.bodies):
            self._node(handle, step.kind, [body])

    def _node(self, handle: driver.Handle, kind: str, bodies: Sequence[list[Step]]) -> None:
        graphs = handle.node(kind, len(bodies), self._level(self.depth))
        self.depth += 1
        for graph, body in zip(graphs, bodies):
            with driver.capturing_into(graph, self._level(self.depth)):
                self.steps(body)
        self.depth -= 1


def _needs(plan: Plan) -> tuple[int, int]:
    return driver.SWITCH if "switch" in plan.nodes() else driver.CONDITIONAL


# ---- the probe

_PROBE = """
probe(%n: i64[]@DEVICE) {{
  %0: i64[]@DEVICE, %1: i64[]@DEVICE = While(%n, 0, carried=2) {{
    cond(%2: i64[]@DEVICE, %3: i64[]@DEVICE) {{
      %4: bool[]@DEVICE = aten.gt.Scalar(%2, 0)
      return %4
    }}
    body(%5: i64[]@DEVICE, %6: i64[]@DEVICE) {{
      %7: i64[]@DEVICE = aten.sub.Tensor(%5, 1)
      %8: i64[]@DEVICE = aten.add.Tensor(%6, %5)
      return %7, %8
    }}
  }}
  return %1
}}
"""


def probe_plan(device: str) -> Plan:
    """A loop that adds the numbers from n down to 1, as a WHILE node."""
    return planner.plan(parse_graph(_PROBE.format().replace("DEVICE", device)), whole=False)


@functools.cache
def probed(device: str) -> str:
    """Why conditional nodes do not work on a device, from a tiny graph with a known answer; empty where they do."""
    try:
        made = Captured(probe_plan(device))
        found = [int(made.run(torch.tensor(n))[0]) for n in (5, 0, 3)]
    except (Unsupported, Failed, RuntimeError) as error:
        return str(error)
    except (TypeError, AttributeError) as error:
        return f"cuda-bindings of another version: {error}"
    return "" if found == [15, 0, 6] else f"a WHILE node gave {found} for [15, 0, 6]"
