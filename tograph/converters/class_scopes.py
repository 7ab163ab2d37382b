"""Names of a class body in operands that run later: a ``lambda`` in a class does not see what the class binds.

::

    class K:                                class K:
        n = 2                       ->          n = 2
        m = n if c else 0                       m = ag__.if_exp(c, lambda scope=ag__.class_scope(): ag__.class_name(scope, 'n', lambda: n), ...)

Statements of the body are Python's own: a condition of one is refused where only the run knows it.

``scope`` is the namespace of the class as the statement finds it; a name that is not bound there is that of the function around, or a
global, as in Python. Nodes are marked before operands become functions (``thunks``, ``asserts``), which take what is marked.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from ..errors import GraphBoolError
from ..runtime.symbols.funcgraph import user_location
from ..transpiler.binders import binds
from ..transpiler.syntax import children, gast, walk
from ..transpiler.templates import constant
from .context import FUNCTIONS, OPERATORS, Context, Converter, own_statements
from .staging import is_symbolic

_MARK = "of_class"


class ClassScopes(Converter):
    """Marks the nodes that read or bind a name of a class body."""

    def visit_ClassDef(self, node):
        nodes = list(_of_scope(node.body))
        bound = {n for inner in nodes for n in binds(inner)} - _declared(node)
        for inner in nodes:
            if _named(inner) in bound:
                setattr(inner, _MARK, True)
                self.context.class_names = True
        for inner in (node, *(n for n in nodes if not isinstance(n, (*FUNCTIONS, gast.ClassDef)))):
            for block in (getattr(inner, name, None) for name in ("body", "orelse", "finalbody")):
                if isinstance(block, list):
                    block += self._without(block)
            if inner.__class__ in (gast.If, gast.While):
                inner.test = self.expression(f"{OPERATORS}.class_test(x_)", inner.test, x_=inner.test)  # fmt: skip
        return self.generic_visit(node)

    def _without(self, block: list[gast.stmt]) -> list[gast.stmt]:
        """Functions that stand in the place of comprehensions are no attributes of the class."""
        return [self.fill("del name_", s, name_=s.name)[0] for s in block if _is_made(s)]


def _of_scope(body: list[gast.stmt]) -> Iterator[gast.AST]:
    """The nodes of a class body that run in it: of a function its defaults and decorators."""
    todo: list[gast.AST] = list(body)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, FUNCTIONS):
            todo += getattr(node, "decorator_list", [])
            todo += [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
        elif isinstance(node, gast.ClassDef):
            todo += [*node.decorator_list, *node.bases, *node.keywords]
        else:
            todo += children(node)


def _is_made(statement: gast.stmt) -> bool:
    return isinstance(statement, gast.FunctionDef) and getattr(statement, "generated", False)


def _declared(node: gast.ClassDef) -> set[str]:
    found = [n for n in own_statements(node) if isinstance(n, (gast.Global, gast.Nonlocal))]
    return {name for n in found for name in n.names}


def _named(node: gast.AST) -> str | None:
    """The name that a node reads, or binds as a part of an expression."""
    if isinstance(node, gast.NamedExpr):
        return node.target.id
    loads = isinstance(node, gast.Name) and isinstance(node.ctx, gast.Load)
    return node.id if loads else None


def is_of_class(context: Context, node: gast.AST) -> bool:
    """Whether an expression of a class body reads or binds names of that class."""
    return context.class_names and any(getattr(n, _MARK, False) for n in walk(node))


def given_scope(pass_: Converter, made: gast.Lambda) -> gast.Lambda:
    """A ``lambda`` that was made of an operand, with the namespace of the class as a default."""
    if not is_of_class(pass_.context, made.body):
        return made
    scope = pass_.context.namer.fresh("scope")
    made.body = _FromScope(pass_, scope).visit(made.body)
    default = pass_.expression(f"{OPERATORS}.class_scope()", made)
    setattr(default, _MARK, True)  # an operand around this one has the namespace
    made.args.args.append(gast.copy_location(gast.Name(scope, gast.Param(), None, None), made))
    made.args.defaults.append(default)
    return made


class _FromScope(gast.NodeTransformer):
    def __init__(self, pass_: Converter, scope: str):
        self.pass_, self.scope = pass_, scope

    def visit(self, node: gast.AST) -> Any:
        if not getattr(node, _MARK, False):
            return self.generic_visit(node)
        if isinstance(node, gast.Call):
            return self.pass_.expression(self.scope, node)
        name = constant(_named(node))
        if isinstance(node, gast.NamedExpr):
            text = f"({OPERATORS}.setitem({self.scope}, name_, value_), {OPERATORS}.getitem({self.scope}, name_))[1]"
            return self.pass_.expression(text, node, name_=name, value_=self.visit(node.value))
        text = f"{OPERATORS}.class_name({self.scope}, name_, lambda: outer_)"
        return self.pass_.expression(text, node, name_=name, outer_=node.id)


# ---- the operators


def class_test(x: Any) -> Any:
    """The condition of an ``if`` or ``while`` in the body of a class."""
    if is_symbolic(x):
        raise GraphBoolError(
            "the condition of a statement in the body of a class is known only when the graph runs, and such a statement is Python's own: compute "
            "what depends on it before the class, or write `a if c else b`",
            user_location(),
        )
    return x


class_scope = builtins.locals  # of C, so that it is the namespace of the code that calls it


def class_name(scope: dict[str, Any], name: str, outer: Any) -> Any:
    """A name as the body of a class sees it."""
    return scope[name] if name in scope else outer()
