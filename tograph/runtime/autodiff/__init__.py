"""Gradients of graphs. See ``connect`` for how ops with regions get theirs, ``joint`` for graphs, ``vjp`` for the transform.

Modules, lowest first: objects, rules, dependence, cut, connect, replay, joint, graphs, paths, routes, alternatives, checkpoint,
loops, earlier, vjp, pairs, inside.
"""

from .alternatives import alternatives
from .dependence import reached
from .earlier import expand
from .inside import ways
from .loops import loop
from .pairs import Differentiable, refusing, supported
from .vjp import Pullback, vjp

__all__ = [
    "Differentiable",
    "Pullback",
    "alternatives",
    "expand",
    "loop",
    "reached",
    "refusing",
    "supported",
    "vjp",
    "ways",
]
