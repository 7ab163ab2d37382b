"""f-strings over staged values: the text is made when the graph runs.

``f"x = {x:.2f}"``  ->  ``ag__.fstring('x = ', (x, '', '.2f'))``. With a staged part the result is a ``StagedString``, which
``print``, exceptions and other f-strings take.
"""

from __future__ import annotations

from typing import Any

from ..runtime import control_flow
from ..runtime.graph import types
from ..runtime.guarding import reads
from ..runtime.library.staged_string import StagedString, made_string
from ..runtime.symbols.funcgraph import current_graph
from ..runtime.traces.shown import parts_shown, shows_staged
from ..runtime.values import conditional_items
from ..runtime.values.dict_views import of_view
from ..runtime.values.structure import is_union
from ..runtime.values.tables import StagedSet
from ..transpiler.syntax import gast
from ..transpiler.templates import constant
from . import special_results, staged_bytes, text_options
from .call_rules import is_user_function
from .calls import call
from .context import OPERATORS, Converter
from .members import Listing
from .union import apply


class Strings(Converter):
    def visit_JoinedStr(self, node):
        return self.expression(f"{OPERATORS}.fstring(parts_)", node, parts_=self._parts(node))

    def _parts(self, node) -> list[gast.expr]:
        parts = []
        for value in node.values:
            if isinstance(value, gast.Constant):
                parts.append(value)
                continue
            conversion = "" if value.conversion == -1 else chr(value.conversion)
            spec = constant("")
            if value.format_spec is not None:
                inner = self._parts(value.format_spec)
                plain = all(isinstance(p, gast.Constant) for p in inner)
                spec = (
                    constant("".join(p.value for p in inner))
                    if plain
                    else gast.Tuple(inner, gast.Load())
                )
            triple = gast.Tuple([self.visit(value.value), constant(conversion), spec], gast.Load())
            parts.append(gast.copy_location(triple, node))
        return parts


def fstring(*parts: Any) -> Any:
    """The text of the parts: strings, and triples (value, conversion, format spec)."""
    parts = tuple(p if isinstance(p, str) else _shown(*p) for p in parts)
    values = [text_options.as_text(p[0]) for p in parts if not isinstance(p, str)]
    parts = _with_values(parts, values)
    if not _made_anyway(values) and any(map(is_union, values)):
        return apply(lambda *v: fstring(*_with_values(parts, v)), *values)
    if not _symbolic(parts):
        return "".join(p if isinstance(p, str) else _formatted(*p) for p in parts)
    graph = current_graph()
    made = graph.emit("py.format", *(_argument(p, graph) for p in parts), type=types.OBJECT)
    return made_string(made, graph)


def _made_anyway(values: list[Any]) -> bool:
    """Whether the text is known only when the graph runs, and takes unions as they are: all they may be is strings."""
    unions = [v for v in values if is_union(v)]
    return len(unions) < sum(map(shows_staged, values)) and all(
        type(o) is str for u in unions for o in u.options_
    )


def _shown(value: Any, conversion: str, spec: Any) -> Any:
    """A part whose value is an object of a user's class: the text that its converted ``__format__`` or ``__str__`` gives."""
    names = {
        "": ("__format__", "__str__", "__repr__"),
        "s": ("__str__", "__repr__"),
        "r": ("__repr__",),
    }
    for name in names.get(conversion, ()):
        method = getattr(type(value), name, None)
        if not is_user_function(method) or _is_generated(method):
            continue
        if name == "__format__":
            given = spec if isinstance(spec, str) else fstring(*spec)
            return special_results.checked(name, value, call(method, value, given)), "", ""
        return special_results.checked(name, value, call(method, value)), "", spec
    return value, conversion, spec


def _is_generated(method: Any) -> bool:
    """Whether ``dataclasses`` wrote a method: it shows what the fields hold, and decides nothing."""
    return getattr(method, "__wrapped__", method).__code__.co_filename == "<string>"


