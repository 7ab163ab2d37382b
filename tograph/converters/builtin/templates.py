"""``string.Template``: ``substitute`` and ``safe_substitute`` with values that only the run knows make the text that an f-string makes."""

from __future__ import annotations

import collections
import string
from collections.abc import Iterator
from typing import Any

from ...runtime.traces.shown import shows_staged
from ..registry import handles
from ..strings import fstring


def _parts(template: string.Template, values: Any, safe: bool) -> Iterator[Any]:
    """What ``fstring`` takes, from left to right: the first name that is missing raises, as in Python."""
    text, end = template.template, 0
    for found in template.pattern.finditer(text):
        yield text[end : found.start()]
        end = found.end()
        yield _filled(template, found, values, safe)
    yield text[end:]


def _filled(template: string.Template, found: Any, values: Any, safe: bool) -> Any:
    name = found.group("named") or found.group("braced")
    if name is not None:
        return (values[name], "s", "") if not safe or name in values else found.group()
    if found.group("escaped") is not None:
        return template.delimiter
    if safe:
        return found.group()
    # no name is missing here, so this raises for the place that is none
    return string.Template.substitute(template, collections.defaultdict(str))


def _substitution(method: Any, safe: bool) -> None:
    def form(template, mapping=None, /, **named):
        given = () if mapping is None else (mapping,)
        if not shows_staged((*given, named)):
            return method(template, *given, **named)
        return fstring(*_parts(template, collections.ChainMap(named, *given), safe))

    handles(method)(form)


_substitution(string.Template.substitute, safe=False)
_substitution(string.Template.safe_substitute, safe=True)
