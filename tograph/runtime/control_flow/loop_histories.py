"""The autograd history that the state of a loop has inside of its body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import flattening, histories, structure
from ..funcgraph import FuncGraph, Storage, user_location
from ..ir import Value
from ..journal import Location as Place
from ..listed import tensors_in
from .regions import Region


def _requires_grad(content: Any, graph: FuncGraph | None = None) -> bool:
    if isinstance(content, structure.Ref):
        return graph is not None and content.value in graph.sources
    return any(x.requires_grad for x in tensors_in(content))


class LoopHistories:
    """Which state requires grad inside the body, and what outside of the loop it depends on.

    It matters where the body takes a gradient: then the body is traced until it is stable.
    """

    def __init__(self, state: Sequence[Place], contents: Sequence[Any]):
        self.keys: set[Any] = set()
        self.outside: list[torch.Tensor] = []
        self.location = user_location()
        for place, content in zip(state, contents):
            self.add(place.key, content)

    def add(self, key: Any, content: Any) -> None:
        """A place is state, with this content before the loop."""
        if _requires_grad(content):
            self.keys.add(key)
        self.outside += [x for x in tensors_in(content) if x.requires_grad]

    def open(self, state: Sequence[Place]) -> None:
        """A trace of the body begins."""
        owners = {p.key: p.keep.owner for p in state if isinstance(p.keep, Storage)}
        self.owners = {
            k: histories.alias(x) for k, x in owners.items() if x is not None and x.requires_grad
        }
        self.earlier = histories.Earlier([*self.outside, *self.owners.values()], self.location)

    def maker(self, place: Place, graph: FuncGraph) -> Callable[[Value], Any]:
        """How the placeholders of a place are made."""
        if not self.earlier.outside or place.key not in {*self.keys, *self.owners}:
            return flattening.plain_maker(graph)

        def make(value: Value) -> Any:
            x = flattening.symbolic(value, graph)
            if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()):
                return self.earlier.state(x, graph.graph.inputs.index(value))
            return x

        return make

    def change(self, loop: Region, state: Sequence[Place]) -> bool:
        """Take over what a trace of the body found; whether that asks for another one."""
        if not loop.graph.differentiated or loop.raised:
            return False
        keys = self.keys | {p.key for p in state if _requires_grad(loop.content(p), loop.graph)}
        carried = [x if x._base is None else x._base for x in loop.graph.sources.values()]
        known = set(map(_identity, self.outside))
        found = {_identity(x): x for x in carried if x.requires_grad and _outside(x, loop.graph)}
        new = [x for key, x in found.items() if key not in known]
        if keys == self.keys and not (keys and new):
            return False
        self.outside, self.keys = self.outside + new, keys
        return True


def _identity(x: torch.Tensor) -> Any:
    """Which tensor this is: objects that show the same storage in the same way are one."""
    return (id(x.storage_), len(x.chain)) if isinstance(x, structure.SymTensor) else id(x)


def _outside(x: torch.Tensor, graph: FuncGraph) -> bool:
    home = x.storage_.home if isinstance(x, structure.SymTensor) else None
    return home is None or not home.within(graph)
