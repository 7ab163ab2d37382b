"""What is known of whole numbers of a graph by the ops that compute them, and by conditions.

A **fact** is a choice of cases, of which at least one holds; a case is sums (``affine``) that are not negative, all of them. ``x.facts(atom)``
are those of an atom: ``randint(0, 9)`` is one case ``[atom, 8 - atom]``, ``max(a, b)`` is ``[[atom - a], [atom - b]]`` and two cases ``[[a - atom], [b - atom]]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..graph.families import CONJUNCTIONS, DISJUNCTIONS, NEGATIONS, OPPOSITE, RELATIONS, TRUTHS
from ..graph.ir import Node, Value
from ..graph.types import TensorType
from .affine import Affine, constant, of_atom

if TYPE_CHECKING:
    from .proofs import Numbers

Case = Sequence[Affine]
Fact = Sequence[Case]


def of_op(x: Numbers, node: Node, atom: Value) -> list[Fact]:
    """The facts of an output of a node."""
    rule = _RULES.get(node.op)
    return rule(x, node, of_atom(atom)) if rule is not None else []


def between(v: Affine, least: Affine | None, most: Affine | None) -> list[Fact]:
    """``v`` is from ``least`` to ``most``, both included."""
    return [[[form]] for form in (None if least is None else v - least, None if most is None else most - v) if form]  # fmt: skip


def _drawn(low: int, high: int) -> Callable[..., list[Fact]]:
    """Numbers from one argument up to, not including, another; ``low`` of -1: from 0."""

    def rule(x: Numbers, node: Node, v: Affine) -> list[Fact]:
        least = constant(0) if low < 0 else x.sum(node.args[low])
        return between(v, least, x.sum(node.args[high]).plus(-1))

    return rule


def _arange(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    numbers = [a for a in node.args if a is not None]
    step = numbers[2] if len(numbers) > 2 else 1
    if type(step) is not int or step < 1:
        return []
    first, end = (constant(0), x.sum(numbers[0])) if len(numbers) == 1 else map(x.sum, numbers[:2])
    return between(v, first, end.plus(-1))


def _outside(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    """What Python's random generators draw."""
    label, given = node.args[0].label, [x.sum(a) for a in node.args[1:]]
    if label in ("choice", "below") and len(given) == 1:
        return between(v, constant(0), given[0].plus(-1))
    if label == "randrange" and 1 <= len(given) <= 2:
        return between(v, given[0] if given[1:] else constant(0), given[-1].plus(-1))
    if label == "randint" and len(given) == 2:
        return between(v, *given)
    return []


