"""Effects that a user leaves out of a form for another system, in so many words."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import InvalidArgumentError
from ..graph.ir import Graph
from ..graph.rewrite import map_graphs

KINDS = {
    "prints": frozenset({"tg.print"}),
    "checks": frozenset({"tg.assert", "tg.raise", "tg.reraise"}),
}


def without(graph: Graph, leave_out: Sequence[str]) -> Graph:
    """``graph`` without prints (``"prints"``), or without assertions and raised exceptions (``"checks"``).

    Raises InvalidArgumentError for another word.
    """
    if isinstance(leave_out, str):
        leave_out = (leave_out,)
    for word in leave_out:
        if word not in KINDS:
            raise InvalidArgumentError(
                f"leave_out is any of {', '.join(map(repr, KINDS))}, not {word!r}"
            )
    gone = frozenset().union(*(KINDS[word] for word in leave_out))

    def drop(g: Graph) -> None:
        g.nodes = [n for n in g.nodes if n.op not in gone]

    map_graphs(graph, drop)
    return graph


def advice(op: str) -> str:
    """How to go on without an op, where it may be left out."""
    found = [word for word, ops in KINDS.items() if op in ops]
    return f"leave_out={found} leaves it out." if found else ""
