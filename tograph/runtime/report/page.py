"""The page: a template, a style sheet, a script and the data, in one file."""

from __future__ import annotations

import html
import json
from importlib import resources
from pathlib import Path
from typing import Any

_PARTS = resources.files(__package__)


def _part(name: str) -> str:
    return _PARTS.joinpath(name).read_text(encoding="utf-8")


def render(data: dict[str, Any]) -> str:
    """The text of the page for what ``collect`` gathered."""
    # `</script>` must not occur in a script, and U+2028 and U+2029 end lines in some readers.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "title": html.escape(f"{data['name']} - tograph report"),
        "style": _part("page.css"),
        "data": text,
        "script": _part("page.js"),
    }
    page = _part("page.html")
    for name, value in parts.items():
        page = page.replace("{{" + name + "}}", value, 1)
    return page


def write(data: dict[str, Any], path: str | Path) -> Path:
    """Write the page; OSError says why a path cannot be written."""
    target = Path(path)
    target.write_text(render(data), encoding="utf-8")
    return target
