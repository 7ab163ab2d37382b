"""The syntax tree that the transpiler works on: gast, the one form that spans Python versions.

This is the only file that imports gast. Every other module takes the node classes from here, so a
change of gast (or its removal) touches one file.
"""

import ast

import gast

__all__ = ["copy_location", "from_ast", "gast", "parse_expression", "parse_statements", "to_ast"]


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


def copy_location(node: gast.AST, origin: gast.AST) -> gast.AST:
    """Give ``node``, and every node below it that has no position, the position of ``origin``.

    An attribute gets the start only: a call whose callee ended lines later would be reported at that line. So does all
    that stands for a statement of several lines, which are not one expression to point at.
    """
    block = isinstance(origin, gast.stmt) and origin.end_lineno != origin.lineno
    for child in gast.walk(node):
        if getattr(child, "lineno", None) is None and hasattr(origin, "lineno"):
            gast.copy_location(child, origin)
            if hasattr(child, "lineno") and (block or isinstance(child, gast.Attribute)):
                child.end_lineno, child.end_col_offset = child.lineno, child.col_offset
    return node
