"""How functions and graphs show themselves in notebooks: the text of the graph, coloured, with regions that fold."""

from __future__ import annotations

import html
import re
from typing import Any

from . import text
from .ir import Graph

_STYLE = (
    "<style>.tograph{font-family:monospace;font-size:90%;white-space:pre;overflow-x:auto;line-height:1.4}"
    ".tograph summary{cursor:pointer;list-style-position:outside}.tograph .t{color:#3a7d44}.tograph .o{color:#1f5fa8;font-weight:600}"
    ".tograph .c{color:#888}</style>"
)
_PARTS = re.compile(
    r"(?P<c>  # .*$)|(?P<t>: [\w<>]+(?:\[[\d,?]*\])?(?:@[\w:]+)?)|(?P<o>(?<== )[\w.]+(?=\())"
)


def graph_html(graph: Graph) -> str:
    """The graph as HTML; nested graphs open and close."""
    lines = text.show(graph).splitlines()
    return f'{_STYLE}<div class="tograph">{_block(lines)}</div>'


def _block(lines: list[str]) -> str:
    """Lines, with what stands between an opening and its closing line folded under the former."""
    out: list[str] = []
    i = 0
    while i < len(lines):
        line = lines[i]
        end = _end(lines, i)
        if end is None:
            out.append(f"<div>{_line(line)}</div>")
            i += 1
        else:
            inner = _block(lines[i + 1 : end])
            out.append(f"<details open><summary>{_line(line)}</summary>{inner}<div>{_line(lines[end])}</div></details>")  # fmt: skip
            i = end + 1
    return "".join(out)


def _end(lines: list[str], start: int) -> int | None:
    """Where the block ends that a line opens."""
    line = _PARTS.sub(lambda m: "" if m.lastgroup == "c" else m[0], lines[start])
    if not line.endswith("{"):
        return None
    indent = len(line) - len(line.lstrip())
    close = " " * indent + "}"
    return next((i for i in range(start + 1, len(lines)) if lines[i] == close), None)


def _line(line: str) -> str:
    """One line with its types, op and place marked."""
    out, at = [], 0
    for found in _PARTS.finditer(line):
        out.append(html.escape(line[at : found.start()]))
        out.append(f'<span class="{found.lastgroup}">{html.escape(found[0])}</span>')
        at = found.end()
    return "".join(out) + html.escape(line[at:])


def function_html(function: Any) -> str:
    """A function: its name, how often it was traced, and the graph of each trace."""
    found = function.concrete_functions
    head = f"<b>tg.function {html.escape(function.label())}</b>: {len(found)} trace{'s' if len(found) != 1 else ''}"
    shown = "".join(
        f"<details{' open' if i == 0 else ''}><summary>{html.escape(_signature(cf))}</summary>{graph_html(cf.graph)}</details>"
        for i, cf in enumerate(found)
    )
    return f"<div>{head}{shown}</div>"


def _signature(concrete: Any) -> str:
    names = concrete.graph.input_names
    types = [f"{n or '_'}: {v.type}" for n, v in zip(names, concrete.inputs)]
    return f"{concrete.name}({', '.join(types)})"
