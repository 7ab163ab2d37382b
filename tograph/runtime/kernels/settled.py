"""Whether the elements of a loop that runs block by block stay as they are when their mask is false: see ``loop_blocks``.

A block ends when no mask of its elements is true, while others go on. That means what the loop means if an element whose mask is false would stay
as it is, its mask too. Mostly that is how such loops are written (``z = where(active, step(z), z)``); then nothing has to be checked when it runs.

The proof takes one element. Its state is a name for each part; what the body makes of it is an expression, in which the mask, and what else follows from
it, is a constant, so that ``where`` gives its third argument. A part is settled where that is its own name again. So is a mask that is part of the state where it is
False again; or where it is computed of what the other parts end as (``active = abs(z) < 2`` behind the new ``z``): as these are settled it is what the iteration before
has computed, which was False. Before the first iteration nothing was computed, so that the mask has to begin as True. A mask that the condition
computes (``(x > 1).any()``) stays what it is with the parts that it is computed of, which may be no numbers that change.
"""

from __future__ import annotations

from typing import Any

from ..graph.families import OPPOSITE, RELATIONS, ZEROS
from ..graph.ir import Graph, Node, Value
from ..graph.types import ScalarType
from .loop_blocks import Blocks, passed
from .loop_formulas import dtype_of, size_of
from .loop_ir import FLOATS

Known = dict[Value, Any]
Facts = dict[Any, Any]  # what expressions are when the mask is false
FALSE, TRUE = ("const", False), ("const", True)
_SAME = frozenset(f"aten.{n}" for n in ["view.default", "_unsafe_view.default", "reshape.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default", "alias.default", "detach.default", "clone.default"]) | {"tg.identity"}  # fmt: skip
_AND, _OR, _NOT = "and", "or", "not"
_TRUTHS = {
    **dict.fromkeys(("aten.bitwise_and.Tensor", "aten.logical_and.default", "aten.mul.Tensor"), _AND),
    **dict.fromkeys(("aten.bitwise_or.Tensor", "aten.logical_or.default"), _OR),
    **dict.fromkeys(("aten.logical_not.default", "aten.bitwise_not.default"), _NOT),
}  # fmt: skip
_ONES = ("aten.ones_like.default", "aten.ones.default")


def settled(loop: Node, blocks: Blocks) -> bool:
    """Whether that is so for a ``While`` that is ``independent``."""
    return blocks.mask is None or _Proof(loop, blocks).holds()


def _implied(found: Any, truth: bool) -> Facts:
    """What is known where an expression is ``truth``: of itself and of its parts."""
    facts, waiting = {}, [(found, truth)]
    while waiting:
        e, truth = waiting.pop()
        facts[e] = TRUE if truth else FALSE
        if e[0] == _NOT:
            waiting.append((e[1], not truth))
        elif e[0] == (_AND if truth else _OR):
            waiting += [(a, truth) for a in e[1:]]
        elif truth and e[0] in RELATIONS:  # of a NaN all relations are false
            word = RELATIONS[e[0]]
            facts[(e[0].replace(f".{word}.", f".{OPPOSITE[word]}."), *e[1:])] = FALSE
    return facts


class _Proof:
    def __init__(self, loop: Node, blocks: Blocks):
        self.loop, self.body, self.carried = loop, loop.regions["body"], loop.kwargs["carried"]
        self.parts = [j for j in range(self.carried) if size_of(self.body.inputs[j]) > 1]
        self.start = self._names(self.body)
        self.mask = self._asked(blocks) if dtype_of(blocks.mask) == "bool" else None
        self.facts = {} if self.mask is None else _implied(self.mask, not blocks.wanted)

    def _asked(self, blocks: Blocks) -> Any:
        """The mask of an element of what an iteration begins with."""
        cond = self.loop.regions["cond"]
        if not blocks.late:
            known = self._names(cond)
            for v, a in passed(cond):
                known[v] = expression(a, known)
            return expression(blocks.mask, known)
        known = {v: ("other", k) for k, v in enumerate(self.body.inputs[self.carried :])}
        known |= {v: ("state", j) for j, v in enumerate(self.body.outputs)}
        return expression(blocks.mask, known)

    def _names(self, graph: Graph) -> Known:
        """Names of what a graph is given: parts of the state, and values from outside."""
        rest = graph.inputs[self.carried :]
        return {v: ("state", j) for j, v in enumerate(graph.inputs[: self.carried])} | {v: ("other", k) for k, v in enumerate(rest)}  # fmt: skip

    def holds(self) -> bool:
        if self.mask is None:
            return False
        masks = {j: self.facts[e] for j in self.parts if (e := ("state", j)) in self.facts}
        known = self.start | {self.body.inputs[j]: truth for j, truth in masks.items()}
        stay = {j for j in self.parts if j not in masks and self._stays(j, known)}
        for j, truth in masks.items():
            if self._of(j, known) != truth:
                if not self._follows(j, truth, stay):
                    return False
                known[self.body.outputs[j]] = truth
        others = [j for j in self.parts if j not in masks]
        return all(j in stay or self._stays(j, known) for j in others) and self._steady(self.mask)

    def _steady(self, e: Any) -> bool:
        """Whether an expression has no numbers of the state."""
        if not isinstance(e, tuple):
            return True
        if e[0] == "state":
            return e[1] in self.parts
        return all(map(self._steady, e[1:]))

    def _of(self, j: int, known: Known) -> Any:
        return expression(self.body.outputs[j], dict(known), self.facts)

    def _stays(self, j: int, known: Known) -> bool:
        found, own = self._of(j, known), ("state", j)
        if found == own:
            return True
        return _adds_nothing(found, own) and (
            dtype_of(self.body.inputs[j]) not in FLOATS or self._no_negative_zero(j)
        )

    def _follows(self, j: int, truth: Any, rest: set[int]) -> bool:
        """Whether a mask is computed of what settled parts end as, and begins as what it is not then."""
        known: Known = {v: ("other", v) for v in self.body.inputs[self.carried :]}
        known |= {self.body.outputs[k]: ("state", k) for k in rest}
        first = self.loop.args[j]
        found = expression(self.body.outputs[j], known)
        return found is not None and isinstance(first, Value) and _filled(first) is (truth == FALSE)

    def _no_negative_zero(self, j: int) -> bool:
        """Whether a part, to which a 0 is added, never is -0.0, which would become 0.0: it begins as 0 and truths are added."""
        first, node = self.loop.args[j], self.body.outputs[j].node
        if not isinstance(first, Value) or _filled(first) != 0 or node is None or node.op != _ADD:
            return False
        return any(_truth(a) for a in node.args)


