"""Statements: bodies, definitions, type parameters, match statements and their patterns.

Model. A statement starts its lines with ``fill`` and prints its blocks through ``_suite``, which
tells each line the statement that it comes from. Patterns write any parentheses of their own.

Invariant: within ``_suite``, ``_origin`` is the ``lineno`` of the statement being printed; when the
suite ends it has its former value again.

Not handled: type comments (dropped).
"""

import ast

from .quoting import docstring
from .writing import ATOM, BARE, BIT_OR, ITEMS, NAMED, TEST, Writer

__all__ = ["Statements"]

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Statements(Writer):
    """Prints statements and patterns."""

    # Bodies

    def _suite(self, body, spaced=False, documented=False):
        """The statements of a body; ``spaced`` sets off definitions, ``documented`` may open so."""
        outer = self._origin
        for index, statement in enumerate(body):
            neighbours = body[max(index - 1, 0) : index + 1]
            if spaced and index and any(isinstance(s, DEFINITIONS) for s in neighbours):
                self._parts.append("\n")
                self._line += 1
            self._origin = getattr(statement, "lineno", None)
            self._claimed = True  # the line above is complete; this statement must not claim it
            if documented and index == 0 and self._is_docstring(statement):
                self._documentation(statement.value)
            else:
                self.dispatch(statement)
        self._origin = outer

    def _block(self, body, **layout):
        self.enter()
        self._suite(body, **layout)
        self.leave()

    def _is_docstring(self, statement):
        value = statement.value if isinstance(statement, ast.Expr) else None
        return isinstance(value, ast.Constant) and isinstance(value.value, str)

    def _documentation(self, node):
        self.fill()
        marked = node.kind == "u"
        text = "u" + repr(node.value) if marked else docstring(node.value)
        self._write_lines(text, node)

    def _Module(self, t):
        self._suite(t.body, spaced=True, documented=True)

    def _Interactive(self, t):
        self._suite(t.body)

    def _Expression(self, t):
        self.nested(t.body, ITEMS)

    def _FunctionType(self, t):
        self.write("(")
        self._commas(t.argtypes, TEST)
        self._emit(") -> ", (t.returns, TEST))

    # Simple statements

    def _Expr(self, t):
        self.fill()
        self.nested(t.value, BARE)

    def _ImportFrom(self, t):
        self.fill(f"from {'.' * (t.level or 0)}{t.module or ''} import ")
        self._all(t.names)

    def _Assign(self, t):
        self.fill()
        for target in t.targets:
            self._emit((target, ITEMS), " = ")
        self.nested(t.value, BARE)

    def _AugAssign(self, t):
        self.fill()
        operator = self.binop[t.op.__class__.__name__]
        self._emit((t.target, TEST), f" {operator}= ", (t.value, BARE))

    def _AnnAssign(self, t):
        bare = t.simple or not isinstance(t.target, ast.Name)
        self.fill("" if bare else "(")
        self._emit((t.target, TEST), ": " if bare else "): ", (t.annotation, TEST))
        self._optional(" = ", t.value, BARE)

    def _TypeAlias(self, t):
        self.fill(f"type {t.name.id}")
        self._type_params(t)
        self._emit(" = ", (t.value, TEST))

    def _Return(self, t):
        self.fill("return")
        self._optional(" ", t.value, ITEMS)

    def _Delete(self, t):
        self.fill("del ")
        self._commas(t.targets, TEST)

    def _Assert(self, t):
        self.fill("assert ")
        self.nested(t.test, TEST)
        self._optional(", ", t.msg, TEST)

    def _Raise(self, t):
        self.fill("raise")
        self._optional(" ", t.exc, TEST)
        self._optional(" from ", t.cause, TEST)

    # Compound statements

    def _If(self, t):
        self.fill("if ")
        while True:
            self.nested(t.test, NAMED)
            self._block(t.body)
            if len(t.orelse) != 1 or not isinstance(t.orelse[0], ast.If):
                break
            t = t.orelse[0]
            self._origin = getattr(t, "lineno", None)
            self.fill("elif ")
        self._clause("else", t.orelse)

    def _clause(self, keyword, body):
        if body:
            self.fill(keyword)
            self._block(body)

    def _While(self, t):
        self.fill("while ")
        self.nested(t.test, NAMED)
        self._block(t.body)
        self._clause("else", t.orelse)

    def _For(self, t, keyword="for "):
        self.fill(keyword)
        self._emit((t.target, ITEMS), " in ", (t.iter, ITEMS))
        self._block(t.body)
        self._clause("else", t.orelse)

    def _AsyncFor(self, t):
        self._For(t, "async for ")

    def _With(self, t, keyword="with "):
        self.fill(keyword)
        # `with (a, b):` is two items; a tuple as the one item needs parentheses of its own.
        lone_tuple = len(t.items) == 1 and isinstance(t.items[0].context_expr, ast.Tuple)
        doubled = lone_tuple and t.items[0].optional_vars is None
        self.write("(" if doubled else "")
        self._all(t.items)
        self.write(")" if doubled else "")
        self._block(t.body)

    def _AsyncWith(self, t):
        self._With(t, "async with ")

    def _withitem(self, t):
        self.nested(t.context_expr, TEST)
        self._optional(" as ", t.optional_vars, TEST)

    def _Try(self, t, keyword="except"):
        self.fill("try")
        self._block(t.body)
        for handler in t.handlers:
            self._ExceptHandler(handler, keyword)
        self._clause("else", t.orelse)
        self._clause("finally", t.finalbody)

    def _TryStar(self, t):
        self._Try(t, "except*")

    def _ExceptHandler(self, t, keyword="except"):
        self.fill(keyword, t)
        self._optional(" ", t.type, TEST)
        if t.name:
            self.write(f" as {t.name}")
        self._block(t.body)

    def _decorators(self, t):
        for decorator in t.decorator_list:
            self.fill("@", decorator)
            self.nested(decorator, TEST)

    def _ClassDef(self, t):
        self._decorators(t)
        self.fill(f"class {t.name}")
        self._type_params(t)
        if t.bases or t.keywords:
            self.write("(")
            self._arguments_of_call(t.bases, t.keywords)
            self.write(")")
        self._block(t.body, spaced=True, documented=True)

    def _FunctionDef(self, t, keyword="def"):
        self._decorators(t)
        self.fill(f"{keyword} {t.name}")
        self._type_params(t)
        self.write("(")
        self.dispatch(t.args)
        self.write(")")
        self._optional(" -> ", t.returns, TEST)
        self._block(t.body, documented=True)

    def _AsyncFunctionDef(self, t):
        self._FunctionDef(t, "async def")

    # Type parameters (3.12) and their defaults (3.13)

    def _type_params(self, t):
        if getattr(t, "type_params", None):
            self.write("[")
            self._all(t.type_params)
            self.write("]")

    def _TypeVar(self, t, stars=""):
        self.write(stars + t.name)
        self._optional(": ", getattr(t, "bound", None), TEST)
        self._optional(" = ", getattr(t, "default_value", None), TEST)

    def _TypeVarTuple(self, t):
        self._TypeVar(t, "*")

    def _ParamSpec(self, t):
        self._TypeVar(t, "**")

    # Match statements and patterns

    def _Match(self, t):
        self.fill("match ")
        self.nested(t.subject, NAMED)
        self.enter()
        for case in t.cases:
            self.dispatch(case)
        self.leave()

    def _match_case(self, t):
        self.fill("case ", t.pattern)
        self.dispatch(t.pattern)
        self._optional(" if ", t.guard, NAMED)
        self._block(t.body)

    def _closed_pattern(self, t, weak):
        """A pattern, in parentheses if it is one of the weakly binding classes."""
        alone = isinstance(t, weak) and getattr(t, "pattern", t) is not None
        self.write("(" if alone else "")
        self.dispatch(t)
        self.write(")" if alone else "")

    def _MatchValue(self, t):
        self.nested(t.value, BIT_OR)

    def _MatchSingleton(self, t):
        self.write(repr(t.value))

    def _MatchSequence(self, t):
        self.write("[")
        self._all(t.patterns)
        self.write("]")

    def _MatchStar(self, t):
        self.write(f"*{t.name or '_'}")

    def _MatchMapping(self, t):
        self.write("{")
        for index, (key, pattern) in enumerate(zip(t.keys, t.patterns, strict=True)):
            self._emit(", " if index else "", (key, BIT_OR), ": ")
            self.dispatch(pattern)
        if t.rest:
            self.write(f"{', ' if t.keys else ''}**{t.rest}")
        self.write("}")

    def _MatchClass(self, t):
        self.nested(t.cls, ATOM)
        self.write("(")
        self._all(t.patterns)
        for index, (name, pattern) in enumerate(zip(t.kwd_attrs, t.kwd_patterns, strict=True)):
            self.write(f"{', ' if index or t.patterns else ''}{name}=")
            self.dispatch(pattern)
        self.write(")")

    def _MatchAs(self, t):
        if t.pattern is not None:
            self._closed_pattern(t.pattern, ast.MatchAs)
            self.write(" as ")
        self.write(t.name or "_")

    def _MatchOr(self, t):
        for index, pattern in enumerate(t.patterns):
            self.write(" | " if index else "")
            self._closed_pattern(pattern, (ast.MatchAs, ast.MatchOr))
