"""The passes over a graph, in the order in which they run.

A pass is a function Graph -> Graph in a file of its own: a valid graph in, a valid graph out that means the same:
values, effects and their order, errors. ``optimize`` copies the graph first. Two variants: a program that torch's
autograd watches while it runs must not write into values that a backward pass may still need, so passes that
are ``inference`` only are left out of it.

With ``TOGRAPH_VERIFY=1`` the graph is verified before and after each pass; with ``TOGRAPH_NOOPT=1`` none runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ... import collector, settings, stacks
from ...errors import VerifyError
from ..graph.ir import Graph, nesting
from ..graph.ordering import set_control_inputs
from ..graph.rewrite import copied, count_nodes
from ..graph.text import show
from ..graph.verification import verify
from .accumulate import accumulate
from .cse import cse
from .fold import fold
from .fork import forked
from .forward import forward
from .hoist import hoist
from .inline import inline
from .lift_writes import lift, writes_inside
from .loop_state import loop_state
from .prune import prune
from .reinplace import reinplace
from .roll import roll
from .settle import has_try, settle, uncommit, unwrapped
from .simplify import simplify
from .sink import sink
from .skip_vectors import skip_vectors
from .write_through import write_through


class Pass(NamedTuple):
    """One entry of the list. ``does`` says in a few words what it is for."""

    run: Callable[[Graph], Graph]
    does: str
    inference: bool = False

    @property
    def name(self) -> str:
        return self.run.__name__


PASSES = [
    Pass(inline, "calls become the nodes of their functions"),
    Pass(settle, "a try that makes no difference is its body"),
    Pass(forward, "reads take what was last written; unseen writes go"),
    Pass(fold, "what is known is computed now"),
    Pass(cse, "what is computed twice is computed once"),
    Pass(simplify, "algebraic rules"),
    Pass(loop_state, "loops carry only what changes, once"),
    Pass(prune, "what nobody needs goes"),
    Pass(accumulate, "what a loop adds in one place of a sum is added there"),
    Pass(hoist, "what each iteration computes anew is computed before the loop"),
    Pass(cse, "what is computed twice is computed once"),
    Pass(sink, "what one branch uses is computed in it"),
    Pass(prune, "what nobody needs goes"),
    Pass(write_through, "updates of resources are written into them", inference=True),
    Pass(prune, "what nobody needs goes", inference=True),
    Pass(skip_vectors, "decompositions compute what is used", inference=True),
    Pass(reinplace, "updates write into memory that nothing else needs", inference=True),
]

FIRST = PASSES[:3]  # those after which writes can be lifted


class Step(NamedTuple):
    """What one pass did: the text of the graph after it, nodes before and after, and the time in seconds.

    ``summary`` leaves the time out: equal graphs have equal reports.
    """

    name: str
    does: str
    text: str
    before: int
    after: int
    seconds: float
    changed: bool

    @property
    def summary(self) -> str:
        """One line about the pass."""
        count = f"{self.before} nodes" + ("" if self.before == self.after else f" -> {self.after}")
        return f"after {self.name}, {count}: {self.does}"


def passes(inference: bool) -> list[Pass]:
    """The list for programs that autograd does not watch, or for those that it may."""
    return [p for p in PASSES if inference or not p.inference]


def optimize(graph: Graph, inference: bool) -> Graph:
    """An optimised copy of ``graph``; it may write into its own values only when ``inference`` is true."""
    return _run(passes(inference), graph)


def optimize_lifted(graph: Graph) -> Graph | None:
    """An optimised copy without a Try and in which no region writes, for a run that ends well; None of a graph that has neither, or keeps writes.

    The same as the passes, ``lifted`` and the passes again would give, for half of the time.
    """
    if not (has_try(graph) or writes_inside(graph)):
        return None
    with collector.seldom():
        made = lift(unwrapped(forked(uncommit(_run(FIRST, graph)))))
        return None if writes_inside(made) else _run_on(passes(inference=False), made)


def rolled(graph: Graph, watched: bool = False) -> Graph | None:
    """A copy of a graph with loops in the place of what repeats in it; None where nothing does. ``watched``: the gradient is to be taken of it."""
    with collector.seldom():
        made = roll(copied(graph), watched, saving=not watched)
        if (
            not watched and count_nodes(made) > len(graph.nodes) // 2
        ):  # what is kept is read node by node
            made = roll(copied(graph))
        if count_nodes(made) >= count_nodes(graph):
            return None
        set_control_inputs(made)
        return made


def write_in_place(graph: Graph) -> Graph:
    """What ``optimize(g, inference=True)`` makes of a ``g`` of which ``optimize(g, inference=False)`` made ``graph``."""
    return _run([p for p in PASSES if p.inference], graph)


def _run(steps: list[Pass], graph: Graph) -> Graph:
    with collector.seldom(), stacks.LIMIT.deep(nesting(graph)):
        return _run_on(steps, copied(graph))


def _run_on(steps: list[Pass], made: Graph) -> Graph:
    """The same on a graph that nobody else has."""
    if not settings.NOOPT:
        for step in steps:
            made = checked(step.run, made) if settings.VERIFY else step.run(made)
    set_control_inputs(made)
    return made


def checked(run: Callable[[Graph], Graph], graph: Graph) -> Graph:
    """``run(graph)``, verified before and after; VerifyError names the pass that broke the graph."""
    verify(graph)
    made = run(graph)
    try:
        verify(made)
    except VerifyError as error:
        raise VerifyError(f"after {run.__name__}: {error}") from error
    return made


def report(graph: Graph, every: bool = False) -> str:
    """The text of the graph as traced and after each pass that changed it (``every``: after each pass)."""
    if settings.NOOPT:
        return f"# TOGRAPH_NOOPT is set: no passes\n{show(graph)}"
    parts = [f"# as traced, {count_nodes(graph)} nodes\n{show(copied(graph))}"]
    idle: list[str] = []
    for step in trace(graph):
        if step.changed or every:
            parts.append(f"# {step.summary}\n{step.text}")
        else:
            idle.append(step.name)
    if idle:
        parts.append(f"# no change by: {', '.join(dict.fromkeys(idle))}")
    return "\n\n".join(parts)


def trace(graph: Graph, inference: bool = True) -> Iterable[Step]:
    """What each pass does to a copy of ``graph``, one after the other."""
    made = copied(graph)
    before, text = count_nodes(made), show(made)
    for step in passes(inference):
        start = time.perf_counter()
        made = checked(step.run, made)
        seconds = time.perf_counter() - start
        old, text = text, show(made)
        after = count_nodes(made)
        yield Step(step.name, step.does, text, before, after, seconds, text != old)
        before = after