_ADD = "aten.add.Tensor"


def _adds_nothing(found: Any, own: Any) -> bool:
    """Whether an expression is a part of the state and 0."""
    if not isinstance(found, tuple) or len(found) != 3 or found[0] != _ADD or own not in found:
        return False
    rest = found[2] if found[1] == own else found[1]
    return rest[:2] == ("const", 0)


def _truth(a: Any) -> bool:
    """Whether a value is a truth, or one as a number."""
    if isinstance(a, Value) and dtype_of(a) == "bool":
        return True
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


def expression(value: Any, known: Known, facts: Facts | None = None) -> Any:
    """One element of a value as nested tuples, of what is ``known``; None where something is not. ``facts``: what expressions are."""
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
        found = _element(node, known)
        known[v] = (facts or {}).get(found, found)
    return known[value] if isinstance(value, Value) else ("const", value)


def _element(node: Node, known: Known) -> Any:
    args = tuple(known[a] if isinstance(a, Value) else ("const", a) for a in node.args if not isinstance(a, (list, tuple)))  # fmt: skip
    if node.op == "aten.where.self" and args[0] in (FALSE, TRUE):
        i = 1 if args[0] == TRUE else 2
        return _as(args[i], node.args[i], dtype_of(node.outputs[0]))
    if node.op == "aten.where.self" and args[1] == args[2] and all(isinstance(a, Value) and dtype_of(a) == dtype_of(node.outputs[0]) for a in node.args[1:]):  # fmt: skip
        return args[1]  # the same on both sides of a branch
    if None in args or any(isinstance(a, Value) for a in node.kwargs.values()):
        return None
    if node.op in _SAME:
        return args[0]
    if isinstance(node.outputs[0].type, ScalarType) or any(isinstance(a, (list, tuple)) for a in node.args):  # fmt: skip
        return None
    if node.op in _TRUTHS and all(dtype_of(v) == "bool" for v in (*node.inputs, *node.outputs)):
        return _logic(_TRUTHS[node.op], args)
    if node.op == "aten._to_copy.default" and args[0] in (FALSE, TRUE):
        return _as(args[0], node.args[0], dtype_of(node.outputs[0]))
    options = tuple(sorted((k, str(v)) for k, v in node.kwargs.items()))
    return (node.op, *args, options) if options else (node.op, *args)


def _as(e: Any, value: Any, dtype: str) -> Any:
    """An expression for ``value`` as another dtype, in which it may compare in another way: 0.7 is more than a float32 of it."""
    if e is None or (isinstance(value, Value) and dtype_of(value) == dtype):
        return e
    if e[0] != "const":
        return ("as", e, dtype)
    return e[:2] if dtype == "bool" else ("const", e[1] + 0, dtype)


def _logic(word: str, args: tuple) -> Any:
    """``and``, ``or`` and ``not`` of truths, some of which are known."""
    if word == _NOT:
        return {FALSE: TRUE, TRUE: FALSE}.get(args[0]) or (args[0][1] if args[0][0] == _NOT else (_NOT, args[0]))  # fmt: skip
    decides, leaves = (FALSE, TRUE) if word == _AND else (TRUE, FALSE)
    if decides in args:
        return decides
    rest = tuple(a for a in args if a != leaves)
    return leaves if not rest else rest[0] if len(rest) == 1 else (word, *rest)
