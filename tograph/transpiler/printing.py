"""From a syntax tree of the running Python's ``ast`` to source for people, with a map of its lines.

Model. ``Printer`` is one class in four files: ``Writer`` holds text, lines and parentheses,
``Statements`` and ``Quoting`` print what their names say, and this file prints expressions. It
replaces what astunparse lacks: the newer nodes, parentheses by precedence, and quoting.

Invariant: ``ast.parse(to_source(tree))`` dumps as ``tree`` does, for every tree that ``ast.parse``
makes. The files of the parts hold their own invariants, and what they do not handle.
"""

import ast
import dataclasses
import io

from .quoting import Quoting
from .statements import Statements
from .writing import (
    ATOM,
    AWAIT,
    BIT_OR,
    FACTOR,
    ITEMS,
    LEVELS,
    NAMED,
    OR,
    POWER,
    PRIMARIES,
    TEST,
)

__all__ = ["Printed", "Printer", "print_tree", "to_source"]


@dataclasses.dataclass(frozen=True)
class Printed:
    """Source, and for its lines (from 1) the ``lineno`` of the user's code that each came from."""

    source: str
    line_map: dict[int, int]


def to_source(tree: ast.AST) -> str:
    """The source of a tree; a module or a statement ends with a newline, an expression does not."""
    return print_tree(tree).source


def print_tree(tree: ast.AST) -> Printed:
    """The source of a tree together with its line map."""
    buffer = io.StringIO()
    printer = Printer(tree, buffer)
    return Printed(buffer.getvalue(), printer.line_map)


