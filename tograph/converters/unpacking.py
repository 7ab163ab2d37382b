"""``a, b = items`` and ``[*items]`` take the items of a user's iterator, of a generator, or of a list of the graph, as a ``for`` would.

Python's own unpacking runs ``__iter__`` and ``__next__`` as plain Python, where a staged condition has no value:
``a, b = items``  ->  ``a, b = ag__.unpacked(items, 2)``; ``a, *b = items``  ->  ``a, b = ag__.unpacked_rest(items, 1, 0)``.
"""

from __future__ import annotations

from typing import Any

from ..runtime.inference.shapes import SYMBOLS
from ..runtime.symbols.funcgraph import is_tracing
from ..runtime.values.staged_tuples import number_of
from ..runtime.values.structure import is_growing, is_union
from ..transpiler.syntax import gast
from ..transpiler.templates import constant
from .calls import call, is_user_function
from .chosen_items import items_of
from .consumers import gathered
from .context import OPERATORS
from .generators import Generator
from .if_stmt import if_stmt
from .iterables import staged_source
from .iterators import from_outside
from .lists import new_list
from .members import is_conditional
from .strings import fstring
from .targets import Targets, is_plain
from .union import apply

_DISPLAYS = (gast.Tuple, gast.List, gast.Constant, gast.Dict, gast.Set)


class Unpackings(Targets):
    def visit_Assign(self, node):
        node = self.generic_visit(node)
        for target in node.targets:
            if isinstance(target, (gast.Tuple, gast.List)):
                if len(node.targets) == 1:
                    if is_plain(target):
                        node.value = self.unpacking(target, node.value)
                elif not isinstance(node.value, _DISPLAYS):
                    stars = any(isinstance(e, gast.Starred) for e in target.elts)
                    node.value = self._taken(node.value, -1 if stars else len(target.elts))
                break
        return self.in_order(node)

    def unpacking(self, target, value):
        if not isinstance(target, (gast.Tuple, gast.List)):
            return value
        starred = [i for i, e in enumerate(target.elts) if isinstance(e, gast.Starred)]
        if starred:
            return self._rest_taken(target, starred[0], value)
        return value if isinstance(value, _DISPLAYS) else self._taken(value, len(target.elts))

    def _rest_taken(self, target, at: int, value):
        """The value of a target with a star, which becomes one without it."""
        before, after = constant(at), constant(len(target.elts) - at - 1)
        target.elts[at] = target.elts[at].value
        text = f"{OPERATORS}.unpacked_rest(items_, before_, after_)"
        return self.expression(text, value, items_=value, before_=before, after_=after)

    def visit_Starred(self, node):
        node = self.generic_visit(node)
        if isinstance(node.ctx, gast.Load) and not isinstance(node.value, _DISPLAYS):
            node.value = self._taken(node.value, -1)
        return node

    def _taken(self, value, count: int):
        text = f"{OPERATORS}.unpacked(items_, count_)"
        return self.expression(text, value, items_=value, count_=constant(count))


def unpacked(items: Any, count: int) -> Any:
    """What Python is to unpack into ``count`` targets, or into any number where it is negative."""
    if is_union(items):
        if count >= 0:
            return apply(lambda chosen: _exactly(unpacked(chosen, count), count), items)
        items = items_of(items)
    if is_tracing() and (
        isinstance(items, Generator)
        or is_conditional(items)
        or is_user_function(getattr(type(items), "__iter__", None))
    ):
        items = gathered(items, count)
    items = from_outside(items)
    source = staged_source(items)
    if source is not None and isinstance(source.length(), SYMBOLS):
        items = call(list, items)
    if not is_growing(items):
        return items
    known = number_of(items)
    if known is None and count >= 0:
        n = items.length()
        _check(n < count, f"not enough values to unpack (expected {count}, got ", (n, "", ""), ")")
        _check(n > count, f"too many values to unpack (expected {count})")
        known = count
    return items if known is None else [items.item(i) for i in range(known)]


def _exactly(items: Any, count: int) -> tuple[Any, ...]:
    """That many items in a tuple, the same for all that a name may be."""
    (*found,) = items
    if len(found) > count:
        raise ValueError(f"too many values to unpack (expected {count})")
    if len(found) < count:
        raise ValueError(f"not enough values to unpack (expected {count}, got {len(found)})")
    return tuple(found)


def unpacked_rest(items: Any, before: int, after: int) -> list[Any]:
    """What ``a, *b, c = items`` stores: ``before`` items, a list, and ``after`` items."""
    items = unpacked(items, -1)
    need = before + after
    if is_growing(items):
        n = items.length()
        _check(n < need, _too_few(need), (n, "", ""), ")")
        front, back = ([items.item(i) for i in r] for r in (range(before), range(-after, 0)))
        return [*front, items[before : -after if after else None], *back]
    (*items,) = items
    if len(items) < need:
        raise ValueError(f"{_too_few(need)}{len(items)})")
    end = len(items) - after
    return [*items[:before], new_list(*items[before:end]), *items[end:]]


def _too_few(need: int) -> str:
    return f"not enough values to unpack (expected at least {need}, got "


def _check(wrong: Any, *text: Any) -> None:
    """ValueError where ``wrong`` holds."""

    def fail():
        raise ValueError(fstring(*text))

    if_stmt(wrong, fail, None, ())
