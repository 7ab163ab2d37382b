"""The scheduler in its first form: a graph becomes a Python program of straight-line calls.

Every op is bound to a local name as a ``torch.*`` function where there is one (0.84 us a call against 1.43 for
``torch.ops.aten.*``); ``While`` and ``If`` are Python's own statements around them, so the program runs tensors of
any device. Values are dropped after their last use. The program means what ``interp`` means. Python nests 20 blocks
and indents 100 levels at most: a construct that stands deeper is a function of its own (``Part``), which the line calls.
"""

from __future__ import annotations

import builtins
import keyword
import re
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch

from ... import stacks
from ..graph import ops
from ..graph.ir import Graph, Node, Value, all_nodes, as_word, nesting, values_in
from ..graph.ops import OpaqueObject
from ..library import recursive_calls

_PYTHON = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "lshift": "<<", "rshift": ">>",
    "and_": "&", "or_": "|", "xor": "^", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
# Methods of strings as Python writes them: half the time of the op's function.
_TEXTS = {"__add__": "{} + {}", "__len__": "len({})", "__eq__": "{} == {}", "__ne__": "{} != {}", "__lt__": "{} < {}",
          "__le__": "{} <= {}", "__gt__": "{} > {}", "__ge__": "{} >= {}", "__getitem__": "{}[{}]"}  # fmt: skip


# Levels of one function: an ``elif`` chain nests a branch for each condition.
_DEEPEST = 16


@dataclass(frozen=True)
class Part:
    """A function that a host program calls for a construct which stands too deep: its lines, and their nodes."""

    name: str
    head: str
    lines: list[str]
    nodes: dict[int, Node]


@dataclass(frozen=True)
class Program:
    """A host program: its text and the function that it defines."""

    source: str
    run: Callable[..., list[Any]]
    nodes: dict[int, Node]


class Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.nodes: dict[int, Node] = {}
        self.parts: list[Part] = []
        self.names: dict[Value, str] = {}
        self.bound: dict[str, Any] = {"torch": torch}
        self.labels: dict[Any, str] = {}

    def name(self, value: Value) -> str:
        if value not in self.names:
            self.names[value] = f"v{len(self.names)}"
        return self.names[value]

    def bind(self, thing: Any, label: str) -> str:
        """A local name of the program for an object outside of it."""
        key = id(thing)
        if key not in self.labels:
            label = as_word(label)
            while label in self.bound or keyword.iskeyword(label):
                label += "_"
            self.bound[label], self.labels[key] = thing, label
        return self.labels[key]

    def line(self, indent: int, text: str, node: Node | None = None) -> None:
        if node is not None:
            self.nodes[len(self.lines)] = node
        self.lines.append("    " * indent + text)

    def constant(self, x: Any) -> str:
        if isinstance(x, Value):
            return self.name(x)
        if isinstance(x, (list, tuple)):
            inner = ", ".join(map(self.constant, x))
            return (
                f"[{inner}]"
                if isinstance(x, list)
                else f"({inner},)"
                if len(x) == 1
                else f"({inner})"
            )
        if isinstance(x, float) and (x != x or x in (float("inf"), float("-inf"))):
            return f"float({str(x)!r})"
        if isinstance(x, complex):
            return f"complex({self.constant(x.real)}, {self.constant(x.imag)})"
        if isinstance(x, OpaqueObject):
            return self.bind(x, x.label)
        if isinstance(x, torch.device):
            return self.bind(x, f"device_{x}")
        if isinstance(x, (torch.dtype, torch.layout, torch.memory_format)):
            return str(x)
        return repr(x)

    def graph(self, graph: Graph, indent: int, keep: frozenset[Value]) -> None:
        last = _last_uses(graph, keep)
        grad = True
        for i, node in enumerate(graph.nodes):
            if node.grad != grad:
                grad = node.grad
                self.line(indent, "set_grad(grad_mode)" if grad else "set_grad(False)")
            self.node(node, indent, keep)
            dead = sorted(self.name(v) for v in last.get(i, ()))
            if dead:
                self.line(indent, f"del {', '.join(dead)}")
        if not grad:
            self.line(indent, "set_grad(grad_mode)")

    def node(self, node: Node, indent: int, keep: frozenset[Value]) -> None:
        special = getattr(self, "_" + node.op, None)
        if special is not None and node.regions:
            place = special if indent < _DEEPEST else self.apart
            place(node, indent, keep)
            return
        outs = [self.name(v) for v in node.outputs]
        call = self.call(node)
        if not outs:
            self.line(indent, call, node)
        elif len(outs) == 1 and not _listed(node):
            self.line(indent, f"{outs[0]} = {call}", node)
        else:
            self.line(indent, f"{', '.join(outs)}{',' if len(outs) == 1 else ''} = {call}", node)

    def options(self, options: Any) -> str:
        """What ``tg.choose`` chooses from: Python makes a tuple of constants once."""
        known = not any(isinstance(o, Value) for o in options)
        return self.constant(tuple(options) if known else options)

    def call(self, node: Node) -> str:
        if node.op == "tg.kernel":
            fused, *inputs = node.args
            return f"{self.bind(fused.value, fused.label)}({', '.join(map(self.constant, inputs))})"
        args = [self.constant(a) for a in node.args]
        if node.op.startswith("py.") and not node.kwargs and not _tensors(node):
            sign = _PYTHON.get(node.op[3:])
            if sign is not None:
                left, right = (f"({a})" if a.startswith("-") else a for a in args)
                return f"{left} {sign} {right}"
            if node.op == "py.not":
                return f"not {args[0]}"
            if node.op in ("py.int", "py.float", "py.bool"):
                return f"{node.op[3:]}({args[0]})"
        if node.op == "tg.choose":
            return f"{self.options(node.args[1])}[{args[0]}]"
        if node.op in ("tg.identity", "py.constant"):
            return args[0]
        if node.op == "py.text" and node.args[0] in _TEXTS:
            return _TEXTS[node.args[0]].format(*args[1:])
        args += [f"{k}={self.constant(v)}" for k, v in node.kwargs.items()]
        return f"{self.function(node)}({', '.join(args)})"

    def function(self, node: Node) -> str:
        op = node.op
        if op in ops.DIRECT and not _opaque(node):  # those the op's own function opens
            return self.bind(ops.DIRECT[op], op.split(".")[1])
        return self.bind(ops.lookup(op).run, op.replace(".", "_").removesuffix("_default"))

    # ---- regions

    def apart(self, node: Node, indent: int, keep: frozenset[Value]) -> None:
        """A node with regions as a call of a function that takes the node's inputs."""
        params = list(dict.fromkeys(map(self.name, node.inputs)))
        if not all(n.grad for region in node.regions.values() for n in all_nodes(region)):
            params.append("grad_mode")
        outs = ", ".join(map(self.name, node.outputs))
        name = self.bind_fresh("part")
        lines, nodes = self.lines, self.nodes
        self.lines, self.nodes = [], {}
        getattr(self, "_" + node.op)(node, 1, keep)
        self.line(1, f"return {outs}")
        self.parts.append(Part(name, f"def {name}({', '.join(params)}):", self.lines, self.nodes))
        self.lines, self.nodes = lines, nodes
        call = f"{name}({', '.join(params)})"
        self.line(indent, f"{outs} = {call}" if outs else call, node)

    def enter(self, graph: Graph, args: tuple, indent: int) -> None:
        for value, arg in zip(graph.inputs, args, strict=False):
            if isinstance(arg, Value):
                self.names[value] = self.name(arg)
            else:
                self.line(indent, f"{self.name(value)} = {self.constant(arg)}")

    def region(
        self, graph: Graph, args: tuple, outs: list[str], indent: int, keep: frozenset[Value]
    ) -> None:
        """The body of a region that runs once: inputs are the caller's names, outputs are assigned at the end."""
        before = len(self.lines)
        self.enter(graph, args, indent)
        self.graph(graph, indent, keep | frozenset(graph.inputs) | frozenset(graph.outputs))
        if outs:
            self.line(
                indent, f"{', '.join(outs)} = {', '.join(self.name(v) for v in graph.outputs)}"
            )
        if len(self.lines) == before:
            self.line(indent, "pass")

    def _If(self, node: Node, indent: int, keep: frozenset[Value]) -> None:
        outs = [self.name(v) for v in node.outputs]
        self.line(indent, f"if {self.constant(node.args[0])}:")
        self.region(node.regions["then"], node.args[1:], outs, indent + 1, keep)
        self.line(indent, "else:")
        self.region(node.regions["orelse"], node.args[1:], outs, indent + 1, keep)

    def _Case(self, node: Node, indent: int, keep: frozenset[Value]) -> None:
        outs = [self.name(v) for v in node.outputs]
        index = self.bind_fresh("index")
        self.line(indent, f"{index} = int({self.constant(node.args[0])})")
        branches = list(node.regions.values())
        for i, branch in enumerate(branches):
            head = (
                "else:"
                if i == len(branches) - 1
                else f"{'if' if i == 0 else 'elif'} {index} == {i}:"
            )
            if len(branches) == 1:
                head = "if True:"
            self.line(indent, head)
            self.region(branch, node.args[1:], outs, indent + 1, keep)

    def bind_fresh(self, label: str) -> str:
        name, n = label, 0
        while name in self.bound:
            n += 1
            name = f"{label}_{n}"
        self.bound[name] = None
        return name

    def _While(self, node: Node, indent: int, keep: frozenset[Value]) -> None:
        carried = node.kwargs["carried"]
        cond, body = node.regions["cond"], node.regions["body"]
        outs = [self.name(v) for v in node.outputs]
        if outs:
            self.line(
                indent,
                f"{', '.join(outs)} = {', '.join(self.constant(a) for a in node.args[:carried])}",
            )
        self.line(indent, "while True:")
        rest = node.args[carried:]
        for graph in (cond, body):
            for value, name in zip(graph.inputs, outs, strict=False):
                self.names[value] = name
            shifted = Graph(graph.name)
            shifted.inputs = graph.inputs[carried:]
            self.enter(shifted, rest, indent + 1)
        held = keep | frozenset(cond.inputs) | frozenset(body.inputs)
        self.graph(cond, indent + 1, held | frozenset(cond.outputs))
        self.line(indent + 1, f"if not {self.name(cond.outputs[0])}: break")
        self.graph(body, indent + 1, held | frozenset(body.outputs))
        if outs:
            self.line(
                indent + 1, f"{', '.join(outs)} = {', '.join(self.name(v) for v in body.outputs)}"
            )

    def _Call(self, node: Node, indent: int, keep: frozenset[Value]) -> None:
        outs = [self.name(v) for v in node.outputs]
        self.region(node.regions["function"], node.args, outs, indent, keep)

    def _Try(self, node: Node, indent: int, keep: frozenset[Value]) -> None:
        outs = [self.name(v) for v in node.outputs]
        self.line(indent, "try:")
        self.region(node.regions["body"], node.args, outs, indent + 1, keep)
        for i, kinds in enumerate(node.kwargs["kinds"]):
            catching, held = self.bind(ops.catching, "catching"), self.bind(kinds.value, "kinds")
            self.line(indent, f"except {catching}({held}):")
            self.region(node.regions[f"handler{i}"], node.args, outs, indent + 1, keep)


