"""From a syntax tree of the running Python's ``ast`` to source for people, with a map of its lines.

Model. ``Printer`` keeps astunparse's scheme (one method ``_NodeName`` per node class, which calls
``write``, ``fill``, ``enter``, ``leave`` and ``dispatch``) and replaces what astunparse lacks: the
newer nodes, parentheses by precedence, and quoting. Text collects in ``_parts`` and goes to the
file once, at the end.

Invariants:

* ``ast.parse(to_source(tree))`` dumps as ``tree`` does, for every tree that ``ast.parse`` makes.
* An expression inside another is printed by ``nested(node, level)``, which alone decides on
  parentheses; ``level`` is the weakest binding that may stand bare at that place.
* An output line belongs to the first statement or expression with a ``lineno`` that writes on it.
  A line with no such writer (a blank one, a generated one) is not in ``line_map``. A decorator, an
  ``elif``, an ``except`` and a ``case`` count as writers; ``else:`` and ``finally:`` belong to the
  statement before them.
* Before Python 3.12 a string inside a replacement field may hold neither a quote that encloses it
  nor a backslash. ``_quotes`` holds the quotes still free; None means that anything goes.

Not handled: type comments (dropped), and, before Python 3.12, a field whose strings no quotes can
hold. No source can express that; the printer raises ValueError.
"""

import ast
import contextlib
import dataclasses
import io
import re
import sys

import astunparse

__all__ = ["Printed", "Printer", "print_tree", "to_source"]

# How tightly an expression binds; a node needs parentheses where a tighter level is asked for.
# BARE is the right of `=` (a bare yield is fine), ITEMS takes a bare tuple, NAMED a bare `:=`.
BARE, ITEMS, NAMED, TEST, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND = range(11)
SHIFT, SUM, TERM, FACTOR, POWER, AWAIT, ATOM = range(11, 18)
ALWAYS_IN_PARENTHESES = -1

_CLASSES_OF_LEVELS = {
    BARE: "Yield YieldFrom",
    NAMED: "NamedExpr",
    TEST: "Lambda IfExp",
    OR: "Or",
    AND: "And",
    NOT: "Not",
    COMPARE: "Compare",
    BIT_OR: "BitOr",
    BIT_XOR: "BitXor",
    BIT_AND: "BitAnd",
    SHIFT: "LShift RShift",
    SUM: "Add Sub",
    TERM: "Mult MatMult Div Mod FloorDiv",
    FACTOR: "UAdd USub Invert",
    POWER: "Pow",
    AWAIT: "Await",
}
LEVELS = {
    getattr(ast, name): level
    for level, names in _CLASSES_OF_LEVELS.items()
    for name in names.split()
}
OPERATIONS = (ast.BinOp, ast.BoolOp, ast.UnaryOp)
PRIMARIES = (ast.Attribute, ast.Call, ast.Subscript)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

# PEP 701: inside a replacement field any quotes and backslashes may stand.
FREE_FIELDS = sys.version_info >= (3, 12)
QUOTES = ('"', "'", '"""', "'''")
INFINITY = f"1e{sys.float_info.max_10_exp + 1}"
# Deep enough for whatever the parser accepts; shallow enough that a cyclic tree fails cleanly.
RECURSION_LIMIT = 12_000

_SPECIAL = re.compile(r"[^\x20-\x7e]|\\")
_SPECIAL_IN_DOCSTRING = re.compile(r"[^\n\t\x20-\x7e]|\\")
# What no literal can hold unescaped, by the length of its quotes.
_IMPOSSIBLE = {1: re.compile("[\\\\\n\r\0\ud800-\udfff]"), 3: re.compile("[\\\\\r\0\ud800-\udfff]")}


class _NoQuotesLeft(ValueError):
    """A string inside a replacement field fits between none of the quotes that are still free."""


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