def _with_values(parts, values):
    rest = iter(values)
    return [p if isinstance(p, str) else (next(rest), *p[1:]) for p in parts]


def _symbolic(parts: Any) -> bool:
    for part in parts:
        if not isinstance(part, str):
            value, _, spec = part
            if shows_staged(value) or (isinstance(spec, tuple) and _symbolic(spec)):
                return True
    return False


def _argument(part: Any, graph) -> Any:
    if isinstance(part, str):
        return part
    value, conversion, spec = part
    if isinstance(spec, str) and not shows_staged(value):
        _shows_now(value)
        return _formatted(value, conversion, spec)
    spec = spec if isinstance(spec, str) else tuple(_argument(p, graph) for p in spec)
    return (outside(value, graph), conversion, spec)


def outside(value: Any, graph) -> Any:
    """What an op that makes a text takes for a value."""
    viewed = (value.x, value.kind) if isinstance(value, Listing) else of_view(value)
    if viewed is not None:
        return graph.emit("py.dict_view", outside(viewed[0], graph), viewed[1], type=types.OBJECT)
    conditional_items.need_order(value)
    _shows_now(value)
    return control_flow.outside_value(value, graph)


def _shows_now(value: Any) -> None:
    """A text shows what a value holds while tracing: where it holds something else, a call is traced anew.

    Of an object that holds staged values, the text is made of its fields when the graph runs. That of a set has its items in the order of
    Python, which is that of a set to which they came one after the other.
    """
    waiting, seen = [value], set()
    while waiting:
        x = waiting.pop()
        if id(x) in seen or not (isinstance(x, _CONTAINERS) or not shows_staged(x)):
            continue
        seen.add(id(x))
        if isinstance(x, StagedSet) and not x.only_added:
            x.in_order()
        reads.passed((x,))
        waiting += parts_shown(x)


_CONTAINERS = (list, tuple, dict, set)


def _formatted(value: Any, conversion: str, spec: Any) -> str:
    if conversion:
        value = {"r": repr, "s": str, "a": ascii}[conversion](value)
    return format(value, spec if isinstance(spec, str) else fstring(*spec))


def percent(text: str, values: Any) -> Any:
    """``text % values``; of other things than a text, Python's ``%``."""
    if is_union(text) or is_union(values):
        return apply(percent, text, values)
    staged = isinstance(text, StagedString)
    if isinstance(text, (bytes, bytearray)):
        staged_bytes.refuse("bytes % values", values)
    if not (staged or (isinstance(text, str) and shows_staged(values))):
        return text % values
    graph = current_graph()
    text = outside(text, graph) if staged else text
    # A dict may be what ``%(key)s`` looks into.
    parts = (values,) if not isinstance(values, (tuple, dict)) else values
    if isinstance(parts, tuple):
        parts = tuple(outside(p, graph) for p in parts)
    else:
        parts = outside(parts, graph)
    return made_string(graph.emit("py.percent", text, parts, type=types.OBJECT), graph)


def str_join(separator: str, items: Any) -> Any:
    """``separator.join(items)``"""
    items = [text_options.as_text(i) for i in items]
    if any(map(is_union, items)):
        return apply(lambda *chosen: str_join(separator, chosen), *items)
    if not any(isinstance(i, StagedString) for i in items):
        return separator.join(items)
    parts: list[Any] = []
    for item in items:
        parts += [separator, (item, "", "")]
    return fstring(*parts[1:])


def str_format(text: str, /, *args: Any, **kwargs: Any) -> Any:
    """``text.format(...)``"""
    if not any(map(shows_staged, (*args, *kwargs.values()))):
        return text.format(*args, **kwargs)
    graph = current_graph()
    values = [outside(v, graph) for v in kwargs.values()]
    made = graph.emit(
        "py.str_format",
        text,
        [outside(a, graph) for a in args],
        list(kwargs),
        values,
        type=types.OBJECT,
    )
    return made_string(made, graph)
