"""How calls of a graph run whose tensors require gradients, as one function of torch's autograd.

Where nothing that leaves depends on such a tensor (what ``no_grad`` and ``detach`` are for) a call runs as if none required any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch

from ... import settings
from .. import autodiff, passes
from ..gradients import transforms
from ..graph.families import ALTERNATIVES
from ..graph.ir import Graph
from ..graph.ordering import graph_effects, prune
from ..graph.rewrite import copied
from ..kernels.lower import lower
from ..native.leaving import Leaving
from ..passes.settle import has_try, settle
from ..recording.variables import PLAIN
from ..symbols.carrier import differentiable
from . import host, scheduler

LONG = (
    200  # nodes from which on what repeats in a graph becomes a loop before its gradient is taken
)


class GradientCalls:
    """What is known of a graph by the first call that asks."""

    def __init__(self, graph: Graph, made: Sequence[autodiff.Made] = ()):
        """``made``: leaves that are among the results."""
        self.graph, self.made = graph, made
        # The inputs that required a gradient in the last call, where all such calls are the same (``autodiff.direct``).
        self.joined: tuple[int, ...] = ()
        self._programs: list[scheduler.Program] = []

    @property
    def on_host(self) -> bool:
        """Whether something of that runs op by op for want of native code."""
        return any(p.on_host for p in self._programs)

    def run(self, inputs: Sequence[Any], plain: Callable[..., list[Any]]) -> list[Any] | None:
        """The outputs; None where no input requires a gradient, or the gradient has to be that of the host program.

        ``plain`` runs the graph for tensors that require none.
        """
        asked = [i for i in self._leaves if inputs[i].requires_grad]
        if self.returns_leaves and self._supported and self._follows and not transforms.active():
            return self._run_returned(inputs, asked)
        if not asked:
            return None
        if self._unreached(inputs, asked):
            return self._run_unreached(inputs, asked, plain)
        if transforms.active() or not self._supported:
            return None
        return self._run_differentiable(inputs, tuple(asked))

    @cached_property
    def _leaves(self) -> list[int]:
        return [i for i, v in enumerate(self.graph.inputs) if differentiable(v.type)]

    @cached_property
    def _settled_graph(self) -> Graph:
        """The graph without a ``try`` that makes no difference, such as that around the step of an optimiser."""
        return settle(copied(self.graph)) if has_try(self.graph) else self.graph

    # ---- leaves that are made and returned

    @cached_property
    def returns_leaves(self) -> bool:
        """Whether other results depend on such leaves."""
        return bool(self.made and self._returned.made)

    @cached_property
    def _returned(self) -> autodiff.ReturnedLeaves:
        return autodiff.ReturnedLeaves(self._settled_graph, self.made)

    @cached_property
    def _returning(self) -> autodiff.Differentiable:
        return autodiff.Differentiable(
            _short(self._returned.graph), self._build, made=self._returned.first
        )

    def _run_returned(self, inputs: Sequence[Any], asked: list[int]) -> list[Any]:
        leaves, first = self._returned.new(), self._returned.first
        taken = (*asked, *range(first, first + len(leaves)))
        outputs = self._returning.run([*inputs, *leaves], taken)
        return self._returned.fill(outputs, leaves)

    # ---- nothing to differentiate

    @cached_property
    def _reached(self) -> frozenset[int] | None:
        """The inputs that a result, or what a variable becomes, may depend on as autograd sees it; None where that is not known."""
        return autodiff.reached(self._settled_graph)

    def _unreached(self, inputs: Sequence[Any], asked: list[int]) -> bool:
        """Whether nothing that leaves has a gradient."""
        if self._reached is None or not self._reached.isdisjoint(asked):
            return False
        return all(type(x) in PLAIN for x in inputs if isinstance(x, torch.Tensor)) and not transforms.active()  # fmt: skip

    def _run_unreached(
        self, inputs: Sequence[Any], asked: list[int], plain: Callable[..., list[Any]]
    ) -> list[Any]:
        ended, program = self._ended
        with torch.no_grad():
            found = plain(*inputs) if program is None else program.run(*inputs)
        if not ended.places:
            return found
        count = len(self.graph.outputs)
        return ended.refusing(list(found[:count]), {i: inputs[i] for i in asked}, found[count:])

    @cached_property
    def _ended(self) -> tuple[autodiff.Ended, scheduler.Program | None]:
        """The results whose gradient the function took itself, and the program that tells of them; None where there is nothing to tell."""
        ended = autodiff.Ended(self._settled_graph)
        if not (ended.places and self._supported):
            return ended, None
        graph = copied(self._settled_graph, ordered=True)
        ended.tell(graph, self._leaves)
        if not ended.told:
            return ended, None
        graph.outputs = graph.outputs + ended.told
        return ended, self._build(graph, len(self.graph.outputs))

    # ---- a forward graph that keeps what the gradient needs

    @cached_property
    def _supported(self) -> bool:
        return autodiff.supported(self._settled_graph)

    @cached_property
    def differentiable(self) -> autodiff.Differentiable:
        return autodiff.Differentiable(_short(self._settled_graph), self._build)

    def _run_differentiable(
        self, inputs: Sequence[Any], asked: tuple[int, ...]
    ) -> list[Any] | None:
        rewrites, self.joined = self._rewrites, ()
        if rewrites is not None and not rewrites.whole and not rewrites.keeps(inputs):
            return None
        changed = rewrites.changed(inputs) if rewrites is not None and rewrites.whole else ()
        if changed:
            assert rewrites is not None
            return rewrites.run(self._rewriting.run, inputs, changed)
        outputs = self.differentiable.run(inputs, asked)
        if self.differentiable.pair(asked).goes_directly:  # what it writes requires no gradient
            self.joined = asked
        return outputs

    @cached_property
    def _rewrites(self) -> autodiff.Rewrites | None:
        """What gets a history by being written; None where nothing does."""
        if not graph_effects(self._settled_graph).writes:
            return None
        found = autodiff.Rewrites(self._settled_graph)
        return found if found.places else None

    @cached_property
    def _follows(self) -> bool:
        """Whether it is known what history everything has that regions write."""
        return self._rewrites is None or self._rewrites.whole

    @cached_property
    def _rewriting(self) -> autodiff.Differentiable:
        assert self._rewrites is not None
        return autodiff.Differentiable(_short(self._rewrites.graph), self._build)

    def _build(self, graph: Graph, visible: int | None = None) -> scheduler.Program:
        """The program of a graph that autograd does not see; see ``scheduler.build``."""
        values = functools.cache(lambda: passes.optimize(graph, inference=False))

        def program() -> host.Program:
            return host.build(lower(passes.write_in_place(values()), host.build)[0])

        made = scheduler.build(graph, values, program, Leaving(visible))
        self._programs.append(made)
        return made


def _short(graph: Graph) -> Graph:
    """The graph, or one that gives the same with loops for what repeats in it: the gradient of a loop is a loop, and not as many nodes again for each iteration.

    Where branches leave values unused there would be zeros for None in what the loop carries.
    """
    if settings.NOOPT or len(graph.nodes) < LONG or any(n.op in ALTERNATIVES for n in graph.nodes):
        return graph
    made = copied(graph)
    prune(made)  # what is left of each copy is used
    return passes.rolled(made, watched=True) or graph
