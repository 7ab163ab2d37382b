"""What is surely false, and the most that a whole number can be, by the nodes that a value is computed from: through branches, and out of regions.

Unlike ``limits`` this follows the text of the program (``min(n, 3)`` is a branch), and knows nothing of what was asked before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import _disable_current_modes

from ..graph.families import CONJUNCTIONS, MIRRORED, NEGATIONS, SUMS, TRUTHS
from ..graph.ir import Node, Value
from ..graph.rewrite import lead
from .funcgraph import FuncGraph
from .known import UNKNOWN, known

_PASSED = ("aten.detach.default", "aten.alias.default", "aten.clone.default", "tg.written", "tg.identity")  # fmt: skip
# What makes a number, or a tensor of one, of its arguments.
_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "py.constant": lambda args: args[0],
    "tg.constant": lambda args: args[0],
    "aten.zeros.default": lambda args: 0,
    "aten.ones.default": lambda args: 1,
    "aten.full.default": lambda args: args[1],
}
_EXACT = 100  # whole numbers that every type of tensors has


def _whole(x: Any) -> int | None:
    """A number as a whole one, where it is."""
    if type(x) not in (int, float) or not -_EXACT < x < _EXACT or int(x) != x:
        return None
    return int(x)


def _all(found: list[int | None], join: Callable[[list[int]], int]) -> int | None:
    known_ = [n for n in found if n is not None]
    return join(known_) if len(known_) == len(found) else None


class Bounds:
    """As seen from a graph that is being recorded."""

    def __init__(self, graph: FuncGraph):
        # Inputs of regions and second reads of a tensor, and what they stand for.
        self.outer: dict[Value, Any] = dict(graph.root.reread)
        here: FuncGraph | None = graph
        while here is not None:
            self.outer.update((v, k) for k, v in here.captures.items() if isinstance(k, Value))
            here = here.outer

    def never(self, x: Any) -> bool:
        """Whether a condition is false in every run."""
        x = self._origin(x)
        if not isinstance(x, Value):
            return not x
        if (found := known(x)) is not UNKNOWN:
            with _disable_current_modes():
                return not found
        node = x.node
        if node is None:
            return False
        if node.op in TRUTHS:
            return self.never(node.args[0])
        if node.op in CONJUNCTIONS:
            return any(map(self.never, node.args))
        if node.op == "If":
            return all(self.never(v) or (not holds and v is self._origin(node.args[0])) for holds, v in self._ends(x))  # fmt: skip
        return self._too_large(node)

    def most(self, x: Any) -> int | None:
        """The most that a number can be, if that is known."""
        x = self._origin(x)
        if not isinstance(x, Value):
            return x if type(x) is int else None
        node = x.node
        if node is None:
            return None
        if node.op == "If":
            found = [self._on_path(node, holds, v) for holds, v in self._ends(x)]
            return None if None in found else max(n for n in found if n is not None)
        args = node.args
        if node.op in (*TRUTHS, "py.constant"):
            return self.most(args[0])
        if node.op == "py.range_length":
            return self.most(args[1]) if (args[0], args[2]) == (0, 1) else None
        if node.op in ("aten.clamp.default", "aten.clamp_max.default"):
            return self.most(args[-1]) if len(args) > 1 else None
        if node.op in ("py.min", "aten.minimum.default"):
            return min((n for n in map(self.most, args) if n is not None), default=None)
        return None

    def least(self, x: Any) -> int | None:
        """The least that a whole number, or a tensor of one such, can be, if that is known: a counter, from a constant on."""
        x = self._origin(x)
        if not isinstance(x, Value):
            return _whole(x)
        if x.node is None:
            return None
        op, args = x.node.op, x.node.args
        if op == "If":
            return _all([self.least(v) for _, v in self._ends(x)], min)
        if op in _NUMBERS:
            return _whole(_NUMBERS[op](args))
        if op in (*TRUTHS, *_PASSED):
            return self.least(args[0])
        if op in SUMS and x.node.kwargs.get("alpha", 1) == 1 and len(args) == 2:
            return _all([self.least(a) for a in args], sum)
        return None

    def _origin(self, x: Any) -> Any:
        while isinstance(x, Value) and x in self.outer:
            x = self.outer[x]
        return x

    def _ends(self, x: Value) -> list[tuple[bool, Any]]:
        """What the branches of an ``If`` give for one of its outputs."""
        node = x.node
        assert node is not None
        for region in node.regions.values():
            self.outer.update(zip(region.inputs, node.args[lead(node) :]))
        return [(name == "then", self._origin(r.outputs[x.index])) for name, r in node.regions.items()]  # fmt: skip

    def _on_path(self, node: Node, holds: bool, x: Any) -> int | None:
        """The most that what a branch gives can be there."""
        found, by = self.most(x), self._by(node.args[0], holds, x)
        return by if found is None else found

    def _by(self, condition: Any, holds: bool, x: Any) -> int | None:
        """The most that a number can be where a condition holds, or does not."""
        condition = self._origin(condition)
        node = condition.node if isinstance(condition, Value) else None
        if node is None:
            return None
        if node.op in TRUTHS:
            return self._by(node.args[0], holds, x)
        if node.op in NEGATIONS:
            return self._by(node.args[0], not holds, x)
        found = self._compared(node)
        if found is None or self._core(found[1]) is not self._core(x):
            return None
        name, _, n = found
        return {("gt", False): n, ("ge", False): n - 1, ("lt", True): n - 1, ("le", True): n}.get((name, holds))  # fmt: skip

    def _too_large(self, node: Node) -> bool:
        """Whether a comparison asks for more than a number can be, or less."""
        found = self._compared(node)
        if found is None:
            return False
        name, x, n = found
        if name in ("lt", "le"):
            least = self.least(x)
            return least is not None and least >= n + (name == "le")
        most = self.most(x)
        return most is not None and most < n + (name == "gt")

    def _compared(self, node: Node) -> tuple[str, Any, int] | None:
        """(comparison, number, constant) of a node that compares so."""
        name = node.op.split(".")[1] if node.op.startswith(("py.", "aten.")) else ""
        if name not in MIRRORED or len(node.args) != 2:
            return None
        a, b = map(self._origin, node.args)
        if type(b) is int:
            return name, a, b
        return (MIRRORED[name], b, a) if type(a) is int else None

    def _core(self, x: Any) -> Any:
        """The value that a number is another kind of."""
        x = self._origin(x)
        while isinstance(x, Value) and x.node is not None and x.node.op in TRUTHS:
            x = self._origin(x.node.args[0])
        return x
