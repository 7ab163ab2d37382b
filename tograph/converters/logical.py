"""``and``, ``or``, ``not``: Python's own on Python values; staged, lazily, on staged ones.

``a and b``  ->  ``ag__.and_(a, lambda: b)``. The second operand is traced in a branch, so it runs only where the first
one does not decide. Where only the truth counts, as in ``if a and b``, it is ``ag__.both``: a container counts as whether it
has items, and is not one of several values.
"""

from __future__ import annotations

from collections import deque

import torch

from ..runtime import control_flow
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.recording import creation
from ..runtime.symbols.scalar_nodes import combine
from ..runtime.symbols.scalars import StagedBool
from ..runtime.symbols.symbolic import scalar_of
from ..runtime.values import facts
from ..runtime.values.structure import is_union
from ..transpiler.syntax import gast
from .context import OPERATORS, Converter
from .places import bound_by
from .staging import is_staged
from .thunks import thunk
from .union import distribute, truth


class Logical(Converter):
    def visit_BoolOp(self, node):
        values = [self.visit(node.values[0]), *(thunk(self, v) for v in node.values[1:])]
        ops = ("both", "either") if getattr(node, "tested", False) else ("and_", "or_")
        op = ops[not isinstance(node.op, gast.And)]
        return self.expression(f"{OPERATORS}.{op}(values_)", node, values_=values)

    def visit_IfExp(self, node):
        tested(node.test)
        return self.generic_visit(node)

    def visit_UnaryOp(self, node):
        tested(node)
        node = self.generic_visit(node)
        if not isinstance(node.op, gast.Not):
            return node
        return self.expression(f"{OPERATORS}.not_(value_)", node, value_=node.operand)


def tested(node: gast.AST) -> None:
    """Only the truth of an expression counts."""
    if isinstance(node, gast.BoolOp):
        node.tested = True
        for value in node.values:
            tested(value)
    elif isinstance(node, gast.UnaryOp) and isinstance(node.op, gast.Not):
        tested(node.operand)


def both(first, *rest):
    """The truth of ``first and rest[0]() and ...``"""
    return _chain("and", first, rest, _asked)


def either(first, *rest):
    """The truth of ``first or rest[0]() or ...``"""
    return _chain("or", first, rest, _asked)


def _asked(x):
    if is_union(x) or not isinstance(x, (list, dict, set, deque)):
        return x
    x = truth(x, "a condition")
    return x if is_staged(x) else bool(x)


def and_(first, *rest):
    """``first and rest[0]() and ...``"""
    return _chain("and", first, rest)


def or_(first, *rest):
    """``first or rest[0]() or ...``"""
    return _chain("or", first, rest)


def _itself(x):
    return x


def _chain(word, first, rest, taken=_itself):
    """The first value that ends the chain, a false one for ``and``, a true one for ``or``; else the last. ``taken``: what of each counts."""
    first = taken(first)
    for i, operand in enumerate(rest):
        if is_union(first):
            return distribute(lambda v, i=i: _chain(word, v, rest[i:], taken), first)
        first = facts.known(first)
        test = control_flow.predicate(first, word) if is_staged(first) else truth(first, word)
        if is_staged(test):
            return _staged(word, test, first, rest[i:], taken)
        if bool(test) is not (word == "and"):
            return first
        with creation.condition():
            first = taken(operand())
    return first


# Operands that are each in a branch of the one before; of a longer chain half stands behind the other half.
NESTED = 40


def _staged(word, test, value, rest, taken):
    """The chain from a value on that only the run knows to be true or false."""
    if len(rest) > NESTED:
        half = len(rest) // 2
        first = _staged(word, test, value, rest[:half], taken)
        return _chain(word, first, rest[half:], taken)

    def on():
        return _chain(word, rest[0](), rest[1:], taken)

    def end():
        if taken is _asked and isinstance(value, SYMBOLS):  # only its truth counts
            return word == "or"
        return facts.known(value)

    ways = (on, end) if word == "and" else (end, on)
    return control_flow.staged_if(test, *ways, bound_by(*rest))


def not_(x):
    """``not x``"""
    x = truth(x, "not")
    if not is_staged(x):
        return not x
    test = control_flow.predicate(x, "not")
    if isinstance(test, torch.Tensor):
        test = scalar_of(test)  # Python's `not` gives a bool, whatever it is asked about
    result = StagedBool(combine("not", test.node))
    facts.negated(test, result)
    return result
