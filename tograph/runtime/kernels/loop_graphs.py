"""The statements of loops that are one kernel: graphs, branches and inner loops as lines of Triton.

A value is a Triton variable: a scalar for numbers and tensors of one element, a block ``[XBLOCK]`` for vectors, whose elements
are numbered in row-major order. Python's ints are 64 bits here; where one would not fit, where Python or torch
would raise, the kernel sets the error code and its outputs mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from ..graph.ir import Graph, Node, Value
from ..graph.types import ScalarType
from . import triton_ops
from .loop_expressions import Expressions
from .loop_formulas import Formulas, dtype_of
from .loop_ir import Unsupported
from .loop_numbers import Numbers
from .loop_vectors import Vectors
from .triton_ops import TYPES, typed

STEPS = "steps"  # the output that is largest for the program which made the most iterations
SAME_ELEMENTS = frozenset(f"aten.{n}" for n in ["view.default", "_unsafe_view.default", "reshape.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default", "alias.default", "detach.default"]) | {"tg.identity"}  # fmt: skip


class Graphs(Numbers, Expressions, Vectors):
    """Writes graphs of values that fit into a program.

    ``guarded``: whether loops end when something has failed; a failure may be what keeps them going. ``pointers``: numbers come
    from memory, and no loop runs where ``go`` is false. ``safe``: nodes on numbers that surely do not fail.
    """

    def __init__(self, guarded: bool, pointers: bool, safe: Set[Node]):
        self.guarded, self.pointers, self.safe = guarded, pointers, safe
        self.sure = False  # whether the node that is being written is safe
        self.always = False  # whether every ``any`` is taken to be true, and every ``all`` false
        self.fails = False  # whether something may fail
        self.lines: list[str] = []
        self.indent = 1
        self.count = 0
        self.helpers: dict[str, None] = {}
        self.names: dict[Value, str] = {}
        self.matrices: dict[Value, str] = {}
        self.spread: frozenset[Value] = frozenset()  # vectors that are broadcast
        self.formulas = Formulas()

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def _texts(self, args: Sequence[Any], inputs: Sequence[Value]) -> list[str]:
        return [self.text(a, v) for a, v in zip(args, inputs, strict=True)]

    def text(self, a: Any, like: Value) -> str:
        """A node's argument as text: a variable, or a constant of the type that it stands for."""
        if isinstance(a, Value):
            return self.names[a]
        if a is None or not isinstance(a, (bool, int, float)):
            raise Unsupported(f"an argument {a!r}")
        return typed(a, dtype_of(like))

    def _typed(self, text: str, source: Any, like: Value) -> str:
        """The text as a block where ``like`` is a vector: the type of a variable may not change in a loop."""
        if self.is_vector(like) and not (isinstance(source, Value) and self.is_vector(source)):
            return f"tl.full([XBLOCK], {text}, {TYPES[dtype_of(like)]})"
        return text

    def _graph(self, graph: Graph, inputs: list[str]) -> list[str]:
        """Write a graph's nodes for its inputs; the variables of its outputs."""
        self.names.update(zip(graph.inputs, inputs, strict=True))
        for v, text in zip(graph.inputs, inputs):
            if text in self.matrices.values():
                self.names[v] = text
        for node in graph.nodes:
            self._node(node)
        return [self.names[v] for v in graph.outputs]

    def _node(self, node: Node) -> None:
        if node.op == "If":
            return self._if(node)
        if node.op == "While":
            if self.form == "blocks":
                raise Unsupported("a loop in a loop over blocks")
            self.names.update(zip(node.outputs, self._loop(node)))
            return None
        # What a number waits for does not matter: where it fails, all is done again.
        waits = node.control_inputs and not node.op.startswith("py.")
        if node.regions or waits or not node.outputs:
            raise Unsupported(f"{node.op} in a kernel")
        out = node.outputs[0]
        if node.op in SAME_ELEMENTS:
            self.names[out] = self._same(node)
        elif node.op.startswith("py."):
            self.sure = node in self.safe
            self._set(out, self._number(node))
            self.sure = False
        elif node.op == "tg.choose" and isinstance(out.type, ScalarType):
            self._set(out, self._choice(node))
        elif node.op in self.VECTORS and self.spread.isdisjoint(node.inputs):
            self._set(out, self.VECTORS[node.op](self, node))
        elif node.op == "aten.scalar_tensor.default" and isinstance(node.args[0], Value):
            source = node.args[0]
            self._set(out, triton_ops.cast(self.names[source], dtype_of(source), dtype_of(out)))
        else:
            self._formula(node)
        return None

    def _same(self, node: Node) -> str:
        """A tensor's variable in another shape."""
        x, out = node.args[0], node.outputs[0]
        if out in self.spread and out.type.shape != x.type.shape:
            raise Unsupported("another shape of what is broadcast")
        return self.names[x]

    def _set(self, value: Value, text: str) -> None:
        if text.isidentifier():
            self.names[value] = text
            return
        name = self.fresh()
        self.line(f"{name} = {text}")
        self.names[value] = name

    def _if(self, node: Node) -> None:
        predicate, *rest = node.args
        if not isinstance(predicate, Value) or self.is_vector(predicate):
            raise Unsupported("a branch on a vector")
        truth = self.names[predicate]
        if dtype_of(predicate) != "bool":
            truth += " != 0"
        outs = [self.fresh() for _ in node.outputs]
        for word, region in (("if " + truth, "then"), ("else", "orelse")):
            graph = node.regions[region]
            self.line(f"{word}:")
            self.indent += 1
            texts = self._graph(graph, self._texts(rest, graph.inputs))
            for out, text, source, like in zip(outs, texts, graph.outputs, node.outputs):
                self.line(f"{out} = {self._typed(text, source, like)}")
            if not outs:
                self.line("pass")
            self.indent -= 1
        self.names.update(zip(node.outputs, outs))

    def _loop(self, node: Node, counted: bool = False) -> list[str]:
        carried = node.kwargs["carried"]
        cond, body = node.regions["cond"], node.regions["body"]
        state = []
        for a, v in zip(node.args[:carried], body.inputs):
            name = self.fresh()
            self.line(f"{name} = {self._typed(self.text(a, v), a, v)}")
            state.append(name)
        if counted:
            self.line(f"{STEPS}_ = tl.full([], 0, tl.int64)")
            self._begun()
        go = self.fresh()
        self.line(f"{go} = {self._condition(cond, state, node.args[carried:])}")
        self.line(f"while {go}:")
        self.indent += 1
        outputs = self._graph(body, [*state, *self._texts(node.args[carried:], body.inputs[carried:])])  # fmt: skip
        following = [self._typed(t, o, v) for t, o, v in zip(outputs, body.outputs, body.inputs)]
        self._assign(state, following)
        if counted:
            self.line(f"{STEPS}_ += 1")
            self._answered()
        self.line(f"{go} = {self._condition(cond, state, node.args[carried:])}")
        self.indent -= 1
        return state

    def _begun(self) -> None:
        """Write what a counted loop knows before its first iteration."""

    def _answered(self) -> None:
        """Write what an iteration of a counted loop has told, behind its nodes."""

    def _assign(self, state: list[str], following: list[str]) -> None:
        """All at once: what is another part of the state is read before it changes."""
        moved = [text for name, text in zip(state, following) if text in state and text != name]
        taken = {text: self.fresh() for text in dict.fromkeys(moved)}
        for text, name in taken.items():
            self.line(f"{name} = {text}")
        for name, text in zip(state, following):
            if name != text:
                self.line(f"{name} = {taken.get(text, text)}")

    def _condition(self, cond: Graph, state: list[str], rest: Sequence[Any]) -> str:
        (out,) = self._graph(cond, [*state, *self._texts(rest, cond.inputs[len(state) :])])
        out = f"{out} != 0" if dtype_of(cond.outputs[0]) != "bool" else out
        tests = [f"({out})", *(["go"] if self.pointers else []), *(["(code == 0)"] if self.guarded else [])]  # fmt: skip
        return " & ".join(tests) if len(tests) > 1 else out

    def _fail(self, condition: str, code: int) -> None:
        if self.sure:
            return
        self.fails = True
        if self.guarded:
            self.line(f"code = tl.where({condition}, {code}, code)")
