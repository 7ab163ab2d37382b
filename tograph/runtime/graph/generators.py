"""Random generators that a program gives to what draws (``generator=g``): they stand among a node's arguments as opaque objects.

torch hands each op a Python object of its own for one generator in C++, so what tells two generators is the address in C++. That
an object of Python holds it behind its header is private to torch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import torch

from .ir import Node
from .opaque import OpaqueObject


def address(generator: torch.Generator) -> int:
    """The address of the generator in C++ that a Python object holds."""
    found = ctypes.c_void_p.from_address(id(generator) + object.__basicsize__).value
    assert found is not None
    return found


def generator_of(node: Node) -> torch.Generator | None:
    """The generator that a node draws from, or seeds; None for torch's default one, or for none."""
    for x in (*node.args, *node.kwargs.values()):
        if isinstance(x, OpaqueObject) and isinstance(x.value, torch.Generator):
            return x.value
    return None


def generators_of(nodes: Iterable[Node]) -> list[torch.Generator]:
    """The generators that nodes name, each once."""
    found = (g for g in map(generator_of, nodes) if g is not None)
    return list({address(g): g for g in found}.values())
