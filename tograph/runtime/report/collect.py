"""The data of a report: plain dicts, lists and strings that become JSON."""

from __future__ import annotations

import ast
import linecache
import os
from dataclasses import dataclass, field
from typing import Any

import torch

from ...syntax_trees import parse
from .. import passes
from ..display import artifacts
from ..graph.ir import Graph, Node, Value, all_nodes, values_in
from ..graph.ordering import node_effects
from ..graph.text import lines_of, names_of, parse_graph


@dataclass
class Extras:
    """What a report shows beyond the trace itself.

    ``kinds``: (file, line) -> (graph, python or not reached; why). ``times``: node -> (seconds, runs).
    """

    kinds: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    times: dict[Node, tuple[float, int]] = field(default_factory=dict)
    total: float = 0.0
    retraces: str = ""
    example: str = ""


def collect(concrete: Any, extras: Extras | None = None) -> dict[str, Any]:
    """Everything that the page shows."""
    extras = extras or Extras()
    graph, names = concrete.graph, names_of(concrete.graph)
    return {
        "name": concrete.name,
        "torch": torch.__version__,
        "signature": [f"{names[v]}: {v.type}" for v in concrete.inputs],
        "outputs": [str(v.type) for v in graph.outputs],
        "functions": _functions(graph, extras),
        "stages": _stages(concrete, extras),
        "host": concrete.host_code,
        "kernels": _kernels(concrete),
        "level": f"{concrete.scheduled.level} {concrete.scheduled.reason}".strip(),
        "timed": bool(extras.times),
        "total": extras.total,
        "retraces": extras.retraces.splitlines(),
        "example": extras.example,
    }


# ---- graphs


def _stages(concrete: Any, extras: Extras) -> list[dict[str, Any]]:
    """The graph as traced, after each pass that changed it, and as it runs, with times."""
    graph = concrete.graph
    files = {os.path.basename(f): f for f in _files(graph)}
    found = [{"name": "traced", "does": "as traced", "graph": graph_data(graph, Extras(), files)}]
    for step in passes.trace(graph):
        if step.changed:
            made = graph_data(parse_graph(step.text), Extras(), files)
            found.append({"name": step.name, "does": step.summary, "graph": made})
    made = graph_data(concrete.optimized_graph, extras, files)
    return [*found, {"name": "as it runs", "does": "what the program runs", "graph": made}]


def graph_data(graph: Graph, extras: Extras, files: dict[str, str]) -> dict[str, Any]:
    """A graph and its regions. Values and nodes are numbered over all regions."""
    return _GraphData(graph, extras, files).graph(graph, "")


class _GraphData:
    def __init__(self, graph: Graph, extras: Extras, files: dict[str, str]):
        self.lines, self.extras, self.files = lines_of(graph), extras, files
        self.names = names_of(graph)
        self.values: dict[Value, int] = {}
        self.nodes: dict[Node, int] = {}

    def value(self, v: Value) -> int:
        return self.values.setdefault(v, len(self.values))

    def graph(self, graph: Graph, title: str) -> dict[str, Any]:
        written = {n.inputs[i] for n in graph.nodes for i in node_effects(n).writes}
        inputs = [
            {
                "v": self.value(v),
                "name": self.names[v],
                "type": str(v.type),
                "written": v in written,
            }
            for v in graph.inputs
        ]
        nodes = [self.node(n, written) for n in graph.nodes]
        outputs = [self.value(v) for v in graph.outputs]
        return {"title": title, "ins": inputs, "nodes": nodes, "outs": outputs}

    def node(self, node: Node, resources: set[Any]) -> dict[str, Any]:
        number = self.nodes[node] = len(self.nodes)
        seconds, runs = self.extras.times.get(node, (0.0, 0))
        file, line = node.location or ("", 0)
        return {
            "id": number,
            "op": node.op,
            "text": self.lines[node],
            "types": [str(v.type) for v in node.outputs],
            "ins": list(dict.fromkeys(self.value(v) for v in values_in((node.args, node.kwargs)))),
            "outs": [self.value(v) for v in node.outputs],
            "after": [self.nodes[n] for n in node.control_inputs if n in self.nodes],
            "uses": sorted(self.value(v) for v in node.inputs if v in resources),
            "file": self.files.get(os.path.basename(file), file),
            "line": line,
            "effects": _effects(node),
            "regions": [self.graph(g, name) for name, g in node.regions.items()],
            "seconds": seconds,
            "runs": runs,
        }


