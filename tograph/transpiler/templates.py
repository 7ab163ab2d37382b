"""Code templates: Python text with holes that are names, filled with syntax trees.

``fill("x_ = f_(a_)", x_="y", f_=node, a_=[node, node])`` gives the statements. A hole is a name that ends in an
underscore. A string fills in a name; a tree replaces the name; a list of expressions spreads in a call, a tuple or a
list; a list of statements replaces an expression statement that is the hole alone.

Holes are checked both ways: a hole without a filling and a filling without a hole are errors.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .syntax import FIELDS_WITH_NODES, copy_location, gast, parse_statements, walk

Filling = Any


class TemplateError(ValueError):
    """A template whose holes and fillings do not match: a defect of a converter."""


@cache
def _parsed(text: str) -> list[gast.stmt]:
    return _blank(parse_statements(text))


def fill(text: str, origin: gast.AST | None = None, **fillings: Filling) -> list[gast.stmt]:
    """The statements of a template; positions are those of ``origin``."""
    filler = _Filler(fillings)
    body = filler.statements(_parsed(text))
    unused = set(fillings) - filler.seen
    if unused:
        raise TemplateError(f"no hole for {sorted(unused)} in {text!r}")
    if origin is not None:
        for statement in body:
            copy_location(statement, origin, filler.placed)
    return body


def fill_expression(text: str, origin: gast.AST | None = None, **fillings: Filling) -> gast.expr:
    """The one expression of a template."""
    return fill(text, origin, **fillings)[0].value


def _blank(statements: list[gast.stmt]) -> list[gast.stmt]:
    """Drop the positions of the template's own text."""
    for statement in statements:
        for node in walk(statement):
            for field in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
                if hasattr(node, field):
                    setattr(node, field, None)
    return statements


def is_hole(name: Any) -> bool:
    return isinstance(name, str) and name.endswith("_") and not name.endswith("__")


class _Filler:
    """Copies a template with its holes filled. ``placed``: the statements that fill holes."""

    def __init__(self, fillings: dict[str, Filling]):
        self.fillings = fillings
        self.seen: set[str] = set()
        self.placed: set[gast.stmt] = set()

    def take(self, name: str) -> Filling:
        if name not in self.fillings:
            raise TemplateError(f"nothing fills the hole {name!r}")
        self.seen.add(name)
        return self.fillings[name]

    def statements(self, body: list[gast.stmt]) -> list[gast.stmt]:
        out: list[gast.stmt] = []
        for statement in body:
            value = statement.value if type(statement) is gast.Expr else None
            if type(value) is gast.Name and is_hole(value.id):
                filling = self.take(value.id)
                if isinstance(filling, (list, gast.stmt)):
                    filling = filling if isinstance(filling, list) else [filling]
                    self.placed.update(filling)
                    out += filling
                    continue
            out.append(self.filled(statement))
        return out

    def filled(self, node: gast.AST) -> gast.AST:
        """A copy of a node; contexts and operators are shared."""
        kind = type(node)
        if kind is gast.Name and is_hole(node.id):
            filling = self.take(node.id)
            if not isinstance(filling, str):
                self.placed.add(filling)
                return filling
            return gast.Name(filling, node.ctx, None, None)
        made: Any = kind.__new__(kind)  # type: ignore[call-overload]
        fields = made.__dict__
        fields.update(node.__dict__)
        for field in FIELDS_WITH_NODES[kind]:
            value = fields.get(field)
            if type(value) is list:
                block = value and isinstance(value[0], gast.stmt)
                fields[field] = self.statements(value) if block else self.items(value)
            elif isinstance(value, gast.AST):
                fields[field] = self.filled(value)
        if kind is not gast.alias:
            for field in ("name", "arg"):
                if is_hole(fields.get(field)):
                    fields[field] = self.text(fields[field])
        return made

    def text(self, hole: str) -> str:
        filling = self.take(hole)
        if not isinstance(filling, str):
            raise TemplateError(f"the hole {hole!r} needs a name")
        return filling

    def items(self, values: list) -> list:
        out: list[Any] = []
        for value in values:
            if type(value) is gast.Name and is_hole(value.id) and isinstance(self.fillings.get(value.id), list):  # fmt: skip
                filling = self.take(value.id)
                self.placed.update(filling)
                out += filling
            elif is_hole(value):
                filling = self.take(value)
                out += filling if isinstance(filling, (list, tuple)) else [filling]
            else:
                out.append(self.filled(value) if isinstance(value, gast.AST) else value)
        return out


def name(identifier: str, store: bool = False) -> gast.Name:
    """A name node without a position."""
    return gast.Name(identifier, gast.Store() if store else gast.Load(), None, None)


def constant(value: Any) -> gast.Constant:
    """A constant node without a position."""
    return gast.Constant(value, None)


def names_tuple(names: Any) -> gast.Tuple:
    """A tuple of the given strings as constants, in sorted order."""
    return gast.Tuple([constant(n) for n in sorted(names)], gast.Load())
