"""Which tensors the variables of a ``try`` body are where it may fail, for its handlers: identity at one point of a region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.ir import Value
from ..graph.types import INT
from ..symbols.funcgraph import FuncGraph, Ref
from ..symbols.journal import Location as Place
from ..symbols.symbolic import SymTensor
from ..values.structure import Spec
from .attaching import attach, resolved
from .identity import (
    Key,
    Option,
    add_options,
    bindings,
    filled,
    first,
    index_of,
    numbers_of,
    settle,
    variables,
    with_holes,
)


class Bound:
    """The bindings of variables at a point of ``inner``, as they may be told in a region beside it."""

    def __init__(
        self,
        places: Sequence[Place],
        contents: Sequence[Any],
        specs: Sequence[Spec],
        inner: FuncGraph,
        outer: FuncGraph,
    ):
        self.keys = variables(places, specs)
        self.found = bindings(self.keys, contents, specs, inner)
        settle(self.found, inner, {}, outer)
        self.options: dict[Key, list[Option]] = {}
        for key, binding in self.found.items():
            add_options(self.options.setdefault(key, []), binding.all())
        self.moving = [key for key, options in self.options.items() if len(options) > 1]
        self.holes = with_holes(self.options)
        self.variable = {key for key, binding in self.found.items() if binding.variable}

    @property
    def count(self) -> int:
        """How many numbers tell them."""
        return len(self.moving) + sum(len(option.numbers) for _, option in self.holes)

    def values(self, graph: FuncGraph) -> list[Any]:
        """These numbers, where ``graph`` is."""
        out = [index_of(key, self.found, self.options[key], graph) for key in self.moving]
        for key, option in self.holes:
            out += numbers_of(key, option, self.found, graph)
        return [n if isinstance(n, Value) else graph.emit("py.constant", n, type=INT) for n in out]

    def attach(self, made: Sequence[Any], numbers: Sequence[Value], graph: FuncGraph) -> None:
        """Give the tensors that were made of the contents, in order, the memory of what they were."""
        pairs = zip(self.keys, made, strict=False)
        tensors = {k[0]: x for k, x in pairs if k is not None and isinstance(x, SymTensor)}
        rest = iter(numbers)
        index = {key: Ref(next(rest), graph) for key in self.moving}
        holes = filled(self.holes, rest, graph)
        names = {k[0]: k[1] for k in self.keys if k is not None}
        attach(
            tensors,
            names,
            self.options,
            lambda key: resolved(index[key]) if key in index else first,
            graph,
            self.variable,
            holes,
        )
