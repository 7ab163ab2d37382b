"""Cotangents of what was broadcast in a run in which its own size is one.

torch sums a cotangent over the dimensions in which its tensor has one item. Of a size that only the run knows it is told that there are
others, so where a tensor of such a size met one of a known size (``x[mask] * w``) the graph checks that the two are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ..symbols.assumptions import assume_equal


@contextmanager
def checked(nodes: Iterable[Any]) -> Iterator[None]:
    """While torch's engine goes through nodes of its history, the cotangents that they give."""
    handles = []
    for node in nodes:
        sizes = [_open_sizes(edge) for edge in node.next_functions]
        if any(sizes) and not isinstance(node, torch.autograd.function.BackwardCFunction):
            handles.append(node.register_hook(_Check(sizes)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _open_sizes(edge: tuple[Any, int]) -> Sequence[Any]:
    """The sizes of the tensor that a cotangent is of, where only the run knows one of them."""
    node, index = edge
    known = () if node is None else node._input_metadata
    shape = known[index].shape if index < len(known) else ()
    return shape if any(type(n) is not int for n in shape) else ()


class _Check:
    """A hook behind a node, by the sizes of what it gives cotangents of."""

    def __init__(self, sizes: Sequence[Sequence[Any]]):
        self.sizes = sizes

    def __call__(self, grads: Sequence[Any], _: Any) -> None:
        for g, sizes in zip(grads, self.sizes):
            for n, size in zip(g.shape, sizes) if g is not None and g.dim() == len(sizes) else ():
                if type(n) is int and n != 1 and type(size) is not int:
                    assume_equal(size, n)


def same_size(g: Any, x: torch.Tensor) -> None:
    """The graph checks that a gradient that was taken has the sizes of its tensor."""
    for n, size in zip(g.shape, x.shape) if g is not None else ():
        if type(size) is not int:
            assume_equal(size, n)
