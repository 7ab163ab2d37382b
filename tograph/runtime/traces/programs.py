"""The graphs and programs of one trace: each is made when a call first needs it."""

from __future__ import annotations

from functools import cached_property

from .. import passes
from ..execution import host, probes, scheduler
from ..gradients.watching import keeps_histories
from ..graph.ir import Graph
from ..graph.rewrite import ordered_copy
from ..kernels.kernel import Kernel
from ..kernels.lower import Fused, lower
from ..native.leaving import Leaving
from .identities import Identities


class Programs:
    """What runs a graph, by what a call needs. ``identities``: which outputs are tensors of the caller's."""

    def __init__(self, name: str, graph: Graph):
        self.name, self.graph = name, graph
        self.identities = Identities(graph.outputs)
        self._fused: list[Fused] = []

    @cached_property
    def optimized_graph(self) -> Graph:
        """What the passes make of the graph, for calls that need no gradient. ``graph`` stays as it was traced."""
        return passes.write_in_place(self._passed)

    @cached_property
    def _left(self) -> Graph:
        """The graph as such calls run it."""
        return self.identities.left(self.graph)

    @cached_property
    def _passed(self) -> Graph:
        """What the passes make of that."""
        left = self._left
        return self.watched_graph if left is self.graph else passes.optimize(left, inference=False)

    @cached_property
    def program(self) -> host.Program:
        """The program for calls that need no gradient: its regions are kernels."""
        lowered, self._fused = lower(self.optimized_graph, host.build)
        return host.build(lowered)

    @cached_property
    def scheduled(self) -> scheduler.Program:
        """How a call without gradients runs: ``level``, ``reason``, ``llvm``."""
        told = Leaving(told=self.identities.told)
        return scheduler.build(self._left, lambda: self._passed, lambda: self.program, told)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels that calls have compiled so far: each with ``name``, ``llvm``, ``loops`` and ``lines``."""
        return [*self.scheduled.kernels, *(k for fused in self._fused for k in fused.kernels)]

    @cached_property
    def watched_graph(self) -> Graph:
        """What the passes make of the graph, for calls that autograd differentiates while they run."""
        return passes.optimize(self.graph, inference=False)

    @cached_property
    def value_graph(self) -> Graph:
        """The same of the values alone: what runs where no call waits to learn which tensors are the caller's."""
        values = self._values
        return (
            self.watched_graph if values is self.graph else passes.optimize(values, inference=False)
        )

    @cached_property
    def watched_program(self) -> host.Program:
        """The program for such calls: it keeps every value."""
        return host.build(self._with_histories)

    @cached_property
    def _with_histories(self) -> Graph:
        """What autograd goes through."""
        return ordered_copy(self.graph) if keeps_histories(self.graph) else self.watched_graph

    @cached_property
    def _transformed(self) -> Graph:
        """What transforms go through: there a condition has an answer for each example, and no index is a number."""
        return ordered_copy(self._values) if keeps_histories(self.graph) else self.value_graph

    @cached_property
    def _values(self) -> Graph:
        """The graph of the values alone, for systems that give each result a tensor of its own."""
        return self.identities.values(self.graph)

    @cached_property
    def _ranges(self) -> probes.Probed:
        return probes.Probed(self.optimized_graph, probes.Ranges)

    @property
    def host_code(self) -> str:
        """The generated host program."""
        return self.program.source
