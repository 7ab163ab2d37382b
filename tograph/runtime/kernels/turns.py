"""Positions in a dim that is turned in a circle (``roll``): one expression where it is written, two runs of elements where it is read.

Element ``i`` of a dim of ``n`` that is turned by ``turn`` is element ``i + n - turn`` where ``i < turn``, else ``i - turn``.
"""

from __future__ import annotations

from .exprs import Term
from .loop_ir import Affine, Expr


def turned(here: Term, turn: int, n: int) -> Term:
    """Where the element of position ``here`` comes from; ``0 < turn < n``."""
    return (here < turn).where(here + (n - turn), here - turn)


def runs(e: Expr) -> tuple[Affine, int, int, int] | None:
    """(position, ``turn``, what the position is raised by below ``turn``, and from there on) of an expression of ``turned``."""
    if e.op != "select":
        return None
    below, first, second = e.args
    if (below.op, first.op, second.op) != ("lt", "add", "sub"):
        return None
    here, turn, raised = below.args[0], below.args[1], first.args[1]
    one_place = first.args[0] is here and second.args[0] is here and second.args[1] is turn
    if not one_place or here.op != "index" or turn.op != "const" or raised.op != "const":
        return None
    assert here.address is not None and type(turn.value) is int and type(raised.value) is int
    return here.address, turn.value, raised.value, -turn.value
