"""Containers from outside that are read as a whole.

``xs[i]``, ``xs.append(v)``, ``len(xs)``, ``k in xs`` and ``for x in xs`` say by themselves what they read of a container. In any other
place (``a, b = xs``, ``f(*xs)``, ``xs + ys``, ``return xs``) all of it may be read: ``ag__.whole(xs)`` there says so, and a change of
any item traces anew. Names of the function itself are left out: what they hold was read when it was assigned.
"""

from __future__ import annotations

import builtins
import types
from typing import Any

import torch

from ..runtime.guarding.reads import whole
from ..transpiler.syntax import gast, walk
from .context import FUNCTIONS, OPERATORS, Converter

__all__ = ["Escapes", "whole"]

# Built-ins whose staged forms, or whose meaning, tell what they read.
_PRECISE = (
    len,
    isinstance,
    issubclass,
    type,
    callable,
    id,
    getattr,
    hasattr,
    setattr,
    delattr,
    range,
)


class Escapes(Converter):
    """Wraps reads of outer names, attributes and items that stand where all of a container may be read."""

    def convert(self, tree):
        self.bound = set()
        for node in walk(tree):
            if isinstance(node, gast.Name) and not isinstance(node.ctx, gast.Load):
                self.bound.add(node.id)
            elif isinstance(node, (*FUNCTIONS[:2], gast.ClassDef)) and node is not tree:
                self.bound.add(node.name)
            for child in self._precise(node):
                child.is_precise = True
        return self.visit(tree)

    def _precise(self, node) -> list[Any]:
        if isinstance(node, (gast.Attribute, gast.Subscript, gast.Starred)):
            return [node.value] if not isinstance(node, gast.Starred) else []
        if isinstance(node, gast.Call):
            called = self.context.resolve(node.func)
            known = _hashable(called) and called in _PRECISE
            return [node.func, *(node.args if known else [])]
        if isinstance(node, gast.Compare):
            operands = [node.left, *node.comparators]
            found = []
            for i, op in enumerate(node.ops):
                if isinstance(op, (gast.Is, gast.IsNot)):
                    found += operands[i : i + 2]
                elif isinstance(op, (gast.In, gast.NotIn)):
                    found.append(operands[i + 1])
            return found
        if isinstance(node, gast.For):
            return [node.iter]
        if isinstance(node, gast.AugAssign):
            return [node.target]
        if isinstance(node, FUNCTIONS[:2]):
            return list(node.decorator_list)
        return [node.value] if isinstance(node, gast.Expr) else []

    def _escapes(self, node) -> bool:
        return isinstance(node.ctx, gast.Load) and not getattr(node, "is_precise", False)

    def visit_Name(self, node):
        if not self._escapes(node) or node.id in self.bound or node.id == OPERATORS:
            return node
        known = self.context.resolve(node)
        fixed = (
            types.ModuleType,
            type,
            types.FunctionType,
            types.BuiltinFunctionType,
            torch.Tensor,
            torch.dtype,
        )
        if isinstance(known, fixed) or hasattr(builtins, node.id):
            return node
        return self._whole(node)

    def visit_Attribute(self, node):
        node = self.generic_visit(node)
        owner = self.context.resolve(node.value)
        if not self._escapes(node) or isinstance(owner, types.ModuleType):
            return node
        return self._whole(node)

    def visit_Subscript(self, node):
        node = self.generic_visit(node)
        return self._whole(node) if self._escapes(node) else node

    def visit_AnnAssign(self, node):
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def _whole(self, node):
        return self.expression(f"{OPERATORS}.whole(value_)", node, value_=node)


def _hashable(x: Any) -> bool:
    return type(x).__hash__ is not None
