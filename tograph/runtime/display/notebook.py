"""How functions, graphs and kernels show themselves in notebooks: their texts, coloured, with parts that fold."""

from __future__ import annotations

import html
import linecache
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..graph import text
from ..graph.ir import Graph

_STYLE = (
    "<style>.tograph{font-family:monospace;font-size:90%;white-space:pre;overflow-x:auto;line-height:1.4}"
    ".tograph summary{cursor:pointer;list-style-position:outside}.tograph .t{color:#3a7d44}.tograph .o{color:#1f5fa8;font-weight:600}"
    ".tograph .c{color:#888}@media (prefers-color-scheme:dark){.tograph .t{color:#7bc48a}.tograph .o{color:#7fb2ee}}</style>"
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
    """A line of a graph with its types, op and place marked."""
    return _marked(line, _PARTS)


def _marked(line: str, pattern: re.Pattern[str]) -> str:
    """One line with the groups of a pattern marked."""
    out, at = [], 0
    for found in pattern.finditer(line):
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


_TOKENS = {
    "user": re.compile(r"(?P<c>  # \S+:\d+ .*$)"),
    "loops": re.compile(r"(?P<c>#.*$)|(?P<t>: \w+(?==| =))|(?P<o>\b(?:kernel|for|load|store)\b|(?<== )\w+(?=\())"),
    "Triton": re.compile(
        r"(?P<c>#.*$)|(?P<t>\b(?:tl|libdevice)\.\w+)|(?P<o>@[\w.]+|\b(?:def|for|while|if|else|in|return|import|from|as)\b)"
    ),
    "LLVM": re.compile(
        r"(?P<c>;.*$)|(?P<t>\b(?:i\d+|float|double|half|ptr|void|<\d+ x \w+>))|(?P<o>\b(?:define|declare|ret|br|switch|phi|call|load|store|select)\b)"
    ),
}  # fmt: skip


def kernel_html(kernel: Any, unsupported: type[Exception]) -> str:
    """A kernel: the user's lines that it computes, and its loops, Triton source and LLVM text, each of which opens.

    ``unsupported``: what ``kernel.triton`` raises where there is none; its text is shown instead.
    """
    try:
        triton = kernel.triton
    except unsupported as why:
        triton = f"# none: {why}"
    rows = "".join(
        f"<div>{_marked(line, _TOKENS['user'])}</div>" for line in _user_lines(kernel.lines)
    )
    texts = {"loops": str(kernel.loops), "Triton": triton, "LLVM": kernel.llvm}
    parts = "".join(
        f"<details{' open' if name == 'loops' else ''}><summary>{name}</summary>{_marked_text(text, _TOKENS[name])}</details>"
        for name, text in texts.items()
    )
    head = f"<b>{html.escape(repr(kernel).strip('<>'))}</b>"
    return f'{_STYLE}<div class="tograph"><div>{head}</div>{rows}{parts}</div>'


def _user_lines(lines: tuple[str, ...]) -> Iterator[str]:
    """The source of each line that a kernel's nodes came from, once, with the ops that came from it."""
    ops: dict[tuple[str, int], list[str]] = {}
    for shown in lines:
        place, _, op = shown.rpartition(" ")
        file, _, line = place.rpartition(":")
        if line.isdigit():
            ops.setdefault((file, int(line)), []).append(op.removeprefix("aten."))
    for (file, line), found in ops.items():
        source = linecache.getline(file, line).strip()
        yield f"{source}  # {Path(file).name}:{line} {', '.join(found)}"


def _marked_text(text: str, pattern: re.Pattern[str]) -> str:
    return "".join(f"<div>{_marked(line, pattern) or ' '}</div>" for line in text.splitlines())
