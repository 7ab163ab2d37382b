"""Gradients of graphs. See ``connect`` for how ops with regions get theirs, ``joint`` for graphs, ``vjp`` for the transform.

Modules, lowest first: objects, rules, dependence, cut, connect, replay, joint, graphs, alternatives, checkpoint, loops, vjp,
pairs.
"""

from .alternatives import alternatives
from .loops import loop
from .pairs import Differentiable, supported
from .vjp import Pullback, vjp

__all__ = ["Differentiable", "Pullback", "alternatives", "loop", "supported", "vjp"]
