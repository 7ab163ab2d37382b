"""Gradients of graphs. See ``connect`` for how ops with regions get theirs, ``joint`` for graphs, ``vjp`` for the transform.

Modules, lowest first: objects, rules, dependence, cut, connect, replay, joint, graphs, paths, routes, alternatives, checkpoint,
loops, earlier, vjp, pairs, inside, rewritten.
"""

from .alternatives import alternatives
from .dependence import reached
from .earlier import expand
from .inside import ways
from .loops import loop
from .pairs import Differentiable, refusing, supported
from .rewritten import Rewrites, give_history
from .vjp import Pullback, vjp

__all__ = [
    "Differentiable",
    "Pullback",
    "Rewrites",
    "alternatives",
    "expand",
    "give_history",
    "loop",
    "reached",
    "refusing",
    "supported",
    "vjp",
    "ways",
]
