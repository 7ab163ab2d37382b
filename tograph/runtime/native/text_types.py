"""Which objects of a graph are texts: native code holds these (``texts``).

In a graph whose only objects are strings they get the type ``str``, a number of a kind of its own; one that is only printed, or said by an
error, stays an object, which ``telling`` makes where it is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..graph.families import FORMATS
from ..graph.ir import Graph, Node, Value, all_nodes, all_values
from ..graph.rewrite import copied
from ..graph.types import OBJECT, STR, ListType, OptionalType, Type

MADE = frozenset([*FORMATS, "py.text"])
_SAID = frozenset(["tg.print", "tg.raise"])


def texts_typed(graph: Graph) -> Graph:
    """``graph``, or a copy of it in which its texts have their type."""
    found = [v for n in all_nodes(graph) for v in n.outputs if _object(v.type)]
    said = set(_only_said(graph))
    if all(v in said for v in found) or not _only_texts(graph):
        return graph
    made = copied(graph)
    said = set(_only_said(made))
    for v in all_values(made):
        if v not in said:
            v.type = _text(v.type)
    return made


def _object(kind: Type | None) -> bool:
    if isinstance(kind, (ListType, OptionalType)):
        return _object(kind.element)
    return kind == OBJECT


def _text(kind: Type) -> Any:
    if isinstance(kind, (ListType, OptionalType)) and kind.element == OBJECT:
        return type(kind)(STR)
    return STR if kind == OBJECT else kind


def _only_said(graph: Graph) -> Iterator[Value]:
    """The texts that are only printed, or parts of such."""
    kept = set(graph.outputs)
    for node in reversed(graph.nodes):
        made = [v for v in node.outputs if v.type == OBJECT]
        if node.op in _SAID or (node.op in MADE - {"py.text"} and made and kept.isdisjoint(made)):
            yield from made
            continue
        kept.update(node.inputs)
        for region in node.regions.values():
            yield from _only_said(region)


def _only_texts(graph: Graph) -> bool:
    """Whether every object in a graph is a string, in lists of such at most."""
    if any(_object(v.type) for v in graph.inputs):
        return False
    return all(map(_gives_texts, all_nodes(graph)))


def _gives_texts(node: Node) -> bool:
    if not any(_object(v.type) for v in node.outputs):
        return True
    flat = all(v.type == _flat(v.type) for v in node.outputs if _object(v.type))
    if not flat:
        return False
    if node.op == "tg.choose":
        return all(_is_text(x) for x in node.args[1])
    if node.op in MADE or node.op == "tg.identity":
        return True
    if node.regions:
        regions = node.regions.values()
        return all(_is_text(x) for r in regions for x in r.outputs if not isinstance(x, Value))
    return node.op.startswith(("tg.list_", "tg.optional_"))


def _flat(kind: Type) -> Type:
    return type(kind)(OBJECT) if isinstance(kind, (ListType, OptionalType)) else OBJECT


def _is_text(x: Any) -> bool:
    return type(x) is str or (isinstance(x, Value) and x.type == OBJECT)
