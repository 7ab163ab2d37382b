"""Optionals as pairs of a flag and a value; where there is no value, it is zeros that nobody reads."""

from __future__ import annotations

from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.types import BOOL, ListType, OptionalType, ScalarType, TensorType, Type, device_of
from .expansion import Expansion, Parts

EMPTY = "Optional has no value: test has_value() before get_value()"


class Optionals(Expansion):
    """See the module."""

    def split(self, kind: Type) -> list[Type] | None:
        if isinstance(kind, ListType) and isinstance(kind.element, OptionalType):
            return [ListType(part) for part in self.split(kind.element) or ()]
        if not isinstance(kind, OptionalType):
            return None
        return [BOOL, *(self.split(kind.element) or [kind.element])]

    def zeros(self, kind: Type) -> Value:
        if isinstance(kind, TensorType):
            shape = [0 if n is None else n for n in kind.shape]
            return self.emit("aten.zeros.default", shape, type=kind, dtype=kind.dtype, device=device_of(kind))  # fmt: skip
        if isinstance(kind, ScalarType):
            return self.emit("py.constant", kind.kind(0), type=kind)
        if isinstance(kind, ListType):
            return self.emit("tg.list_new", type=kind)
        raise self.refuse(f"an optional {kind}")


def _some(e: Optionals, node: Node, v: Any) -> list[Parts]:
    return [(True, *(v if isinstance(v, tuple) else (v,)))]


def _none(e: Optionals, node: Node) -> list[Parts]:
    kinds = e.split(node.outputs[0].type) or []
    return [(False, *(e.zeros(k) for k in kinds[1:]))]


def _has(e: Optionals, node: Node, o: Parts) -> list[Parts]:
    return [(e.value(o[0], BOOL),)]


def _get(e: Optionals, node: Node, o: Parts) -> list[Parts]:
    if o[0] is not True:
        e.emit_many("tg.assert", (o[0], "RuntimeError", (EMPTY,)), [])
    return [tuple(o[1:])]


def _each(e: Optionals, node: Node, *args: Any) -> list[Parts]:
    """An op of a list of optionals is one of each of the lists of their parts."""
    kinds = [e.split(v.type) or [v.type] for v in node.outputs]
    columns = []
    for i in range(max(map(len, kinds))):
        given = [e.value(a[i], BOOL) if isinstance(a, tuple) and i == 0 else a[i] if isinstance(a, tuple) else a for a in args]  # fmt: skip
        columns.append(e.emit_many(node.op, given, [ks[min(i, len(ks) - 1)] for ks in kinds]))
    return [tuple(c[k] for c in columns[: len(ks)]) for k, ks in enumerate(kinds)]


Optionals.rules = {
    **{f"tg.list_{n}": _each for n in ("new", "of", "push", "pop", "insert", "get", "set", "slice", "extend", "size")},
    "tg.optional_some": _some, "tg.optional_none": _none, "tg.optional_has": _has, "tg.optional_get": _get,
    "tg.identity": lambda e, node, o, *_: [o],
}  # fmt: skip


def optionals(graph: Graph, system: str) -> Graph:
    """``graph`` without optionals."""
    return Optionals(graph, system).run().finish()