@contextlib.contextmanager
def _deep_recursion():
    """Trees nest deeper than the default recursion limit; calls of Python functions are cheap."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _level(node: ast.expr) -> int:
    """How tightly the text of an expression binds, before any parentheses."""
    if isinstance(node, OPERATIONS):
        return LEVELS[node.op.__class__]
    if isinstance(node, ast.Tuple):
        return (ATOM, ALWAYS_IN_PARENTHESES, ITEMS)[min(len(node.elts), 2)]
    if isinstance(node, ast.Constant):
        number = isinstance(node.value, (int, float, complex))
        return FACTOR if number and _constant(node.value).startswith("-") else ATOM
    return LEVELS.get(node.__class__, ATOM)


def _constant(value) -> str:
    """The text of a constant that is no string."""
    if isinstance(value, tuple):  # only in trees of an optimiser
        inside = ", ".join(map(_constant, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, (float, complex)):
        text = repr(value).replace("inf", INFINITY)
        text = text.replace("nanj", f"({INFINITY}j-{INFINITY}j)")
        return text.replace("nan", f"({INFINITY}-{INFINITY})")
    if isinstance(value, int) and value.bit_length() > 10_000:
        return hex(value)  # decimal digits beyond a limit are refused, both ways
    return repr(value)


def _escape(value: str | bytes, special: re.Pattern = _SPECIAL) -> str:
    """The inside of a literal, with every character but the quotes escaped where it must be."""
    if isinstance(value, bytes):
        special = special if value.isascii() else _SPECIAL
        return special.sub(lambda m: ascii(m[0])[1:-1], value.decode("latin-1"))
    return special.sub(lambda m: repr(m[0])[1:-1], value)


def _escape_quotes(text: str, quote: str) -> str:
    """Escaped text that may stand between two of ``quote``."""
    if len(quote) == 1:
        return text.replace(quote, "\\" + quote)
    end = text[-1:] if text.endswith(quote[0]) else ""
    text = text.removesuffix(end).replace(quote, ("\\" + quote[0]) * 3)
    return text + end.replace(quote[0], "\\" + quote[0])


def _docstring(value: str) -> str:
    """The triple-quoted literal of a docstring, raw where that saves doubled backslashes."""
    plain = not _SPECIAL_IN_DOCSTRING.search(value.replace("\\", ""))
    if "\\" in value and plain and '"""' not in value and value[-1] not in '"\\':
        return f'r"""{value}"""'
    return f'"""{_escape_quotes(_escape(value, _SPECIAL_IN_DOCSTRING), QUOTES[2])}"""'


def _joined(pieces: list[tuple[bool, str]], quote: str) -> str:
    """The pieces of a string with fields, as they stand between ``quote``."""
    return "".join(text if is_code else _escape_quotes(text, quote) for is_code, text in pieces)


def _free_inside(quote: str, free: tuple[str, ...]) -> tuple[str, ...]:
    """The quotes that a replacement field between two of ``quote`` may still use."""
    if len(quote) == 3:
        return tuple(q for q in free if q != quote)
    # A triple-quoted literal holds line ends, which one-character quotes around it forbid.
    return tuple(q for q in free if len(q) == 1 and q != quote)


def _ends_in_lambda(node: ast.expr) -> bool:
    while isinstance(node, ast.IfExp):
        node = node.orelse
    return isinstance(node, ast.Lambda)


