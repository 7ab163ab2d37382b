"""What a failed assertion or a raised exception says, where the other system takes a fixed text."""

from __future__ import annotations

from typing import Any

from ..graph.ir import Value
from ..graph.ops import OpaqueObject

RUN_TIME = "..."  # what only the run knows


def exception_name(kind: Any) -> str:
    """The name of an exception's class."""
    name = type(kind.value).__name__ if isinstance(kind, OpaqueObject) else str(kind)
    return name.removeprefix("tg.")


def message(args: Any) -> str:
    """The text of an exception's arguments."""
    return ", ".join(map(_part, args))


def _part(x: Any) -> str:
    if not isinstance(x, Value):
        return x if isinstance(x, str) else RUN_TIME if isinstance(x, OpaqueObject) else repr(x)
    if x.node is not None and x.node.op == "py.format":
        return "".join(p if isinstance(p, str) else _formatted(p) for p in x.node.args)
    return RUN_TIME


def _formatted(part: Any) -> str:
    return RUN_TIME if isinstance(part[0], Value) else format(part[0], part[2]) if isinstance(part[2], str) else RUN_TIME  # fmt: skip
