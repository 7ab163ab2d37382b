"""The syntax tree that the transpiler works on: gast, the one form that spans Python versions.

This is the only file that imports gast. Every other module takes the node classes from here, so a
change of gast (or its removal) touches one file.
"""

import ast
from collections.abc import Collection, Iterator

import gast
from gast.ast3 import Ast3ToGAst, GAstToAst3

from ..syntax_trees import parse
from .trees import Alike, AlikeToAst, Kinds, placed

__all__ = [
    "FIELDS_WITH_NODES",
    "children",
    "copy_location",
    "from_ast",
    "gast",
    "parse_expression",
    "parse_statements",
    "to_ast",
    "walk",
]


class _ToGast(Alike, Ast3ToGAst):
    kinds = Kinds(gast)


class _ToAst(AlikeToAst, GAstToAst3):
    kinds = Kinds(ast)


def from_ast(node: ast.AST) -> gast.AST:
    """The gast form of a tree of the running Python's ``ast``; positions are kept."""
    return _ToGast().visit(node)


def to_ast(node: gast.AST) -> ast.AST:
    """The running Python's ``ast`` form of a gast tree, with missing positions filled in."""
    return placed(_ToAst().visit(node))


def parse_statements(source: str) -> list[gast.stmt]:
    """The statements of a piece of source."""
    return from_ast(parse(source)).body


def parse_expression(source: str) -> gast.expr:
    """The one expression that a piece of source is."""
    return from_ast(parse(source, mode="eval")).body


# Fields that hold text, numbers, contexts (Load, Store, ...) or operators: no nodes with something below them.
_PLAIN = frozenset(
    {"arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level", "lineno", "module",
     "nl", "op", "ops", "rest", "simple", "str", "tag", "type_comment"}
)  # fmt: skip


_LITERALS = (gast.Constant, gast.MatchSingleton)  # their values are no nodes


class _Fields(dict[type[gast.AST], tuple[str, ...]]):
    """By class of nodes: the fields that may hold nodes other than contexts and operators, or lists of them.

    A dict: asking a function for each node of each walk takes as long as the rest of the walk.
    """

    def __missing__(self, kind: type[gast.AST]) -> tuple[str, ...]:
        plain = _PLAIN | {"value"} if issubclass(kind, _LITERALS) else _PLAIN
        self[kind] = tuple(f for f in kind._fields if f not in plain)
        return self[kind]


FIELDS_WITH_NODES = _Fields()


def children(node: gast.AST) -> list[gast.AST]:
    """The nodes right below a node, in the order of its fields, but for contexts and operators."""
    out: list[gast.AST] = []
    kind = node.__class__
    if kind is gast.Name:  # more than half of all nodes
        if node.annotation is not None:
            out.append(node.annotation)
        return out
    fields = node.__dict__
    for name in FIELDS_WITH_NODES[kind]:
        value = fields.get(name)
        if value is None:
            continue
        if value.__class__ is list:
            if value:
                out += [v for v in value if isinstance(v, gast.AST)]
        elif isinstance(value, gast.AST):
            out.append(value)
    return out


def walk(root: gast.AST) -> Iterator[gast.AST]:
    """A node and all nodes below it, level by level, but for contexts and operators; a node may change once it was given."""
    level = [root]
    while level:
        yield from level
        level = [child for node in level for child in children(node)]


_POSITION = ("lineno", "col_offset", "end_lineno", "end_col_offset")


def _end_of_head(statement: gast.stmt) -> dict[str, int]:
    """Where what a compound statement begins with ends (its test, sequence, subject, last item), if it ends in the statement's first line."""
    if isinstance(statement, (gast.Try, gast.TryStar)):
        return {"end_col_offset": statement.col_offset + len("try")}
    head = None
    for field in ("test", "iter", "subject"):
        head = head or getattr(statement, field, None)
    if isinstance(statement, (gast.With, gast.AsyncWith)):
        head = statement.items[-1].optional_vars or statement.items[-1].context_expr
    if head is None or head.end_lineno != statement.lineno:
        return {}
    return {"end_col_offset": head.end_col_offset}


def copy_location(node: gast.AST, origin: gast.AST, placed: Collection[gast.AST] = ()) -> gast.AST:
    """Give ``node``, and every node below it that has no position, the position of ``origin``.

    An attribute gets the start only: a call whose callee ended lines later would be reported at that line. What stands for
    a statement of several lines, which are not one expression to point at, gets its head up to the end of what decides it
    (``if x > 0``), or the start if that ends in another line. Nodes of ``placed`` that have a position are left as they
    are, with all below them.
    """
    place = {k: v for k in _POSITION if (v := getattr(origin, k, None)) is not None}
    if "lineno" not in place:
        return node
    start = place | {"end_lineno": place["lineno"], "end_col_offset": place["col_offset"]}
    if isinstance(origin, gast.stmt) and origin.end_lineno != origin.lineno:
        place = start | _end_of_head(origin)
    todo = [node]
    while todo:
        child = todo.pop()
        fields = child.__dict__
        if fields.get("lineno") is None:
            if child._attributes:
                fields.update(start if child.__class__ is gast.Attribute else place)
        elif child in placed:
            continue
        todo += children(child)
    return node