class Printer(astunparse.Unparser):
    """Writes the source of ``tree`` to ``file`` when constructed; ``line_map`` is its line map."""

    def __init__(self, tree: ast.AST, file=sys.stdout):
        self.f = file
        self.line_map: dict[int, int] = {}
        self._indent = 0
        self._parts: list[str] = []
        self._line = 1
        self._origin: int | None = None  # lineno of the statement being printed
        self._claimed = False  # whether the output line at hand has its entry, or needs none
        self._quotes: tuple[str, ...] | None = None
        self._fields = 0  # depth of replacement fields; their text is not yet on a line
        self._methods: dict[type, object] = {}
        with _deep_recursion():
            self._root(tree)
        file.write("".join(self._parts))

    def _root(self, tree):
        if isinstance(tree, ast.stmt):
            tree = [tree]
        if isinstance(tree, ast.expr):
            self.nested(tree, TEST)
        else:
            self.dispatch(tree)
        if isinstance(tree, (list, ast.Module, ast.Interactive, ast.ExceptHandler, ast.match_case)):
            self.write("\n")

    # Text and lines

    def write(self, text):
        self._parts.append(text)

    def fill(self, text="", origin=None):
        """Start a line; ``origin`` is the node it belongs to where that is not the statement."""
        if self._parts:
            self._parts.append("\n")
            self._line += 1
        self._parts.append("    " * self._indent + text)
        self._claimed = False
        self._claim(self._origin if origin is None else getattr(origin, "lineno", None))

    def _claim(self, lineno):
        if lineno is not None:
            self.line_map[self._line] = lineno
            self._claimed = True

    def _write_lines(self, text, node):
        """Write a literal that may hold line ends; the lines it adds are those of ``node``."""
        self.write(text)
        if self._fields == 0:
            for _ in range(text.count("\n")):
                self._line += 1
                self._claimed = False
                self._claim(getattr(node, "lineno", self._origin))

    def dispatch(self, tree):
        cls = tree.__class__
        if cls is list:
            self._suite(tree)
            return
        if not self._claimed:
            self._claim(getattr(tree, "lineno", None))
        method = self._methods.get(cls)
        if method is None:
            method = self._methods[cls] = getattr(self, "_" + cls.__name__)
        method(tree)

    def nested(self, node, level):
        """Print an expression, in parentheses if it binds more weakly than ``level``."""
        cls = node.__class__
        if cls is ast.Name or cls in PRIMARIES:
            self.dispatch(node)
            return
        own = _level(node)
        if own < level or (own == NAMED != level):
            self.write("(")
            self.dispatch(node)
            self.write(",)" if own == ALWAYS_IN_PARENTHESES else ")")
        else:
            self.dispatch(node)

    def _commas(self, nodes, level):
        for index, node in enumerate(nodes):
            self.write(", " if index else "")
            self.nested(node, level)

    def _all(self, nodes, separator=", "):
        """Nodes that are no expressions, which write any parentheses of their own."""
        for index, node in enumerate(nodes):
            self.write(separator if index else "")
            self.dispatch(node)

    def _emit(self, *parts):
        """Write a form part by part: text, or an expression and its level."""
        for part in parts:
            if isinstance(part, str):
                self.write(part)
            else:
                self.nested(*part)

    def _optional(self, text, node, level):
        """``text`` and then ``node``, where there is a node."""
        if node is not None:
            self.write(text)
            self.nested(node, level)

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
        text = "u" + repr(node.value) if marked else _docstring(node.value)
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

    # Literals

    def _Constant(self, t):
        value = t.value
        if isinstance(value, (str, bytes)):
            prefix = "b" if isinstance(value, bytes) else "u" if t.kind == "u" else ""
            self._write_lines(self._literal(value, prefix), t)
        elif value is Ellipsis:
            self.write("...")
        else:
            self.write(_constant(value))

    def _literal(self, value, prefix):
        """A string or bytes literal between quotes that are free here."""
        text = repr(value).removeprefix("b")
        if self._quotes is None:
            return prefix + text
        for quote in sorted(self._quotes, key=lambda quote: quote != text[0]):
            inside = _escape_quotes(_escape(value, self._special(quote)), quote)
            if FREE_FIELDS or "\\" not in inside:
                return prefix + quote + inside + quote
        raise _NoQuotesLeft(f"no quotes are left for {prefix}{text} inside an f-string")

    def _special(self, quote):
        """What to escape between ``quote`` here; where no backslash may stand, the least."""
        return _SPECIAL if self._quotes is None or FREE_FIELDS else _IMPOSSIBLE[len(quote)]

    # Strings with fields: f-strings, and the template strings of 3.14

    def _JoinedStr(self, t):
        marked = [isinstance(v, ast.Constant) and v.kind == "u" for v in t.values]
        if not any(marked):
            self._write_lines(self._string_with_fields("f", t.values), t)
            return
        # `u"a" f"{x}"` marks its constants; before 3.12 the first literal marks all of them.
        texts = [] if marked[0] or FREE_FIELDS else ["u''"]
        run = []
        for value, is_marked in zip(t.values, marked, strict=True):
            if not is_marked:
                run.append(value)
                continue
            if run:
                texts.append(self._string_with_fields("f", run))
            texts.append(self._literal(value.value, "u"))
            run = []
        if run or all(marked):
            texts.append(self._string_with_fields("f", run))
        self._write_lines(" ".join(texts), t)

    def _TemplateStr(self, t):
        self._write_lines(self._string_with_fields("t", t.values), t)

    def _FormattedValue(self, t):
        self._write_lines(self._string_with_fields("f", [t]), t)

    def _Interpolation(self, t):
        self._write_lines(self._string_with_fields("t", [t]), t)

    def _string_with_fields(self, prefix, values):
        """An f-string or t-string: the first quotes between which all of its fields can stand."""
        failure = _NoQuotesLeft("no quotes are left for an f-string inside an f-string")
        free = QUOTES if self._quotes is None else self._quotes
        for quote in free:
            try:
                pieces = self._pieces(values, quote, _free_inside(quote, free))
                return prefix + self._join_pieces(pieces, quote, free)
            except _NoQuotesLeft as error:
                failure = error
        if not FREE_FIELDS:
            raise failure
        quote = QUOTES[0]
        return prefix + quote + _joined(self._pieces(values, quote, None), quote) + quote

    def _join_pieces(self, pieces, quote, free):
        """Pieces between quotes; if no field has quotes, the ones that repr would choose."""
        code = "".join(text for is_code, text in pieces if is_code)
        if quote in code:
            raise _NoQuotesLeft(f"a field of an f-string holds {quote}")
        if len(quote) == 1 and not re.search("['\"]", code):
            likely = repr("".join(text for is_code, text in pieces if not is_code))[0]
            quote = likely if likely in free else quote
        inside = _joined(pieces, quote)
        if "\\" in inside and self._quotes is not None and not FREE_FIELDS:
            raise _NoQuotesLeft("an f-string inside an f-string needs a backslash")
        return quote + inside + quote

    def _pieces(self, values, quote, free, in_format=False):
        """The parts of a string as pairs (is code, text); literal text has no quotes escaped."""
        pieces = []
        for value in values:
            if isinstance(value, ast.JoinedStr):
                pieces += self._pieces(value.values, quote, free, in_format)
            elif isinstance(value, ast.Constant):
                text = _escape(value.value, self._special(quote))
                # A doubled brace does not stand for a brace in a format specification.
                braces = ("\\x7b", "\\x7d") if in_format else ("{{", "}}")
                text = text.translate(dict(zip(map(ord, "{}"), braces, strict=True)))
                pieces.append((False, text))
            else:
                pieces += self._field(value, quote, free)
        return pieces

    def _field(self, t, quote, free):
        code = self._verbatim(t) or self._code(t.value, free)
        code = ("{ " if code.startswith("{") else "{") + code
        if t.conversion is not None and t.conversion != -1:
            code += "!" + chr(t.conversion)
        if t.format_spec is None:
            return [(True, code + "}")]
        specification = self._pieces([t.format_spec], quote, free, in_format=True)
        return [(True, code + ":"), *specification, (True, "}")]

    def _code(self, node, quotes):
        """The text of an expression that stands in a replacement field."""
        saved = self._parts, self._quotes
        self._parts, self._quotes = [], quotes
        self._fields += 1
        try:
            # The colon of a bare lambda would start the format specification.
            self.nested(node, OR if _ends_in_lambda(node) else TEST)
            return "".join(self._parts)
        finally:
            self._fields -= 1
            self._parts, self._quotes = saved

    def _verbatim(self, t):
        """The text that an Interpolation remembers, as long as it still means the expression."""
        text = getattr(t, "str", None)
        if not isinstance(text, str):
            return None
        try:
            (field,) = ast.parse(f'f"{{ {text}}}"', mode="eval").body.values
        except (SyntaxError, ValueError):
            return None
        bare = isinstance(field, ast.FormattedValue) and field.conversion == -1
        same = bare and field.format_spec is None and ast.dump(field.value) == ast.dump(t.value)
        return text if same else None
