"""``and``, ``or``, ``not``: Python's own on Python values; staged, lazily, on staged ones.

``a and b``  ->  ``ag__.and_(a, lambda: b)``. The second operand is traced in a branch, so it runs only where the first
one does not decide.
"""

from __future__ import annotations

import torch

from ..runtime import control_flow, creation, facts
from ..runtime.scalar_nodes import combine
from ..runtime.scalars import StagedBool
from ..runtime.structure import is_union
from ..runtime.symbolic import scalar_of
from ..transpiler.syntax import gast
from .context import OPERATORS, Converter
from .places import bound_by
from .staging import is_staged
from .thunks import thunk
from .union import distribute, truth


class Logical(Converter):
    def visit_BoolOp(self, node):
        values = [self.visit(node.values[0]), *(thunk(self, v) for v in node.values[1:])]
        op = "and_" if isinstance(node.op, gast.And) else "or_"
        return self.expression(f"{OPERATORS}.{op}(values_)", node, values_=values)

    def visit_UnaryOp(self, node):
        node = self.generic_visit(node)
        if not isinstance(node.op, gast.Not):
            return node
        return self.expression(f"{OPERATORS}.not_(value_)", node, value_=node.operand)


def and_(first, *rest):
    """``first and rest[0]() and ...``"""
    for i, operand in enumerate(rest):
        if is_union(first):
            return distribute(lambda v, i=i: and_(v, *rest[i:]), first)
        first = facts.known(first)
        if is_staged(first):
            after = rest[i + 1 :]
            value, test = first, control_flow.predicate(first, "and")
            return control_flow.staged_if(
                test,
                lambda o=operand, after=after: and_(o(), *after),
                lambda v=value: facts.known(v),
                bound_by(*rest),
            )
        held = truth(first, "and")
        if is_staged(held):
            after = rest[i + 1 :]
            return control_flow.staged_if(held, lambda o=operand, a=after: and_(o(), *a), lambda v=first: v, bound_by(*rest))  # fmt: skip
        if not held:
            return first
        with creation.condition():
            first = operand()
    return first


def or_(first, *rest):
    """``first or rest[0]() or ...``"""
    for i, operand in enumerate(rest):
        if is_union(first):
            return distribute(lambda v, i=i: or_(v, *rest[i:]), first)
        first = facts.known(first)
        if is_staged(first):
            after = rest[i + 1 :]
            value, test = first, control_flow.predicate(first, "or")
            return control_flow.staged_if(
                test,
                lambda v=value: facts.known(v),
                lambda o=operand, after=after: or_(o(), *after),
                bound_by(*rest),
            )
        held = truth(first, "or")
        if is_staged(held):
            after = rest[i + 1 :]
            return control_flow.staged_if(held, lambda v=first: v, lambda o=operand, a=after: or_(o(), *a), bound_by(*rest))  # fmt: skip
        if held:
            return first
        with creation.condition():
            first = operand()
    return first


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
