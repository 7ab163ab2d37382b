"""Names for generated code that clash with none of the user's."""

from __future__ import annotations

from .syntax import gast, walk


class Namer:
    """Gives fresh names: the wish itself when it is free, else with the smallest free number."""

    def __init__(self, tree: gast.AST, reserved: tuple[str, ...] = ()):
        self.used = set(reserved)
        for node in walk(tree):
            for field in ("id", "name", "attr", "arg", "asname", "rest"):
                value = getattr(node, field, None)
                if isinstance(value, str):
                    self.used.add(value)
            if isinstance(node, (gast.Global, gast.Nonlocal)):
                self.used.update(node.names)

    def fresh(self, wish: str) -> str:
        """A name that nothing in the tree uses and that was not given before."""
        name, number = wish, 1
        while name in self.used:
            name, number = f"{wish}_{number}", number + 1
        self.used.add(name)
        return name