class Printer(Statements, Quoting):
    """Writes the source of ``tree`` to ``file`` when constructed; ``line_map`` is its line map."""

    # Operators

    def _BinOp(self, t):
        # Down the left spine in a loop: a sum of a thousand terms is that deep.
        spine = []
        while True:
            level = LEVELS[t.op.__class__]
            right_associative = level == POWER
            spine.append((t, FACTOR if right_associative else level + 1))
            left_level = AWAIT if right_associative else level
            t = t.left
            if not isinstance(t, ast.BinOp) or LEVELS[t.op.__class__] < left_level:
                break
        self.nested(t, left_level)
        for operation, right_level in reversed(spine):
            operator = self.binop[operation.op.__class__.__name__]
            self._emit(f" {operator} ", (operation.right, right_level))

    def _UnaryOp(self, t):
        self.write("not " if isinstance(t.op, ast.Not) else self.unop[t.op.__class__.__name__])
        self.nested(t.operand, LEVELS[t.op.__class__])

    def _BoolOp(self, t):
        operator = f" {self.boolops[t.op.__class__]} "
        level = LEVELS[t.op.__class__] + 1
        for index, value in enumerate(t.values):
            self._emit(operator if index else "", (value, level))

    def _Compare(self, t):
        self.nested(t.left, BIT_OR)
        for op, comparator in zip(t.ops, t.comparators, strict=True):
            self._emit(f" {self.cmpops[op.__class__.__name__]} ", (comparator, BIT_OR))

    def _IfExp(self, t):
        self._emit((t.body, OR), " if ", (t.test, OR), " else ", (t.orelse, TEST))

    def _Lambda(self, t):
        has_arguments = t.args.posonlyargs or t.args.args or t.args.kwonlyargs
        bare = not (has_arguments or t.args.vararg or t.args.kwarg)
        self.write("lambda" if bare else "lambda ")
        self.dispatch(t.args)
        self._emit(": ", (t.body, TEST))

    def _NamedExpr(self, t):
        self._emit((t.target, ATOM), " := ", (t.value, TEST))

    def _Await(self, t):
        self._emit("await ", (t.value, ATOM))

    def _Yield(self, t):
        self.write("yield")
        self._optional(" ", t.value, ITEMS)

    def _YieldFrom(self, t):
        self._emit("yield from ", (t.value, TEST))

    # Primaries

    def _primary(self, t):
        # Down the chain `a.b(c)[d]...` in a loop, for the same reason as in _BinOp.
        chain = []
        while t.__class__ in PRIMARIES:
            chain.append(t)
            t = t.func if t.__class__ is ast.Call else t.value
        # `3.real` would be read as a float.
        number = isinstance(t, ast.Constant) and type(t.value) is int
        tight = number and isinstance(chain[-1], ast.Attribute)
        self.write("(" if tight else "")
        self.nested(t, TEST if tight else ATOM)
        self.write(")" if tight else "")
        for node in reversed(chain):
            if node.__class__ is ast.Attribute:
                self.write("." + node.attr)
            elif node.__class__ is ast.Call:
                self._call(node)
            else:
                self._subscript(node.slice)

    _Attribute = _Call = _Subscript = _primary

    def _call(self, t):
        alone = len(t.args) == 1 and not t.keywords
        if alone and isinstance(t.args[0], ast.GeneratorExp):
            self.dispatch(t.args[0])
            return
        self.write("(")
        self._arguments_of_call(t.args, t.keywords)
        self.write(")")

    def _arguments_of_call(self, args, keywords):
        self._commas(args, NAMED)
        for index, keyword in enumerate(keywords):
            self.write(", " if index or args else "")
            self.dispatch(keyword)

    def _keyword(self, t):
        self.write("**" if t.arg is None else t.arg + "=")
        self.nested(t.value, BIT_OR if t.arg is None else TEST)

    def _subscript(self, t):
        self.write("[")
        only = t.elts[0] if isinstance(t, ast.Tuple) and len(t.elts) == 1 else None
        if isinstance(only, (ast.Slice, ast.Starred)):
            # The tuple of one slice cannot stand in parentheses.
            self.dispatch(only)
            self.write(",")
        else:
            self.nested(t, ITEMS)
        self.write("]")

    def _Starred(self, t):
        self._emit("*", (t.value, BIT_OR))

    def _Slice(self, t):
        self._optional("", t.lower, TEST)
        self.write(":")
        self._optional("", t.upper, TEST)
        self._optional(":", t.step, TEST)

    # Displays and comprehensions

    def _List(self, t):
        self.write("[")
        self._commas(t.elts, NAMED)
        self.write("]")

    def _Set(self, t):
        # There is no display of the empty set.
        self.write("{" if t.elts else "{*()")
        self._commas(t.elts, NAMED)
        self.write("}")

    def _Tuple(self, t):
        if t.elts:
            self._commas(t.elts, TEST)
        else:
            self.write("()")

    def _Dict(self, t):
        self.write("{")
        for index, (key, value) in enumerate(zip(t.keys, t.values, strict=True)):
            self.write(", " if index else "")
            if key is None:
                self._emit("**", (value, BIT_OR))
            else:
                self._emit((key, TEST), ": ", (value, TEST))
        self.write("}")

    def _comprehension_in(self, brackets, element, generators):
        self._emit(brackets[0], (element, TEST))
        self._all(generators, separator="")
        self.write(brackets[1])

    def _ListComp(self, t):
        self._comprehension_in("[]", t.elt, t.generators)

    def _SetComp(self, t):
        self._comprehension_in("{}", t.elt, t.generators)

    def _GeneratorExp(self, t):
        self._comprehension_in("()", t.elt, t.generators)

    def _DictComp(self, t):
        self.write("{")
        self.nested(t.key, TEST)
        self._comprehension_in((": ", "}"), t.value, t.generators)

    def _comprehension(self, t):
        keyword = " async for " if t.is_async else " for "
        self._emit(keyword, (t.target, ITEMS), " in ", (t.iter, OR))
        for test in t.ifs:
            self._emit(" if ", (test, OR))

    # Parameters

    def _arguments(self, t):
        """The parameters of a function, each group in the order of the language."""
        positional = t.posonlyargs + t.args
        defaults = [None] * (len(positional) - len(t.defaults)) + t.defaults
        parameters = list(zip([""] * len(positional), positional, defaults, strict=True))
        if t.posonlyargs:
            parameters.insert(len(t.posonlyargs), ("/", None, None))
        if t.vararg or t.kwonlyargs:
            parameters.append(("*", t.vararg, None))
        parameters += zip([""] * len(t.kwonlyargs), t.kwonlyargs, t.kw_defaults, strict=True)
        if t.kwarg:
            parameters.append(("**", t.kwarg, None))
        for index, (mark, parameter, default) in enumerate(parameters):
            self.write((", " if index else "") + mark)
            if parameter is not None:
                self.dispatch(parameter)
                self._optional(" = " if parameter.annotation else "=", default, TEST)

    def _arg(self, t):
        self.write(t.arg)
        self._optional(": ", t.annotation, TEST)
