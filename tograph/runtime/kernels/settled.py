"""Whether the elements of a loop that runs block by block stay as they are when their mask is false: see ``triton_loops``.

A block ends when no mask of its elements is true, while others go on. That means what the loop means if an element whose mask is false would stay
as it is, its mask too. Mostly that is how such loops are written (``z = where(active, step(z), z)``); then nothing has to be checked when it runs.

The proof takes one element. Its state is a name for each part; what the body makes of it is an expression, in which the mask is False, so that
``where`` gives its third argument. A part is settled where that is its own name again. The mask is, where it is False again; or where
it is computed of what the other parts end as (``active = abs(z) < 2`` behind the new ``z``): as these are settled it is what the iteration before
has computed, which was False. Before the first iteration nothing was computed, so that the mask has to begin as True.
"""

from __future__ import annotations

from typing import Any

from ..graph.families import ZEROS
from ..graph.ir import Graph, Node, Value
from ..graph.types import ScalarType
from .loop_formulas import dtype_of, size_of
from .loop_ir import FLOATS

Known = dict[Value, Any]
FALSE, TRUE = ("const", False), ("const", True)
_SAME = frozenset(f"aten.{n}" for n in ["view.default", "_unsafe_view.default", "reshape.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default", "alias.default", "detach.default", "clone.default"]) | {"tg.identity"}  # fmt: skip
_AND = ("aten.bitwise_and.Tensor", "aten.logical_and.default", "aten.mul.Tensor")
_OR = ("aten.bitwise_or.Tensor", "aten.logical_or.default")
_NOT = ("aten.logical_not.default", "aten.bitwise_not.default")
_ONES = ("aten.ones_like.default", "aten.ones.default")


def settled(loop: Node) -> bool:
    """Whether that is so for a ``While`` whose condition is ``any`` of a part of its state, and others on numbers."""
    body, carried = loop.regions["body"], loop.kwargs["carried"]
    mask = _mask(loop.regions["cond"], carried)
    if mask is None:
        return False
    parts = [j for j in range(carried) if size_of(body.inputs[j]) > 1]
    return _Proof(loop, body, mask, parts).holds()


def _mask(cond: Graph, carried: int) -> int | None:
    """The number of the part of the state that the condition asks for; None where it asks for something else."""
    asked = {n.args[0] for n in cond.nodes if n.op == "aten.any.default"}
    if len(asked) != 1 or any(n.regions for n in cond.nodes):
        return None
    (value,) = asked
    return next((j for j, v in enumerate(cond.inputs[:carried]) if v is value), None)


class _Proof:
    def __init__(self, loop: Node, body: Graph, mask: int, parts: list[int]):
        self.loop, self.body, self.mask, self.parts = loop, body, mask, parts
        self.start: Known = {v: ("state", j) for j, v in enumerate(body.inputs)}

    def holds(self) -> bool:
        if dtype_of(self.body.inputs[self.mask]) != "bool":
            return False
        known = self.start | {self.body.inputs[self.mask]: FALSE}
        if self._of(self.mask, known) != FALSE:
            rest = {j for j in self.parts if j != self.mask and self._stays(j, known)}
            if not self._follows(rest):
                return False
            known[self.body.outputs[self.mask]] = FALSE
        return all(j == self.mask or self._stays(j, known) for j in self.parts)

    def _of(self, j: int, known: Known) -> Any:
        return expression(self.body.outputs[j], dict(known))

    def _stays(self, j: int, known: Known) -> bool:
        found, own = self._of(j, known), ("state", j)
        if found == own:
            return True
        added = found in ((_ADD, own, ("const", 0)), (_ADD, ("const", 0), own))
        return added and (dtype_of(self.body.inputs[j]) not in FLOATS or self._no_negative_zero(j))

    def _follows(self, rest: set[int]) -> bool:
        """Whether the mask is computed of what settled parts end as, and is True before the first iteration."""
        known: Known = {v: ("other", v) for v in self.body.inputs[self.loop.kwargs["carried"] :]}
        known |= {self.body.outputs[j]: ("state", j) for j in rest}
        first = self.loop.args[self.mask]
        found = expression(self.body.outputs[self.mask], known)
        return found is not None and isinstance(first, Value) and _filled(first) is True

    def _no_negative_zero(self, j: int) -> bool:
        """Whether a part, to which a 0 is added, never is -0.0, which would become 0.0: it begins as 0 and truths are added."""
        first, node = self.loop.args[j], self.body.outputs[j].node
        if not isinstance(first, Value) or _filled(first) != 0 or node is None or node.op != _ADD:
            return False
        return any(_truth(a) for a in node.args)


_ADD = "aten.add.Tensor"


def _truth(a: Any) -> bool:
    """Whether a value is a truth as a number."""
    node = a.node if isinstance(a, Value) else None
    return node is not None and node.op == "aten._to_copy.default" and dtype_of(node.args[0]) == "bool"  # fmt: skip


def _filled(v: Value) -> Any:
    """What all elements of a value are."""
    node = v.node
    if node is None:
        return None
    if node.op in _ONES:
        return True if dtype_of(v) == "bool" else 1
    if node.op in ZEROS:
        return False if dtype_of(v) == "bool" else 0
    filled = node.op in ("aten.full.default", "aten.full_like.default")
    if not filled or isinstance(node.args[1], Value) or str(node.args[1]) == "-0.0":
        return None
    return bool(node.args[1]) if dtype_of(v) == "bool" else node.args[1]


def expression(value: Any, known: Known) -> Any:
    """One element of a value as nested tuples, of what is known; None where something is not."""
    waiting = [value]
    while waiting:
        v = waiting[-1]
        if not isinstance(v, Value) or v in known:
            waiting.pop()
            continue
        node = v.node
        if node is None or node.regions or len(node.outputs) != 1 or node.control_inputs:
            known[v] = None
            continue
        missing = [a for a in node.inputs if a not in known]
        if missing:
            waiting += missing
            continue
        known[v] = _element(node, known)
    return known[value] if isinstance(value, Value) else ("const", value)


def _element(node: Node, known: Known) -> Any:
    args = tuple(known[a] if isinstance(a, Value) else ("const", a) for a in node.args if not isinstance(a, (list, tuple)))  # fmt: skip
    if None in args or any(isinstance(a, Value) for a in node.kwargs.values()):
        return None
    if node.op in _SAME:
        return args[0]
    if node.op == "aten.where.self" and args[0] in (FALSE, TRUE):
        return args[1] if args[0] == TRUE else args[2]
    if isinstance(node.outputs[0].type, ScalarType) or any(isinstance(a, (list, tuple)) for a in node.args):  # fmt: skip
        return None
    truths = all(dtype_of(v) == "bool" for v in (*node.inputs, *node.outputs))
    if truths and node.op in _AND and FALSE in args:
        return FALSE
    if truths and node.op in _OR and FALSE in args:
        return args[1 - args.index(FALSE)]
    if truths and node.op in _NOT and args[0] in (FALSE, TRUE):
        return TRUE if args[0] == FALSE else FALSE
    if node.op == "aten._to_copy.default" and args[0] == FALSE:
        return ("const", 0)
    options = tuple(sorted((k, str(v)) for k, v in node.kwargs.items()))
    return (node.op, *args, options) if options else (node.op, *args)