def _opaque(node: Node) -> bool:
    return any(isinstance(x, OpaqueObject) for x in (*node.args, *node.kwargs.values()))


def _listed(node: Node) -> bool:
    """Whether the op returns a sequence although the graph has one value of it."""
    if node.op.startswith(("aten.", "op.")):
        returns = ops.overload(node.op)._schema.returns
        return len(returns) == 1 and str(returns[0].type) == "List[Tensor]"
    return False


def _tensors(node: Node) -> bool:
    return any(not hasattr(v.type, "kind") for v in node.inputs)


def _last_uses(graph: Graph, keep: frozenset[Value]) -> dict[int, list[Value]]:
    """The values whose last use is a node, by the node's index; graph inputs and kept values stay."""
    made = {v for n in graph.nodes for v in n.outputs}
    stay = keep | frozenset(graph.outputs)
    last: dict[Value, int] = {}
    for i, node in enumerate(graph.nodes):
        for v in values_in((node.args, node.kwargs)):
            if v in made and v not in stay:
                last[v] = i
        for v in node.outputs:
            if v not in stay:
                last.setdefault(v, i)
    out: dict[int, list[Value]] = {}
    for v, i in last.items():
        out.setdefault(i, []).append(v)
    return out


def build(graph: Graph, writer: Writer | None = None) -> Program:
    """The host program of a graph: ``run(*inputs) -> outputs``; ``writer`` may put more into it (``probes``)."""
    with stacks.LIMIT.deep(nesting(graph)):
        return _build(graph, writer or Writer())


