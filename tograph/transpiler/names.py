"""Names for generated code that clash with none of the user's."""

from __future__ import annotations

from .syntax import gast, walk

_NAMES = frozenset({"id", "name", "attr", "arg", "asname", "rest"})


class Namer:
    """Gives fresh names: the wish itself when it is free, else with the smallest free number."""

    def __init__(self, tree: gast.AST, reserved: tuple[str, ...] = ()):
        self.used = set(reserved)
        self.made: set[str] = set()  # what was given
        self._next: dict[str, int] = {}  # by wish: names with smaller numbers are used
        for node in walk(tree):
            fields = node.__dict__
            for field in _NAMES & fields.keys():
                value = fields[field]
                if isinstance(value, str):
                    self.used.add(value)
            if isinstance(node, (gast.Global, gast.Nonlocal)):
                self.used.update(node.names)

    def fresh(self, wish: str) -> str:
        """A name that nothing in the tree uses and that was not given before."""
        number = self._next.get(wish, 0)
        while (name := f"{wish}_{number}" if number else wish) in self.used:
            number += 1
        self._next[wish] = number
        self.used.add(name)
        self.made.add(name)
        return name
