"""Text, lines and parentheses: what the printers of statements, strings and expressions stand on.

Model. ``Writer`` keeps astunparse's scheme (``dispatch`` calls one method ``_NodeName`` per node
class; ``fill`` starts a line, ``enter`` and ``leave`` indent). Text collects in ``_parts`` and goes
to the file once, at the end.

Invariants:

* An expression inside another is printed by ``nested(node, level)``, which alone decides on
  parentheses; ``level`` is the weakest binding that may stand bare at that place.
* An output line belongs to the first statement or expression with a ``lineno`` that writes on it.
  A line with no such writer (a blank one, a generated one) is not in ``line_map``. A decorator, an
  ``elif``, an ``except`` and a ``case`` count as writers; ``else:`` and ``finally:`` belong to the
  statement before them.
"""

import ast
import contextlib
import sys

import astunparse

from .. import stacks

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

INFINITY = f"1e{sys.float_info.max_10_exp + 1}"
# Deep enough for whatever the parser accepts; shallow enough that a cyclic tree fails cleanly.
RECURSION_LIMIT = 12_000


@contextlib.contextmanager
def deep_recursion():
    """Trees nest deeper than the default recursion limit; calls of Python functions are cheap."""
    with stacks.LIMIT.raised(frames=RECURSION_LIMIT):
        yield


def _level(node: ast.expr) -> int:
    """How tightly the text of an expression binds, before any parentheses."""
    if isinstance(node, OPERATIONS):
        return LEVELS[node.op.__class__]
    if isinstance(node, ast.Tuple):
        return (ATOM, ALWAYS_IN_PARENTHESES, ITEMS)[min(len(node.elts), 2)]
    if isinstance(node, ast.Constant):
        number = isinstance(node.value, (int, float, complex))
        return FACTOR if number and constant(node.value).startswith("-") else ATOM
    return LEVELS.get(node.__class__, ATOM)


def constant(value) -> str:
    """The text of a constant that is no string."""
    if isinstance(value, tuple):  # only in trees of an optimiser
        inside = ", ".join(map(constant, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, (float, complex)):
        text = repr(value).replace("inf", INFINITY)
        text = text.replace("nanj", f"({INFINITY}j-{INFINITY}j)")
        return text.replace("nan", f"({INFINITY}-{INFINITY})")
    if isinstance(value, int) and value.bit_length() > 10_000:
        return hex(value)  # decimal digits beyond a limit are refused, both ways
    return repr(value)


class Writer(astunparse.Unparser):
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
        with deep_recursion():
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
