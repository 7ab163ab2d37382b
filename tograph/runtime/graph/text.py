"""The text of a graph, and the graph of a text: ``parse(show(g)) == g``, where graphs are equal that have the same text.

One node, one line; the graphs of a region op follow it, indented::

    main(%x: f32[3], %n: i64[]) {
      %0: bool[] = aten.gt.Scalar(%n, 0)  # user.py:3
      %1: f32[3] = If(%0, %x) {  # user.py:3
        then(%x: f32[3]) {
          %2: f32[3] = aten.mul.Tensor(%x, 2)  # user.py:4
          return %2
        }
        orelse(%x: f32[3]) {
          return %x
        }
      }
      !3 = tg.print(%1) ^%2  # user.py:5
      return %1
    }

Names are made in order of appearance, so equal graphs have equal texts. ``!3`` names a node without outputs;
``^`` marks control inputs; ``nograd`` an op recorded while gradients were off, ``unsure`` one whose sizes may not fit. Where the writes of in-place ops are shown too (``over``, for a
file), ``~`` marks what is written over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch

from ...errors import GraphSyntaxError, NotAGraphError, VerifyError
from . import ir
from .arities import misfit
from .ir import Graph, Node, Value, all_nodes, items_in
from .ops import REGION_OPS, REQUIRED_REGIONS, OpaqueObject, exists
from .text_constants import TORCH, Tokens
from .types import parse_type
from .verification import verify


class _Writer:
    def __init__(self, over: bool = False) -> None:
        self.over = over
        self.lines: list[str] = []
        self.names: dict[Any, str] = {}
        self.rows: dict[Node, int] = {}
        self.values: dict[Value, str] = {}
        self.count = 0

    def name(self, thing: Value | Node, wish: str = "") -> str:
        if thing not in self.names:
            mark = "%" if isinstance(thing, Value) else "!"
            wish = re.sub(r"[^\w.]", "_", wish)
            if not wish or wish.isdigit() or mark + wish in self.names.values():
                wish, self.count = str(self.count), self.count + 1
            self.names[thing] = mark + wish
            if isinstance(thing, Value):
                self.values[thing] = wish
        return self.names[thing]

    def constant(self, x: Any) -> str:
        if isinstance(x, Value):
            return self.names[x]
        if isinstance(x, (list, tuple)):
            inner = ", ".join(map(self.constant, x))
            if isinstance(x, list):
                return f"[{inner}]"
            return f"({inner},)" if len(x) == 1 else f"({inner})"
        if isinstance(x, torch.device):
            return f"device({str(x)!r})"
        if isinstance(x, complex):
            return f"complex({x.real!r}, {x.imag!r})"
        return str(x) if isinstance(x, TORCH) else repr(x)

    def graph(self, graph: Graph, indent: str, label: str) -> None:
        labels = graph.input_names + [""] * (len(graph.inputs) - len(graph.input_names))
        params = ", ".join(
            f"{self.name(v, n)}: {v.type}" for v, n in zip(graph.inputs, labels, strict=False)
        )
        self.lines.append(f"{indent}{label}({params}) {{")
        for node in graph.nodes:
            self.node(node, indent + "  ")
        outs = ", ".join(self.names[v] for v in graph.outputs)
        self.lines.append(f"{indent}  return {outs}".rstrip() + self.written(graph.over))
        self.lines.append(indent + "}")

    def node(self, node: Node, indent: str) -> None:
        args = [self.constant(a) for a in node.args]
        args += [f"{k}={self.constant(v)}" for k, v in node.kwargs.items()]
        text = f"{node.op}({', '.join(args)})"
        if node.control_inputs:
            text += " " + " ".join("^" + self.anchor(n) for n in node.control_inputs)
        text += self.written(node.over)
        text += ("" if node.grad else " nograd") + (" unsure" if node.unsure else "")
        text += " {" if node.regions else ""
        text += (
            f"  # {os.path.basename(node.location[0])}:{node.location[1]}" if node.location else ""
        )
        where = self.rows[node] = len(self.lines)
        self.lines.append("")
        # The graphs of a region see none of the names outside, but share the counter: names are unique.
        for label, region in node.regions.items():
            outer, self.names = self.names, {}
            self.graph(region, indent + "  ", label)
            self.names = outer
        if node.regions:
            self.lines.append(indent + "}")
        outs = ", ".join(f"{self.name(v)}: {v.type}" for v in node.outputs) or self.name(node)
        self.lines[where] = f"{indent}{outs} = {text}"

    def written(self, over: tuple[Value, ...]) -> str:
        return "".join(f" ~{self.names[v]}" for v in over if v in self.names) if self.over else ""

    def anchor(self, node: Node) -> str:
        return self.names[node.outputs[0] if node.outputs else node]


def show(graph: Graph, over: bool = False) -> str:
    """The text of a graph; ``over``: with what its in-place ops write over."""
    writer = _Writer(over)
    writer.graph(graph, "", graph.name)
    return "\n".join(writer.lines)


def lines_of(graph: Graph) -> dict[Node, str]:
    """The line that stands for each node of a graph and of its regions, without the user's place."""
    writer = _Writer()
    writer.graph(graph, "", graph.name)
    return {
        n: _PLACE.sub("", writer.lines[row].strip().removesuffix(" {"))
        for n, row in writer.rows.items()
    }