def _constant(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    """The elements of a tensor that the code wrote down."""
    found = list(_leaves(node.args[0]))
    if not found or any(type(n) not in (int, bool) for n in found):
        return []
    return between(v, constant(min(found)), constant(max(found)))


def _leaves(data: Any) -> Iterator[Any]:
    for part in data if isinstance(data, (list, tuple)) else ():
        yield from _leaves(part)
    if not isinstance(data, (list, tuple)):
        yield data


def _filled(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    fill = {"aten.zeros.default": 0, "aten.ones.default": 1}.get(node.op, node.args[-1])
    return [[equal(v, x.sum(fill))]]


def _place(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    """``argmax`` and its kind: a position in one dimension, or in all elements."""
    shape, d = node.args[0].type.shape, node.args[1] if len(node.args) > 1 else None
    sizes = shape if d is None else shape[d : d + 1 or None] if shape else ()
    count = 1
    for n in sizes:
        if n is None:
            return between(v, constant(0), None)
        count *= n
    return between(v, constant(0), constant(count - 1))


def _last_size(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    n = node.args[0].type.shape[-1]
    return between(v, constant(0), None if n is None else constant(n - 1))


def _in_order(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    """``topk``, ``sort`` and the like give positions beside values."""
    if next(iter(v.terms)).index != 1 or not node.args[0].type.shape:
        return []
    at = {"aten.topk.default": 2}.get(node.op, 1)
    d = node.args[at] if len(node.args) > at else -1
    n = node.args[0].type.shape[d] if type(d) is int else None
    return between(v, constant(0), None if n is None else constant(n - 1))


def _range_length(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    first, end, step = (*node.args, 1)[:3]
    least = [[v]]
    if type(step) is not int or step < 1:
        return [least]
    apart = (x.sum(end) - x.sum(first)).plus(step - 1)
    return [least, [[apart - v.times(step)], [v.times(-1)]]]


def _extreme(sign: int) -> Callable[..., list[Fact]]:
    """``min`` (1) or ``max`` (-1) of numbers; of None none."""

    def rule(x: Numbers, node: Node, v: Affine) -> list[Fact]:
        given = [x.sum(a) for a in node.args if a is not None]
        beyond = [(a - v).times(sign) for a in given]
        return [*([[a]] for a in beyond), [[a.times(-1)] for a in beyond]]

    return rule


def _clamp(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    """The upper limit wins where the limits cross."""
    a, low, high = (*node.args, *(None, None))[:3]
    low, high = node.kwargs.get("min", low), node.kwargs.get("max", high)
    a, low, high = (None if n is None else x.sum(n) for n in (a, low, high))
    facts: list[Fact] = []
    if high is not None:
        facts += [[[high - v]], [[v - a], [v - high]]]
    if low is not None:
        facts += [[[v - low], *([[v - high]] if high is not None else [])], [[a - v], [low - v]]]
    if low is None:
        facts.append([[a - v]])
    if high is None:
        facts.append([[v - a]])
    return facts


def _mod(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    a, m = x.sum(node.args[0]), x.sum(node.args[1])
    if not x.holds(m.plus(-1)):
        return []
    return [*between(v, constant(0), m.plus(-1)), [[a - v], [a.times(-1).plus(-1)]]]


def _quotient(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    m = node.args[1]
    if node.kwargs.get("rounding_mode", "floor") != "floor" or type(m) is not int or m < 1:
        return []
    rest = x.sum(node.args[0]) - v.times(m)
    return between(rest, constant(0), constant(m - 1))


def _abs(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    a = x.sum(node.args[0])
    return [[[v]], [[v - a]], [[v + a]], [[v - a, a - v], [v + a, (v + a).times(-1)]]]


def _index(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    return between(v, constant(0), x.sum(node.args[1]).plus(-1))


def _up_to(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    return between(v, constant(0), x.sum(node.args[1]))


def equal(a: Affine, b: Affine) -> list[Affine]:
    return [a - b, b - a]


def _if(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    """What one branch gives where the condition holds, or the other one."""
    index = next(iter(v.terms)).index
    cases = []
    for name, truth in (("then", True), ("orelse", False)):
        region = x.enter(node.regions[name], node.args[1:])
        met = conditions(x, node.args[0], truth)
        cases.append([*equal(v, x.sum(region.outputs[index])), *met])
    return [cases]


def _where(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    test, *sides = node.args
    return [[[*equal(v, x.sum(a)), *conditions(x, test, t)] for a, t in zip(sides, (True, False))]]


def _choose(x: Numbers, node: Node, v: Affine) -> list[Fact]:
    tag, options = node.args
    if len(options) != 2:
        return [[equal(v, x.sum(a)) for a in options]]
    test = tag.node.args[0] if isinstance(tag, Value) and tag.node is not None and tag.node.op == "py.int" else None  # fmt: skip
    return [[[*equal(v, x.sum(a)), *conditions(x, test, t)] for a, t in zip(options, (False, True))]]  # fmt: skip


# ---- what a condition tells


def conditions(x: Numbers, test: Any, truth: bool) -> Iterator[Affine]:
    """Sums that are not negative where a condition gave ``truth``."""
    test = x.canonical(test)
    node = test.node if isinstance(test, Value) else None
    if node is None:
        return
    if node.op in _SAME:
        if x.is_whole(node.args[0]) and (node.op != "aten.view.default" or test.type.shape == ()):
            yield from conditions(x, node.args[0], truth)
    elif node.op in NEGATIONS:
        if node.op == "py.not" or test.type.dtype is torch.bool:
            yield from conditions(x, node.args[0], not truth)
    elif node.op in (CONJUNCTIONS if truth else DISJUNCTIONS):
        for a in node.args:
            yield from conditions(x, a, truth)
    elif node.op in RELATIONS:
        yield from _related(x, node, truth)
    elif node.op == "If":
        yield from _both(x, node, test.index, truth)


def _both(x: Numbers, node: Node, index: int, truth: bool) -> Iterator[Affine]:
    """``a and b`` is ``b if a else a``: where it is true both are, and where ``a or b`` is not neither is."""
    sides = {t: x.enter(node.regions[r], node.args[1:]).outputs[index] for t, r in ((True, "then"), (False, "orelse"))}  # fmt: skip
    other = x.canonical(sides[not truth])
    if other is x.canonical(node.args[0]) or x.truth(other) is (not truth):
        yield from conditions(x, node.args[0], truth)
        yield from conditions(x, sides[truth], truth)


def _related(x: Numbers, node: Node, truth: bool) -> Iterator[Affine]:
    a, b = node.args[:2]
    if not (x.is_whole(a) and x.is_whole(b)):
        return
    word = RELATIONS[node.op] if truth else OPPOSITE[RELATIONS[node.op]]
    gap = x.sum(b) - x.sum(a)
    if word in ("lt", "le", "eq"):
        yield gap.plus(-(word == "lt"))
    if word in ("gt", "ge", "eq"):
        yield gap.times(-1).plus(-(word == "gt"))


_SAME = (*TRUTHS, "tg.identity", "aten.view.default")

_Rule = Callable[["Numbers", Node, Affine], list[Fact]]
_RULES: dict[str, _Rule] = {
    "If": _if,
    "tg.choose": _choose,
    "py.range_length": _range_length,
    "py.min": _extreme(1),
    "py.max": _extreme(-1),
    "py.mod": _mod,
    "py.floordiv": _quotient,
    "py.abs": _abs,
    "py.position": _index,
    "py.cell": _index,
    "py.slice_stop": _up_to,
    "py.outside": _outside,
    "tg.constant": _constant,
    **dict.fromkeys(("aten.zeros.default", "aten.ones.default", "aten.full.default"), _filled),
    "aten.randint.default": _drawn(-1, 0),
    "aten.randint.low": _drawn(0, 1),
    "aten.randperm.default": _drawn(-1, 0),
    "aten.arange.default": _arange,
    "aten.arange.start": _arange,
    "aten.arange.start_step": _arange,
    "aten.argmax.default": _place,
    "aten.argmin.default": _place,
    "aten.max.dim": _in_order,
    "aten.min.dim": _in_order,
    "aten.topk.default": _in_order,
    "aten.sort.default": _in_order,
    "aten.multinomial.default": _last_size,
    "aten.minimum.default": _extreme(1),
    "aten.maximum.default": _extreme(-1),
    "aten.clamp.default": _clamp,
    "aten.clamp_min.default": _extreme(-1),
    "aten.clamp_max.default": _extreme(1),
    "aten.remainder.Scalar": _mod,
    "aten.remainder.Tensor": _mod,
    "aten.floor_divide.default": _quotient,
    "aten.where.self": _where,
    "aten.abs.default": _abs,
}
OPS = frozenset(_RULES) - {"If"}


def whole(kind: Any) -> bool:
    """Whether values of a type are whole numbers."""
    if isinstance(kind, TensorType):
        return not (kind.dtype.is_floating_point or kind.dtype.is_complex) and kind.dtype is not torch.uint64  # fmt: skip
    return getattr(kind, "kind", None) in (int, bool)


def is_truth(kind: Any) -> bool:
    """Whether values of a type are truth values."""
    return getattr(kind, "dtype", getattr(kind, "kind", None)) in (bool, torch.bool)
