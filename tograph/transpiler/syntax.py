"""The syntax tree that the transpiler works on: gast, the one form that spans Python versions.

This is the only file that imports gast. Every other module takes the node classes from here, so a
change of gast (or its removal) touches one file.
"""

import ast
from collections.abc import Iterator
from typing import Any

import gast

__all__ = [
    "children",
    "copy_location",
    "copy_tree",
    "from_ast",
    "gast",
    "parse_expression",
    "parse_statements",
    "to_ast",
    "walk",
]


def from_ast(node: ast.AST) -> gast.AST:
    """The gast form of a tree of the running Python's ``ast``; positions are kept."""
    return gast.ast_to_gast(node)


def to_ast(node: gast.AST) -> ast.AST:
    """The running Python's ``ast`` form of a gast tree, with missing positions filled in."""
    return ast.fix_missing_locations(gast.gast_to_ast(node))


def parse_statements(source: str) -> list[gast.stmt]:
    """The statements of a piece of source."""
    return from_ast(ast.parse(source)).body


def parse_expression(source: str) -> gast.expr:
    """The one expression that a piece of source is."""
    return from_ast(ast.parse(source, mode="eval")).body


def children(node: gast.AST) -> list[gast.AST]:
    """The nodes right below a node, in the order of its fields. Faster than ``gast.iter_child_nodes``."""
    out: list[gast.AST] = []
    fields = node.__dict__
    for name in node._fields:
        value = fields.get(name)
        if isinstance(value, gast.AST):
            out.append(value)
        elif isinstance(value, list):
            out += [v for v in value if isinstance(v, gast.AST)]
    return out


def walk(root: gast.AST) -> Iterator[gast.AST]:
    """A node and all nodes below it, level by level as ``gast.walk``; a node may change once it was given."""
    level = [root]
    while level:
        yield from level
        level = [child for node in level for child in children(node)]


def copy_tree(x: Any) -> Any:
    """A copy of a node or a list of nodes, with everything below; facts are not copied."""
    if isinstance(x, list):
        return [copy_tree(v) for v in x]
    if not isinstance(x, gast.AST):
        return x
    made = x.__class__.__new__(x.__class__)
    fields = made.__dict__
    for name, value in x.__dict__.items():
        fields[name] = copy_tree(value) if isinstance(value, (list, gast.AST)) else value
    return made


def copy_location(node: gast.AST, origin: gast.AST) -> gast.AST:
    """Give ``node``, and every node below it that has no position, the position of ``origin``.

    An attribute gets the start only: a call whose callee ended lines later would be reported at that line. So does all
    that stands for a statement of several lines, which are not one expression to point at.
    """
    if not hasattr(origin, "lineno"):
        return node
    block = isinstance(origin, gast.stmt) and origin.end_lineno != origin.lineno
    for child in walk(node):
        if child.__dict__.get("lineno") is None:
            gast.copy_location(child, origin)
            if hasattr(child, "lineno") and (block or isinstance(child, gast.Attribute)):
                child.end_lineno, child.end_col_offset = child.lineno, child.col_offset
    return node