def names_of(graph: Graph) -> dict[Value, str]:
    """The names of all values in the text of a graph, without their mark."""
    writer = _Writer()
    writer.graph(graph, "", graph.name)
    return writer.values


def _alone(node: Node) -> str:
    writer = _Writer()
    for value in node.inputs:
        writer.name(value)
    for before in node.control_inputs:
        writer.name(before.outputs[0] if before.outputs else before)
    writer.node(node, "")
    return _PLACE.sub("", writer.lines[0].removesuffix(" {"))


_told: WeakKeyDictionary[Graph, dict[Node, tuple[str, list[str]]]] = WeakKeyDictionary()


def line_of(graph: Graph, node: Node) -> tuple[str, list[str]]:
    """The line that stands for a node that ran, and its inputs with their types; with numbers of its own if of another graph.

    Written once: a program that catches what a graph raises asks at every call.
    """
    known = _told.setdefault(graph, {})
    if node not in known:
        known[node] = _line_of(graph, node)
    return known[node]


_TEXTS = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
)  # of Python's strings among the arguments


def _line_of(graph: Graph, node: Node) -> tuple[str, list[str]]:
    kinds = {v: v.type for v in node.inputs}
    line = lines_of(graph).get(node) or _alone(node)
    words = re.findall(r"%[\w.]+", _TEXTS.sub("", line.split(" = ", 1)[-1]))
    return line, [f"{word}: {kind}" for word, kind in zip(dict.fromkeys(words), kinds.values())]


def equal(graph: Graph, other: object) -> Any:
    """Whether two graphs have the same text; Python objects in them are equal by their labels there.

    A graph can change, so as a key it is one by identity, as a tensor is.
    """
    if graph is other or not isinstance(other, Graph):
        return graph is other or NotImplemented
    return show(graph) == show(other)


ir.Graph.__str__ = show  # ir may not import this module
ir.Graph.__eq__ = equal

_HEAD = re.compile(r"(\S+?)\((.*)\) \{$")
_NAME = re.compile(r"%[\w.]+$")
_PLACE = re.compile(r"  # ((?:(?!  # ).)*):([0-9]+)$")


