"""Values with lists among them as a row of tensors and numbers, which is what torch's functions take, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def flattened(items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """(what is in some values and in lists among them, their shape: for each value None, or the shape of a list)"""
    leaves: list[Any] = []
    return leaves, _shape(items, leaves)


def _shape(items: Sequence[Any], leaves: list[Any]) -> list[Any]:
    shape: list[Any] = []
    for x in items:
        if isinstance(x, (list, tuple)):
            # A tuple of a GPU's plan is tied to one memory: its items stand alone.
            shape.append((list if isinstance(x, list) else tuple, _shape(x, leaves)))
        else:
            shape.append(None)
            leaves.append(x)
    return shape


def nested(leaves: Sequence[Any], shape: list[Any]) -> list[Any]:
    """The values again."""
    return _taken(iter(leaves), shape)


def _taken(leaves: Iterator[Any], shape: list[Any]) -> list[Any]:
    return [next(leaves) if s is None else s[0](_taken(leaves, s[1])) for s in shape]


def spread(grads: Sequence[Any], shape: list[Any] | None) -> Sequence[Any]:
    """The gradients of what is in some values: of a list without one, None for each item."""
    if shape is None:
        return grads
    found: list[Any] = []
    for g, inner in zip(grads, shape):
        if inner is None:
            found.append(g)
        else:
            found += spread([None] * len(inner[1]) if g is None else g, inner[1])
    return found


def same_items(made: Sequence[Any], joined: Sequence[Any], own: Mapping[int, Any]) -> Sequence[Any]:
    """The items of a list as torch's functions give them (``joined``), those that were objects of ``own``, by identity, when it was ``made`` as the object there."""
    if isinstance(next(iter(made), None), (list, tuple)):
        found = [same_items(x, y, own) for x, y in zip(made, joined, strict=True)]
    elif own.keys().isdisjoint(map(id, made)):
        return joined
    else:
        found = [own.get(id(x), y) for x, y in zip(made, joined, strict=True)]
    return found if isinstance(joined, list) else tuple(found)
