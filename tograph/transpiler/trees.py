"""From one form of syntax trees to another, node by node: mixins for the translators of gast.

``Alike``       what has the same fields in both forms, which most nodes have.
``AlikeToAst``  names too, on the way back.
``placed``      positions for nodes that have none.

gast's translators look a method up by name, ask for each field twice and check each node that they make: that took a third of a
conversion. What differs between versions of Python (arguments, handlers, subscripts, ...) stays theirs. Contexts and operators have no
fields and no position: one object stands for all of a class.
"""

import ast
from typing import Any

_POSITION = ("lineno", "col_offset", "end_lineno", "end_col_offset")


class Kinds(dict[type, Any]):
    """What is done with each class of nodes, for a translator to the node classes of a module.

    A method of the translator, which takes it and the node; or the class to make, the fields to take over as they are, those that may hold
    nodes, and its attributes; or, as the first of the four, None and the one node that stands for all; or None for what is no part of a tree.
    """

    def __init__(self, forms: Any):
        super().__init__()
        self.forms, self.translator = forms, type(None)

    def __missing__(self, kind: Any) -> Any:
        self[kind] = self._found(kind)
        return self[kind]

    def _found(self, kind: Any) -> Any:
        method = getattr(self.translator, f"visit_{kind.__name__}", None)
        to = getattr(self.forms, kind.__name__, None)
        if method is not None or to is None:
            return method
        if not kind._fields and not kind._attributes:
            return None, to(), (), ()
        plain = tuple(f for f in kind._fields if f in _TEXTS)
        return to, plain, tuple(f for f in kind._fields if f not in plain), kind._attributes


# Fields that hold text or numbers in every class that has them.
_TEXTS = frozenset({"attr", "conversion", "id", "is_async", "kind", "level", "module", "simple", "type_comment"})  # fmt: skip


class Alike:
    """Nodes that the translator behind it has a method for are that method's, others are taken over field by field."""

    kinds: Kinds

    def __init_subclass__(cls) -> None:
        if "kinds" in cls.__dict__:
            cls.kinds.translator = cls

    def visit(self, node: Any) -> Any:
        known = self.kinds[node.__class__]
        if known.__class__ is not tuple:
            return None if known is None else known(self, node)
        to, plain, fields, attributes = known
        return plain if to is None else self._alike(node, to, plain, fields, attributes)

    def _alike(self, node: Any, to: Any, plain: Any, fields: Any, attributes: Any) -> Any:
        made = to.__new__(to)
        old, new = node.__dict__, made.__dict__
        for name in plain:
            new[name] = old[name] if name in old else getattr(node, name, None)
        for name in fields:
            value = old.get(name)
            if value is None:
                new[name] = None
            elif isinstance(value, ast.AST):
                new[name] = self.visit(value)
            elif value.__class__ is list:
                new[name] = [self.visit(v) if isinstance(v, ast.AST) else v for v in value]
            else:
                new[name] = value
        for name in attributes:
            if name in old:
                new[name] = old[name]
        return made

    def _visit(self, node: Any) -> Any:
        if isinstance(node, ast.AST):
            return self.visit(node)
        return [self._visit(n) for n in node] if node.__class__ is list else node

    def generic_visit(self, node: Any) -> Any:
        """For a translator's own methods, whose nodes may be like others."""
        kind = node.__class__
        return self._alike(node, getattr(self.kinds.forms, kind.__name__), (), kind._fields, kind._attributes)  # fmt: skip


class AlikeToAst(Alike):
    """What the way back has beside that: names, the most frequent nodes."""

    def visit_Name(self, node: Any) -> ast.Name:
        made = ast.Name.__new__(ast.Name)
        old, new = node.__dict__, made.__dict__
        new["id"], new["ctx"] = old["id"], self.visit(old["ctx"])
        for name in _POSITION:
            value = old.get(name)
            if value is not None or (name in old and name.startswith("end_")):
                new[name] = value
        return made


class _Below(dict[type, tuple[str, ...]]):
    """By class of nodes: the fields that may hold nodes with a position."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        plain = {"id", "ctx", "op", "ops", "attr", "arg", "kind", "name", "names", "type_comment"}
        plain -= {"name"} if kind.__name__ == "TypeAlias" else set()
        plain -= {"names"} if issubclass(kind, (ast.Import, ast.ImportFrom)) else set()
        self[kind] = tuple(f for f in kind._fields if f not in plain)  # type: ignore[attr-defined]
        return self[kind]


_BELOW = _Below()


def placed(
    node: Any, line: int = 1, column: int = 0, end_line: Any = 1, end_column: Any = 0
) -> ast.AST:
    """``ast.fix_missing_locations``: what has no position gets that of the node above."""
    fields = node.__dict__
    if node._attributes:
        line = fields.setdefault("lineno", line)
        column = fields.setdefault("col_offset", column)
        if fields.get("end_lineno") is None:
            fields["end_lineno"] = end_line
        else:
            end_line = fields["end_lineno"]
        if fields.get("end_col_offset") is None:
            fields["end_col_offset"] = end_column
        else:
            end_column = fields["end_col_offset"]
    for name in _BELOW[node.__class__]:
        value = fields.get(name)
        if value.__class__ is list:
            for item in value:
                if isinstance(item, ast.AST):
                    placed(item, line, column, end_line, end_column)
        elif isinstance(value, ast.AST):
            placed(value, line, column, end_line, end_column)
    return node
