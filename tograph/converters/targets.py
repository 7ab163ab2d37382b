"""Assignments to several targets that are not all variables: each is stored in turn, from left to right, as in Python.

``o.x, l[i], i = value``  ->  ``part, part_1, part_2 = value``, then ``o.x = part``, ``l[i] = part_1``, ``i = part_2``: what a target names
is looked up after those before it are stored, and before those after it. Variables in front of the first attribute or item are
unpacked as they are; a tuple of targets in another one is unpacked by an assignment of its own. The passes after this one see an attribute or item only as the one target of an assignment.
"""

from __future__ import annotations

from ..transpiler.syntax import gast
from .context import Converter


def is_plain(target: gast.expr) -> bool:
    """Whether a target is a variable, or a tuple of variables, one of them perhaps with a star."""
    parts = target.elts if isinstance(target, (gast.Tuple, gast.List)) else [target]
    return all(isinstance(getattr(p, "value", p) if isinstance(p, gast.Starred) else p, gast.Name) for p in parts)  # fmt: skip


class Targets(Converter):
    def in_order(self, node: gast.Assign) -> gast.Assign | list[gast.stmt]:
        """An assignment as those that store one target each, where that makes a difference."""
        single = (gast.Name, gast.Attribute, gast.Subscript)
        plain = all(map(is_plain, node.targets))
        if plain or (len(node.targets) == 1 and isinstance(node.targets[0], single)):
            return node
        value = self.context.namer.fresh("value")
        out = self.fill("temp_ = value_", node, temp_=value, value_=node.value)
        for target in node.targets:
            out += self._stored(target, value, node)
        return out

    def _stored(self, target: gast.expr, value: str, origin: gast.AST) -> list[gast.stmt]:
        """The statements that store what a temporary holds."""
        after: list[gast.stmt] = []
        part = target
        if isinstance(target, (gast.Tuple, gast.List)):
            target.elts = [self._part(x, after, origin) for x in target.elts]
        assign = gast.Assign([part], self.unpacking(part, _name(value, gast.Load(), origin)), None)
        return [gast.copy_location(assign, origin), *after]

    def unpacking(self, target: gast.expr, value: gast.expr) -> gast.expr:
        """What is stored in a target whose parts are variables."""
        return value

    def _part(self, e: gast.expr, after: list[gast.stmt], origin: gast.AST) -> gast.expr:
        """What stands for a target when the value is unpacked; its store goes to ``after``."""
        if isinstance(e, gast.Starred):
            e.value = self._part(e.value, after, origin)
            return e
        if not after and isinstance(e, gast.Name):
            return e
        temp = self.context.namer.fresh("part")
        after += self._stored(e, temp, origin)
        return _name(temp, gast.Store(), origin)


def _name(name: str, context: gast.expr_context, origin: gast.AST) -> gast.expr:
    return gast.copy_location(gast.Name(name, context, None, None), origin)
