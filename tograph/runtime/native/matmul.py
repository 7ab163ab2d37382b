"""Matrix products in native code."""

from __future__ import annotations

from ..ir import Node
from .values import Decline

OPS: dict[str, object] = {}


def lower(low, node: Node) -> None:
    """Write a matrix product."""
    raise Decline(f"{node.op} has no native form")