def _effects(node: Node) -> list[str]:
    e = node_effects(node)
    words = {"random numbers": e.random, "acts outside (io)": e.io, "may fail": e.may_fail}
    words |= {"reads a resource": bool(e.reads), "writes a resource": bool(e.writes)}
    return [word for word, has in words.items() if has]


def _files(graph: Graph) -> set[str]:
    return {file for file, _ in _places(graph)}


# ---- sources


def _functions(graph: Graph, extras: Extras) -> list[dict[str, Any]]:
    """The user's functions that nodes came from, each beside its rewritten form."""
    used: dict[str, set[int]] = {}
    for file, line in [*_places(graph), *(p for p, (kind, _) in extras.kinds.items() if kind)]:
        used.setdefault(file, set()).add(line)
    found = []
    for file in sorted(used):
        for first, last, name, text, line_map in _rewritten(file):
            lines = used[file] & set(range(first, last + 1))
            if lines:
                found.append(
                    (-len(lines), _function(file, first, last, name, text, line_map, extras))
                )
    return [f for _, f in sorted(found, key=lambda pair: pair[0])]


def _rewritten(file: str) -> list[tuple[int, int, str, str, dict[int, int]]]:
    """The converted functions of a file, in its order; of two for one place the last."""
    found = {}
    for entry in (e for make in artifacts.CONVERTED for e in make(file)):
        found[entry[0], entry[2]] = entry
    inner = {(a, b) for a, b, *_ in found.values()}
    return [
        e for e in sorted(found.values(), key=lambda e: e[0])
        if not any(a <= e[0] and e[1] <= b and (a, b) != (e[0], e[1]) for a, b in inner)
    ]  # fmt: skip


def _places(graph: Graph) -> list[tuple[str, int]]:
    return [(n.location[0], n.location[1]) for n in all_nodes(graph) if n.location is not None]


def _function(file, first, last, name, text, line_map, extras: Extras) -> dict[str, Any]:
    source = []
    for number in range(first, last + 1):
        kind, why = extras.kinds.get((file, number), ("", ""))
        line = linecache.getline(file, number).rstrip()
        source.append({"n": number, "text": line, "kind": kind, "why": why})
    made = [
        {"n": line_map.get(i, 0), "text": line}
        for i, line in enumerate(text.rstrip().split("\n"), 1)
    ]
    return {"name": name, "file": file, "source": source, "made": made}


def last_line(file: str, first: int) -> int:
    """The last line of the function whose ``def`` or first decorator is at a line of a file."""
    try:
        tree = parse("".join(linecache.getlines(file)))
    except SyntaxError:  # a notebook cell with magic commands
        return first
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            starts = [node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]
            if min(starts) <= first <= node.lineno:
                return node.end_lineno or first
    return first


# ---- kernels


def _kernels(concrete: Any) -> list[dict[str, Any]]:
    """The kernels with the sources that they have, after the native program that holds some of them."""
    found = [_kernel(k) for k in concrete.kernels]
    native = concrete.scheduled.llvm
    return (
        [{"name": "native program", "sources": {"llvm": str(native)}}, *found] if native else found
    )


def _kernel(kernel: Any) -> dict[str, Any]:
    sources = {}
    lines = getattr(kernel, "comments", None)
    if lines:
        sources["computes"] = "\n".join(lines)
    for label in ("triton", "loops", "llvm"):
        text = getattr(kernel, label, None)
        if text:
            sources[label] = str(text)
    return {"name": kernel.name, "sources": sources}
