"""How often a loop runs at most, where it counts to a bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.counting import stays, step_of
from ..graph.families import CONJUNCTIONS
from ..graph.ir import Node, Value
from ..graph.types import INT
from .expansion import Expansion

_PARTED = (
    *CONJUNCTIONS,
    "aten.scalar_tensor.default",
    "py.bool",
)  # true where all they are given are


def trips(node: Node) -> int | Callable[[Expansion], Any] | None:
    """The trips at most: a number, or a function that emits it; None for a loop that does not count.

    It counts where its condition has ``i < bound`` (``i > bound``) as one of its conjuncts, the bound stays, and each
    iteration adds a positive constant to ``i`` (takes it away).
    """
    cond = node.regions["cond"]
    return _bound(node, cond.outputs[0], {v: i for i, v in enumerate(cond.inputs)})


def _bound(node: Node, test: Value, place: dict[Value, int]) -> int | Callable[[Expansion], Any] | None:  # fmt: skip
    made = test.node
    if made is None:
        return None
    parts = []
    if made.op in _PARTED:
        parts = [(v, place) for v in made.inputs]
    elif made.op == "If" and _constant(made.regions["orelse"].outputs[test.index]) is False:
        then = made.regions["then"]
        inner = {v: place[a] for v, a in zip(then.inputs, made.args[1:]) if a in place}
        parts = [(made.args[0], place), (then.outputs[test.index], inner)]
    elif made.op in ("py.lt", "py.gt"):
        return _counter(node, made, place)
    found = (_bound(node, v, known) for v, known in parts if isinstance(v, Value))
    return next((b for b in found if b is not None), None)


def _counter(node: Node, test: Node, place: dict[Value, int]) -> int | Callable[[Expansion], Any] | None:  # fmt: skip
    i, bound = place.get(test.args[0], -1), test.args[1]
    step = step_of(node, i)
    if isinstance(bound, Value):
        at = place.get(bound, -1)
        if not stays(node, at):
            return None
        bound = node.args[at]
    if not step or (step > 0) != (test.op == "py.lt"):
        return None
    start, bound = _constant(node.args[i]), _constant(bound)
    if isinstance(start, int) and isinstance(bound, int):
        return len(range(start, bound, step))

    def emit(e: Expansion) -> Any:
        ends = [e.parts[x][0] if isinstance(x, Value) else x for x in (start, bound)]
        return e.emit("py.range_length", *ends, step, type=INT)

    return emit


def _constant(x: Any) -> Any:
    while isinstance(x, Value) and x.node is not None and x.node.op == "py.constant":
        x = x.node.args[0]
    return x
