"""Operands that must not be evaluated yet: a lambda, or a local function where a lambda cannot hold a ``:=``."""

from __future__ import annotations

from ..transpiler.syntax import gast
from ..transpiler.templates import name
from .class_scopes import given_scope, is_of_class
from .context import Converter, has_walrus, walrus_names


def thunk(pass_: Converter, node: gast.expr) -> gast.expr:
    """``lambda: node``; a ``:=`` inside binds in the function around, as it would in place."""
    if not has_walrus(node) or is_of_class(pass_.context, node):
        return given_scope(pass_, pass_.expression("lambda: value_", node, value_=pass_.visit(node)))  # fmt: skip
    fresh = pass_.context.namer.fresh("operand")
    names = walrus_names(node)
    outer, pass_.prelude = pass_.prelude, []
    value = pass_.visit(node)
    inner, pass_.prelude = pass_.prelude, outer
    made = pass_.fill("def name_():\n    return value_", node, name_=fresh, value_=value)[0]
    made.generated = True
    made.body = [gast.copy_location(gast.Nonlocal(names), node), *inner, *made.body]
    pass_.prelude.append(made)
    return gast.copy_location(name(fresh), node)
