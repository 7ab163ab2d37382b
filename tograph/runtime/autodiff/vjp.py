"""The vector-Jacobian product of a graph: ``Graph -> Graph``, from the graph alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..graph.ir import Graph
from ..graph.ordering import set_control_inputs
from ..symbols.carrier import differentiable
from .joint import differentiate
from .parting import part


@dataclass(frozen=True)
class Pullback:
    """A graph and its gradient.

    ``forward``: inputs -> outputs + saved values. ``backward``: the inputs ``kept``, the saved values, a cotangent for each
    output of ``given`` -> a cotangent for each input of ``present``. An output that is not in ``given`` and an input that is not
    in ``present`` have no gradient: nothing differentiable connects them. ``saves``: the outputs whose gradient frees something in eager PyTorch.
    """

    forward: Graph
    backward: Graph
    kept: list[int]
    given: list[int]
    present: list[int]
    saves: frozenset[int]


def vjp(
    graph: Graph, wrt: Sequence[int], given: Sequence[int] | None = None, again: bool = False
) -> Pullback:
    """The gradient of ``graph`` with respect to the inputs ``wrt`` (all differentiable outputs, or those ``given``).

    Works on any graph, also one that was read from its text; both results are graphs. ``again``: the backward graph is to be
    differentiated too, as a function of all its inputs, together with the forward one.

    Example: ``p = vjp(tg.parse_graph(text), [0])``
    """
    wrt = [i for i in wrt if differentiable(graph.inputs[i].type)]
    outputs = range(len(graph.outputs)) if given is None else given
    p = part(differentiate(graph, wrt, list(outputs), again=again), outside=not again)
    for made in (p.forward, p.backward):
        set_control_inputs(made)
    present = [wrt[k] for k in p.present]
    return Pullback(p.forward, p.backward, p.kept, p.given, present, p.saves)
