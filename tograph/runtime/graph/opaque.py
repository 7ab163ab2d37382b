"""Python objects inside a graph's arguments, such as a file or a callback: they are what they are, and have a label for the text."""

from __future__ import annotations

import re
from typing import Any

_LABEL = re.compile(r"[<>\n\r]")  # what the text of a graph could not read back


class OpaqueObject:
    """A Python object inside a graph's arguments, such as a file or a callback. Shown as ``<py label>``."""

    __slots__ = ("label", "value")

    def __init__(self, value: Any, label: str):
        self.value, self.label = value, label

    def __repr__(self) -> str:
        return f"<py {_LABEL.sub('', self.label)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueObject) and other.label == self.label

    def __hash__(self) -> int:
        return hash(self.label)


def plain(value: Any) -> Any:
    """``value`` with opaque objects opened."""
    return value.value if isinstance(value, OpaqueObject) else value