def _build(graph: Graph, writer: Writer) -> Program:
    writer.bound["set_grad"] = torch._C._set_grad_enabled
    writer.bound[_identifier(graph.name)] = None
    params = [writer.name(v) for v in graph.inputs]
    for value, label in zip(graph.inputs, graph.input_names, strict=False):
        if _free(label) and label not in writer.bound and label not in writer.names.values():
            writer.names[value] = label
    params = [writer.names[v] for v in graph.inputs]
    writer.bound.update(dict.fromkeys(params))
    uses_grad = _switches_grad(graph)
    writer.graph(graph, 2 if uses_grad else 1, frozenset(graph.inputs))
    outs = ", ".join(writer.name(v) for v in graph.outputs)
    head = f"def {_identifier(graph.name)}({', '.join(params)}):"
    body, nodes = [*writer.lines, f"    return [{outs}]"], writer.nodes
    if uses_grad:
        body = ["    grad_mode = torch.is_grad_enabled()", "    try:", *body[:-1], f"    {body[-1]}",
                "    finally:", "        set_grad(grad_mode)"]  # fmt: skip
        nodes = {i + 2: n for i, n in nodes.items()}
    main = Part(_identifier(graph.name), head, body, nodes)
    namespace = {k: v for k, v in writer.bound.items() if k not in params}
    source, nodes = _define((*writer.parts, main), namespace, graph)
    return Program(source, namespace[main.name], nodes)


def _define(
    parts: Iterable[Part], namespace: dict[str, Any], graph: Graph
) -> tuple[str, dict[int, Node]]:
    """Define the functions of a program in a namespace; gives their text, and the nodes of its lines."""
    lines: list[str] = []
    nodes: dict[int, Node] = {}
    for part in parts:
        first = len(lines) + 2  # the line below the head, counted from one
        nodes.update((first + i, n) for i, n in part.nodes.items())
        lines += [part.head, *part.lines]
    source = "\n".join(lines) + "\n"
    exec(compile(source, f"<tograph host program of {graph.name}>", "exec"), namespace)
    for part in parts:
        code = namespace[part.name].__code__
        _NODES[id(code)] = nodes, graph
        weakref.finalize(code, _NODES.pop, id(code), None).atexit = False
    return source, nodes


# By identity: programs of two graphs may have equal code, and each its own nodes.
_NODES: dict[int, tuple[dict[int, Node], Graph]] = {}


def node_of(code: CodeType, line: int) -> tuple[Node | None, Graph | None]:
    """The node that a line of a host program runs, and its graph, by the program's code."""
    nodes, graph = _NODES.get(id(code), ({}, None))
    return nodes.get(line), graph


def _free(label: str) -> bool:
    """Whether a label may name an input: no keyword, no built-in that the program uses, no name of a value."""
    taken = keyword.iskeyword(label) or hasattr(builtins, label) or re.fullmatch(r"v\d+", label)
    return label.isidentifier() and not taken


def _identifier(name: str) -> str:
    return name if name.isidentifier() and not keyword.iskeyword(name) else "main"


def _switches_grad(graph: Graph) -> bool:
    return any(not n.grad for n in all_nodes(graph))


recursive_calls.BUILD.append(build)
