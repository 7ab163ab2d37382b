"""What holds of whole numbers while a graph is recorded: proofs that a sum is never negative.

``Numbers`` reads the graphs that are open: numbers as sums of atoms (``affine``), the facts of atoms (``number_facts``), and what holds where code
is recorded now: the conditions of the branches around, and of the loops what their tests and the state that only grows or only shrinks tell.

``holds`` eliminates one atom after the other by a fact that bounds it (symbolic range propagation: W. Blume and R. Eigenmann, 1995; the step is that
of Fourier and Motzkin). It is a search of limited depth: what it finds is proved, what it does not find may hold all the same.

What a proof rests on beside the ops that compute the number is in ``Numbers.used``: a node that relies on it may not be moved to where that
does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..graph.families import DIFFERENCES, PRODUCTS, SUMS
from ..graph.ir import Graph, Node, Value
from ..graph.ordering import op_effects
from ..graph.types import TensorType
from . import number_facts
from .affine import ZERO, Affine, At, Iterations, Length, constant, of_atom
from .funcgraph import FuncGraph

DEPTH, STEPS, TERMS = 7, 2000, 6  # steps: of all proofs of one ``Numbers``
LEVELS = 40  # ops behind each other
_SAFE = 1 << 62  # tensors whose elements are smaller add up without overflow


@dataclass(eq=False)
class LoopFacts:
    """What is known of the body of a loop: ``entries``, what the state was before the loop, a number or a value, by its input of the body.

    ``steps`` are the amounts by which numbers are supposed to change in each iteration, ``ranges`` the numbers between which they are supposed to stay; ``wanted``: state
    by which the size of a slice was not known. ``test`` is the condition, a value of the graph ``cond``, whose inputs ``lead`` are the state. ``doubted``: the state that is known to grow (1) or shrink (-1)
    in some iteration; ``supposed``: the state that was taken not to, which the end of the body has to show.
    """

    entries: dict[Value, Any] = field(default_factory=dict)
    steps: dict[Value, int] = field(default_factory=dict)
    ranges: dict[Value, tuple[int, int]] = field(default_factory=dict)
    wanted: set[Value] = field(default_factory=set)
    test: Any = None
    cond: FuncGraph | None = None
    lead: Sequence[Value] = ()
    doubted: set[tuple[Value, int]] = field(default_factory=set)
    supposed: set[tuple[Value, int]] = field(default_factory=set)


@dataclass(frozen=True)
class Reason:
    """Where a fact is from that does not follow from the ops of a number: the body ``loop``, or a condition.

    ``grows``: state that is supposed not to shrink (1) or not to grow (-1).
    """

    loop: FuncGraph | None = None
    grows: tuple[Value, int] | None = None


class Numbers:
    """The numbers of the graphs that are open now: ``graph`` and those around it. ``known``: conditions that hold here, with their truth."""

    def __init__(self, graph: FuncGraph, known: Iterable[tuple[Value, bool]] = ()):
        self.given: dict[Value, Any] = {}
        self.reread = graph.root.reread
        self.entries: dict[Value, tuple[FuncGraph, Any]] = {}
        self.sums: dict[Any, Affine] = {}
        self.found: dict[Any, list[number_facts.Fact]] = {}
        self.first: dict[Value, Value] = {}
        self.alike: dict[Any, Value] = {}
        self.used: set[Reason] = set()
        self.steps, self.level = STEPS, 0
        bodies = [g for g in _around(graph) if self._open(g)]
        self.here: list[tuple[Affine, Reason]] = []
        for value, truth in known:
            self.here += [(f, Reason()) for f in number_facts.conditions(self, value, truth)]
        for body in bodies:
            test = number_facts.conditions(self, body.loop.test, True)
            self.here += [(f, Reason(body)) for f in test]

    def _open(self, graph: FuncGraph) -> bool:
        """Note what stands for what in an open graph; whether it is the body of a loop of which something is known."""
        self._captured(graph)
        loop = graph.loop
        if loop is None:
            return False
        self.entries |= {v: (graph, entry) for v, entry in loop.entries.items()}
        if loop.cond is not None:
            self._captured(loop.cond)
            self.given.update(zip(loop.cond.graph.inputs, loop.lead))
        return True

    def _captured(self, graph: FuncGraph) -> None:
        self.given |= {v: key for key, v in graph.captures.items() if isinstance(key, Value)}

    def enter(self, region: Graph, args: Sequence[Any]) -> Graph:
        """A region of a node: its inputs stand for arguments."""
        self.given.update(zip(region.inputs, args))
        return region

    # ---- what numbers are

    def canonical(self, a: Any) -> Any:
        """What a value stands for, in the outermost graph that has it; of those that are computed alike the first."""
        while isinstance(a, Value) and (a in self.reread or (a.node is None and a in self.given)):
            a = self.reread[a] if a in self.reread else self.given[a]
        if not isinstance(a, Value) or a.node is None or a.node.op not in _KEYED:
            return a
        if a not in self.first:
            with self._deeper() as near:
                self.first[a] = self.alike.setdefault(self._key(a), a) if near else a
        return self.first[a]

    @contextmanager
    def _deeper(self) -> Iterator[bool]:
        """One op further from what is asked about; whether that is near enough to be looked at."""
        self.level += 1
        try:
            yield self.level < LEVELS
        finally:
            self.level -= 1

    def _key(self, a: Value) -> Any:
        """What a value is computed from; the value itself where computing it again may give something else."""
        node = a.node
        assert node is not None
        effects = op_effects(node.op, node.args)
        if not (effects.mergeable and replace(effects, may_fail=False).pure):
            return a
        key = node.op, a.index, self._parts(node.args), self._parts(tuple(node.kwargs.items()))
        return key if all(map(_hashed, key)) else a

    def _parts(self, x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return tuple(map(self._parts, x))
        return self.canonical(x) if isinstance(x, Value) else (type(x), x)

    def is_whole(self, a: Any) -> bool:
        return number_facts.whole(a.type) if isinstance(a, Value) else type(a) in (int, bool)

    def truth(self, a: Any) -> bool | None:
        """The truth value of a constant."""
        while isinstance(a := self.canonical(a), Value):
            if a.node is None or a.node.op not in ("py.constant", "aten.scalar_tensor.default", "py.bool"):  # fmt: skip
                return None
            a = a.node.args[0]
        return bool(a) if type(a) in (int, bool) else None

    def sum(self, a: Any) -> Affine:
        a = self.canonical(a)
        if not isinstance(a, Value):
            return constant(a) if type(a) in (int, bool) else of_atom(("constant", id(a)))
        if a not in self.sums:
            self.sums[a] = of_atom(a)
            if a in self.entries and a in self.entries[a][0].loop.steps:
                return self._counted(a, *self.entries[a])
            with self._deeper() as near:
                self.sums[a] = self._computed(a) if near else of_atom(a)
        return self.sums[a]

    def _computed(self, a: Value) -> Affine:
        node = a.node
        if node is None or not self.is_whole(a):
            return of_atom(a)
        if node.op == "py.size":
            return self._size(*node.args)
        if node.op in _PARTS:
            return self._part(a, node)
        if node.op in _SAME or node.op == "py.constant":
            return self.sum(node.args[0]) if self._keeps(node) else of_atom(a)
        if (rule := _SUMS.get(node.op)) is None or node.kwargs:
            return of_atom(a)
        found = rule(*map(self.sum, node.args[:2])) if all(map(self.is_whole, node.args)) else None
        if found is None or not (node.op.startswith("py.") or self._exact(node, found)):
            return of_atom(a)
        return found

    def _counted(self, a: Value, body: FuncGraph, entry: Any) -> Affine:
        """State that changes by the same amount in each iteration."""
        steps = of_atom(Iterations(body)).times(body.loop.steps[a])
        self.sums[a] = self.sum(entry) + steps
        return self.sums[a]

    def _size(self, tensor: Value, d: int) -> Affine:
        n = tensor.type.shape[d]
        return of_atom(Length(self.canonical(tensor), d)) if n is None else constant(n)

    def _part(self, a: Value, node: Node) -> Affine:
        """Elements of a tensor."""
        whole = self.sum(node.args[0])
        if isinstance(node.args[0].type, TensorType) and node.args[0].type.shape == ():
            return whole
        return _at(whole, a)

    def _keeps(self, node: Node) -> bool:
        """Whether a conversion keeps the number."""
        small = node.op == "aten.scalar_tensor.default" and node.outputs[0].type.dtype is not torch.int64  # fmt: skip
        return self.is_whole(node.args[0]) and not small

    def _exact(self, node: Node, found: Affine) -> bool:
        """Whether arithmetic on tensors surely stays inside of 64 bits."""
        kinds = [v.type for v in (*node.inputs, node.outputs[0]) if isinstance(v.type, TensorType)]
        if any(k.dtype is not torch.int64 for k in kinds):
            return False
        parts = [found, *map(self.sum, node.inputs)]
        return all(self.proves(p.plus(_SAFE)) and self.proves(p.times(-1).plus(_SAFE)) for p in parts)  # fmt: skip

    # ---- what is known of them

    def facts(self, atom: Any) -> list[number_facts.Fact]:
        if atom not in self.found:
            self.found[atom] = []
            self.found[atom] = self._facts(atom)
        return self.found[atom]

    def _facts(self, atom: Any) -> list[number_facts.Fact]:
        v = of_atom(atom)
        if isinstance(atom, (Length, Iterations)):
            return [[[v]]]
        if isinstance(atom, At):
            return [[[_at(f, atom.part) for f in case] for case in fact] for fact in self.facts(atom.atom)]  # fmt: skip
        if not isinstance(atom, Value):
            return []
        if number_facts.is_truth(atom.type):
            return number_facts.between(v, ZERO, constant(1))
        return number_facts.of_op(self, atom.node, atom) if atom.node is not None else []

    def _bounds(self, atom: Any, sign: int) -> Iterator[tuple[number_facts.Fact, Reason | None]]:
        """Facts that may tell a least (1) or most (-1) number for an atom."""
        for form, reason in self.here:
            if form.terms.get(atom, 0) * sign > 0:
                own = reason.loop is not None and (atom in reason.loop.loop.entries or atom == Iterations(reason.loop))  # fmt: skip
                yield [[form]], reason if own else Reason()
        for fact in self.facts(atom):
            yield fact, None
        if atom in self.entries:
            graph, entry = self.entries[atom]
            if atom in graph.loop.ranges:
                low, high = graph.loop.ranges[atom]
                bound = of_atom(atom).plus(-low) if sign > 0 else constant(high) - of_atom(atom)
                yield [[bound]], Reason(graph)
            if (atom, sign) not in graph.loop.doubted:
                yield [[(of_atom(atom) - self.sum(entry)).times(sign)]], Reason(graph, (atom, sign))

    # ---- proofs

    def proves(self, form: Affine) -> bool:
        """Whether a sum is never negative here; what that rests on is added to ``used``."""
        reasons = self._proof(form, (), DEPTH)
        self.used |= reasons or frozenset()
        return reasons is not None

    def want(self, numbers: Iterable[Any]) -> None:
        """More has to be known of the state that these numbers are made of."""
        for atom in (a for n in numbers for a in self.sum(n).terms):
            if atom in self.entries:
                body, entry = self.entries[atom]
                body.loop.wanted.add(atom)
                self.want([entry])

    def holds(self, form: Affine) -> bool:
        """Whether a sum is never negative, wherever its numbers are computed."""
        return self._proof(form, (), DEPTH // 2) == frozenset()

    def _proof(self, form: Affine, met: Sequence[Affine], depth: int) -> frozenset[Reason] | None:
        """What a proof rests on, None where there is none; ``met``: what holds in this case of it."""
        if not form.terms:
            return frozenset() if form.constant >= 0 else None
        if not depth or self.steps <= 0 or len(form.terms) > TERMS:
            return None
        for atom, n in form.terms.items():
            sign = 1 if n > 0 else -1
            local = (([[f]], None) for f in met if f.terms.get(atom, 0) * sign > 0)
            for fact, reason in (*local, *self._bounds(atom, sign)):
                found = self._by(form, atom, fact, met, depth)
                if found is not None:
                    return found | ({reason} if reason else frozenset())
        return None

    def _by(self, form: Affine, atom: Any, fact: number_facts.Fact, met: Sequence[Affine], depth: int) -> frozenset[Reason] | None:  # fmt: skip
        """A proof in every case of a fact, by what bounds the atom in it."""
        n, reasons = form.terms[atom], frozenset[Reason]()
        for case in fact:
            self.steps -= 1
            usable = [f for f in case if f.terms.get(atom, 0) * n > 0]
            proofs = (
                self._proof(_without(form, f, atom), (*met, *case), depth - 1) for f in usable
            )
            found = next((p for p in proofs if p is not None), None)
            if found is None:
                return None
            reasons |= found
        return reasons


def _without(form: Affine, bound: Affine, atom: Any) -> Affine:
    """A sum that is negative wherever ``form`` is, without the atom. A ``form`` that is negative is -1 or less, as all numbers are whole."""
    n, k = abs(form.terms[atom]), abs(bound.terms[atom])
    left = (form.times(k) - bound.times(n)).plus(k - 1)
    divisor = math.gcd(*left.terms.values()) or 1
    terms = {a: m // divisor for a, m in left.terms.items()}
    return Affine(left.constant // divisor, terms)


def _at(form: Affine, part: Any) -> Affine:
    """The sum of elements in ``part``: numbers that are no elements of larger tensors stay themselves."""
    return Affine(
        form.constant, {a if _single(a) else At(part, a): n for a, n in form.terms.items()}
    )


def _single(atom: Any) -> bool:
    if isinstance(atom, Value) and isinstance(atom.type, TensorType):
        return atom.type.shape == ()
    return not isinstance(atom, At)


def _hashed(x: Any) -> bool:
    return isinstance(x, Hashable) and (not isinstance(x, tuple) or all(map(_hashed, x)))


def _around(graph: FuncGraph | None) -> Iterator[FuncGraph]:
    while graph is not None:
        yield graph
        graph = graph.outer


def _product(a: Affine, b: Affine) -> Affine | None:
    if a.terms and b.terms:
        return None
    return a.times(b.constant) if a.terms else b.times(a.constant)


_SUMS = {
    **dict.fromkeys(SUMS, Affine.__add__),
    **dict.fromkeys(DIFFERENCES, Affine.__sub__),
    **dict.fromkeys(PRODUCTS, _product),
    "aten.rsub.Scalar": lambda a, b: b - a,
    "py.neg": lambda a: a.times(-1),
    "aten.neg.default": lambda a: a.times(-1),
}  # fmt: skip
_SAME = frozenset(["py.int", "py.room", "tg.identity", "tg.clone", "aten.scalar_tensor.default", "aten.clone.default", "aten.detach.default", "aten.alias.default"])  # fmt: skip
_PARTS = frozenset(f"aten.{n}" for n in (
    "select.int", "unbind.int", "slice.Tensor", "view.default", "_unsafe_view.default", "squeeze.default", "squeeze.dim", "unsqueeze.default", "expand.default",
    "t.default", "transpose.int", "permute.default", "flip.default", "index_select.default", "gather.default",
))  # fmt: skip
_KEYED = number_facts.OPS | _SUMS.keys() | _SAME | _PARTS | {"py.size"}
