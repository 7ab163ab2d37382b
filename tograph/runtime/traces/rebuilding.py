"""Containers and objects of a result that each call makes anew, of parts that the graph gives or of what the trace left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..control_flow.raising import Rebuild
from ..symbols.journal import MISSING


class Rebuilt:
    """A container that is made anew from its parts when the graph has run."""

    def __init__(self, make: Any, parts: Iterable[Any]):
        self.make, self.parts = make, list(parts)

    def __tograph_flatten__(self):
        return self.make, self.parts

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        return aux(parts)


class Attributed:
    """Gives a tensor that the code made the attributes that the code gave it."""

    def __init__(self, names: tuple[str, ...]):
        self.names = names

    def __call__(self, parts: list[Any]) -> Any:
        x, *values = parts
        if isinstance(x, torch.Tensor):  # else the structure alone is asked for
            for name, value in zip(self.names, values):
                if value is not MISSING:
                    setattr(x, name, value)
        return x


class Made:
    """Makes another such object at each call: a copy of what the trace left, an iterator from where it was."""

    def __init__(self, make: Callable[[], Any]):
        self.make = make

    def __call__(self, parts: list[Any]) -> Any:
        return self.make()


class ObjectOf(Rebuild):
    """Makes an object of its attributes, an exception of its arguments too."""

    def __call__(self, parts: list[Any]) -> Any:
        return super().__call__(*parts)
