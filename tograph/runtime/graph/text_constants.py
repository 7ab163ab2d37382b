"""The arguments and control inputs in a line of a graph's text: values, numbers, strings, words of torch, lists of these.

``reader`` is that of ``text``: it knows the names of values, and its ``fail`` makes the error that names the line.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import torch

from .ops import OpaqueObject

_FLOATS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}

_CALLS = {"device": torch.device, "complex": complex}

TORCH = (torch.dtype, torch.layout, torch.memory_format)

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|(?P<py><py\s[^<>]*>)
    |(?P<number>-?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|inf\b|nan\b))(?![\w.])|(?P<name>[%!^~]*[\w.]+)|(?P<mark>[()\[\],={}:]))""",
    re.X,
)


class Tokens:
    """The constants of one line."""

    def __init__(self, reader: Any, text: str, known: dict):
        self.reader, self.known = reader, known
        self.items: list[tuple[str, str]] = []
        self.at = at = 0
        text = text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise reader.fail(f"cannot read {text[at:]!r}")
            self.items.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()

    def peek(self, offset: int = 0) -> str:
        i = self.at + offset
        return self.items[i][1] if i < len(self.items) else ""

    def skip(self, mark: str) -> None:
        if self.peek() != mark:
            raise self.reader.fail(f"expected {mark!r}")
        self.at += 1

    def rest(self) -> list[str]:
        return [text for _, text in self.items[self.at :]]

    def arguments(self) -> tuple[tuple, dict]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        while self.peek() != ")":
            if self.peek(1) == "=":
                key = self.peek()
                self.at += 2
                kwargs[key] = self.value()
            else:
                args.append(self.value())
            if self.peek() != ")":
                self.skip(",")
        self.at += 1
        return tuple(args), kwargs

    def value(self) -> Any:
        if self.at >= len(self.items):
            raise self.reader.fail("the line ends too early")
        kind, text = self.items[self.at]
        self.at += 1
        if kind == "string":
            return self.literal(text)
        if kind == "py":
            return OpaqueObject(None, text[4:-1])
        if kind == "number":
            return _FLOATS[text] if text in _FLOATS else self.literal(text)
        if text in ("[", "("):
            return self.sequence("]" if text == "[" else ")")
        if text.startswith("%"):
            return self.reader.use(self.known, text)
        return self.word(text)

    def literal(self, text: str) -> Any:
        """The number or string that a Python literal shows."""
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise self.reader.fail(f"cannot read {text}") from None

    def sequence(self, close: str) -> Any:
        items = []
        while self.peek() != close:
            items.append(self.value())
            if self.peek() != close:
                self.skip(",")
        self.at += 1
        return items if close == "]" else tuple(items)

    def word(self, text: str) -> Any:
        words = {"None": None, "True": True, "False": False, "Ellipsis": ...}
        if text in words:
            return words[text]
        if text in _CALLS:
            self.skip("(")
            args, _ = self.arguments()
            try:
                return _CALLS[text](*args)
            except (TypeError, ValueError, RuntimeError):
                raise self.reader.fail(f"not a {text}: {args}") from None
        found = (
            getattr(torch, text.removeprefix("torch."), None) if text.startswith("torch.") else None
        )
        if not isinstance(found, TORCH):
            raise self.reader.fail(f"unknown word {text!r}")
        return found