class _Reader:
    """Takes lines; ``number`` is the line that was taken last, which errors name."""

    def __init__(self, text: str):
        lines = enumerate(text.splitlines(), 1)
        self.lines = [(number, line.strip()) for number, line in lines if line.strip()]
        self.at = 0

    def fail(self, why: str) -> GraphSyntaxError:
        number, line = self.lines[self.at - 1] if self.at else (1, "")
        return GraphSyntaxError(f"line {number} of the graph: {why}: {line!r}")

    def peek(self) -> str:
        if self.at >= len(self.lines):
            raise self.fail("the text ends too early, after")
        return self.lines[self.at][1]

    def take(self) -> str:
        line = self.peek()
        self.at += 1
        return line

    def graph(self) -> Graph:
        head = _HEAD.match(self.take())
        if head is None:
            raise self.fail("expected 'name(inputs) {'")
        graph, known = Graph(head[1]), {}
        for part in _split(head[2]):
            name, _, kind = part.partition(": ")
            graph.inputs.append(self.define(known, name, kind))
            graph.input_names.append("" if name[1:].isdigit() else name[1:])
        while not (line := self.take()).startswith("return"):
            graph.nodes.append(self.node(line, known))
        outputs, *over = line[len("return") :].split(" ~")
        graph.outputs = [self.use(known, n) for n in _split(outputs)]
        graph.over = tuple(self.use(known, n) for n in over)
        if self.take() != "}":
            raise self.fail("expected '}'")
        return graph

    def define(self, known: dict, name: str, kind: str) -> Value:
        if not _NAME.match(name) or name in known:
            raise self.fail(
                f"{name!r} is defined twice" if name in known else f"not a name: {name!r}"
            )
        try:
            value = Value(parse_type(kind))
        except ValueError as error:
            raise self.fail(str(error)) from None
        known[name] = value
        return value

    def use(self, known: dict, name: str) -> Any:
        if name not in known:
            raise self.fail(f"{name} is not defined")
        return known[name]

    def node(self, line: str, known: dict) -> Node:
        place = _PLACE.search(line)
        line = line[: place.start()] if place else line
        location = (place[1], int(place[2])) if place else None
        outs, equals, right = line.partition(" = ")
        opens = right.endswith(" {")
        right = right[:-2] if opens else right
        unsure = right.endswith(" unsure")
        right = right[: -len(" unsure")] if unsure else right
        grad = not right.endswith(" nograd")
        right = right if grad else right[: -len(" nograd")]
        op, paren, rest = right.partition("(")
        if not equals or not paren:
            raise self.fail("expected 'outputs = op(arguments)'")
        if op not in REGION_OPS and not exists(op):
            raise self.fail(f"no such op: {op}")
        tokens = Tokens(self, rest, known)
        args, kwargs = tokens.arguments()
        names = [] if outs.startswith("!") else [o.partition(": ") for o in _split(outs)]
        wrong = None if op in REGION_OPS else misfit(op, args, kwargs or (), len(names))
        if wrong:
            raise self.fail(wrong)
        node = Node(op, args, kwargs, location=location, grad=grad)
        node.unsure = unsure
        marks = tokens.rest()
        node.control_inputs = [self.anchor(known, n) for n in marks if n[0] != "~"]
        node.over = tuple(self.use(known, n[1:]) for n in marks if n[0] == "~")
        for index, (name, _, kind) in enumerate(names):
            value = self.define(known, name, kind)
            value.node, value.index = node, index
            node.outputs.append(value)
        known["node " + (names[0][0] if names else outs)] = node
        if opens:
            self.regions(node)
        for name in REQUIRED_REGIONS.get(op, ()):
            if name not in node.regions:
                raise self.fail(f"{op} has no region {name!r}")
        return node

    def anchor(self, known: dict, text: str) -> Node:
        if not text.startswith("^"):
            raise self.fail(f"expected a control input, found {text!r}")
        return self.use(known, "node " + text[1:])

    def regions(self, node: Node) -> None:
        while self.peek() != "}":
            head = self.at + 1
            region = self.graph()
            if region.name in node.regions:
                self.at = head
                raise self.fail(f"two regions are called {region.name}")
            node.regions[region.name] = region
        self.take()


def _split(text: str) -> list[str]:
    """The parts between commas that stand outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "[<(") - (c in "]>)")
        if c == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def parse_graph(text: str) -> Graph:
    """The graph that ``str(graph)`` shows as ``text``; GraphSyntaxError names the line that is wrong.

    Example: ``tg.parse_graph(str(f.get_concrete_function(x).graph))``
    """
    if not isinstance(text, str):
        raise NotAGraphError(
            f"parse_graph takes the text of a graph, as str(graph) gives it, not {text!r}"
        )
    reader = _Reader(text)
    graph = reader.graph()
    if reader.at != len(reader.lines):
        reader.at += 1
        raise reader.fail("text after the end of the graph")
    try:
        verify(graph)
    except VerifyError as error:
        raise GraphSyntaxError(f"the graph is not well formed: {error}") from None
    return graph


def python_objects(graph: Graph) -> Iterator[tuple[Node, OpaqueObject]]:
    """The Python objects among the arguments of all nodes, regions after their node. The text has no more than their labels."""
    for node in all_nodes(graph):
        for x in items_in((node.args, node.kwargs), OpaqueObject):
            yield node, x
