"""Nodes of a graph being recorded as functions of torch's autograd.

ATen ops pass autograd on their way to the tracer. What is recorded directly (lists, optionals, ``If``, ``While``, ...) does
not: when an argument of such a node is carried by a tensor that requires grad, ``connect`` makes its outputs results of an
``autograd.Function`` whose backward records the gradient. For lists that is a rule (``rules``); for an op with regions the
gradient is the same op over the gradients of its regions (``alternatives``, ``loops``).

A region op is **extended** when its gradient is taken: it gets further outputs, the intermediates that the gradient needs,
and regions that compute them too. So a program that takes no gradient pays nothing, and effects run once. The new outputs
are functions of the same inputs: ``Call.outputs`` connects any of the outputs, which makes the gradient differentiable again.

Invariant: an output keeps its index; regions compute what they computed before, and more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..control_flow import recomputed
from ..gradients.engine import run_backward
from ..graph.ir import Graph, Node, Value, all_nodes, map_values
from ..graph.ordering import node_effects
from ..graph.overwritten import Writers, since
from ..graph.rewrite import copied
from ..symbols import duals, funcgraph
from ..symbols.carrier import Carrier, differentiable
from ..symbols.funcgraph import FuncGraph, current_graph
from ..symbols.plain_apply import within_transforms
from ..symbols.symbolic import as_symbolic, same
from ..writes import histories, saving
from .dependence import NOTHING, Dependence, output_dependences
from .objects import plain_object, zeros_like
from .rules import RULES, UNKNOWN

# Gradients of ops with regions, by op: set by ``alternatives`` and ``loops``, which need this module.
REGION_RULES: dict[str, Callable[[Call, list[Any], list[bool]], list[Any]]] = {}


class Call:
    """A recorded node with the tensors that carry its inputs: ``tensors`` maps an input's index to one."""

    def __init__(self, node: Node, graph: FuncGraph):
        self.node, self.graph = node, graph
        self.inputs = node.inputs
        self.tensors: dict[int, torch.Tensor] = {}
        for i, value in enumerate(self.inputs):
            found = graph.sources.get(value)
            if found is not None and differentiable(value.type) and _has_derivative(found):
                self.tensors[i] = found
        self.carried: int = node.kwargs.get("carried", 0)
        self.count: int | None = None  # of a While that counts its trips: the output's index
        self.ways: dict[int, Any] = {}  # by output, see ``inside``
        self.kept: saving.Kept = []  # what a gradient of the user's own has saved
        self.saves = False  # whether eager PyTorch saves tensors in what a region runs, as far as gradients went through it
        self.versions = {i: x._version for i, x in self.tensors.items()}
        self.enabled = torch.is_grad_enabled()  # where it was recorded
        self.hooked = _hooked(node, graph)
        self._known: list[Dependence] = []
        histories.hold(self, graph)

    def keep(self, index: int) -> None:
        """The tensor of an input is about to be written: another one has its content and history from now on."""
        x = self.tensors[index]
        if x._version == self.versions[index]:
            with torch.enable_grad():
                kept = _keep(self.inputs[index], self.graph, x)
            self.tensors[index], self.versions[index] = kept, kept._version

    def input(self, index: int) -> Any:
        """An input as an object: one from outside that was written since counts as a constant, its value is the one from then.

        Where a graph is replayed each content is a tensor of its own, with the history of that content.
        """
        x = self.tensors.get(index)
        value = self.inputs[index]
        if x is None:
            return plain_object(value, self.graph)
        if x._version == self.versions[index] or self.graph.replaying:
            return x
        if torch.is_grad_enabled():
            raise GradientError(
                f"the second derivative through `{self.node.op}` needs a tensor that has been modified by an inplace operation",
                self.node.location,
            )
        return plain_object(value, self.graph)

    def written_since(self) -> dict[Value, Writers | None]:
        """What may have been written over since the node was recorded, see ``overwritten.since``."""
        if not self.graph.root.wrote:
            return {}
        found = since(self.node, self.graph.graph)
        for v, flag in self.graph.written_later.items():
            known = found.get(v, [])
            found[v] = [*known, flag] if known is not None and isinstance(flag, Value) else None
        return found

    def readable(self) -> set[Value]:
        """The resources among the arguments that hold what they held when the node read them: neither it nor a later node may write them."""
        nodes = self.graph.graph.nodes
        if current_graph() is not self.graph or self.node not in nodes:
            return set()
        found = set(self.node.inputs)
        for node in nodes[nodes.index(self.node) :]:
            effects = node_effects(node)
            if effects.io and effects.may_fail:  # the user's Python
                return set()
            found.difference_update(node.inputs[i] for i in effects.writes)
        return found

    def left(self, index: int) -> list[Value]:
        """What the regions give for an output."""
        regions = [r for name, r in self.node.regions.items() if name not in ("cond", "gradient")]
        return [r.outputs[index] for r in regions if index < len(r.outputs)]

    def behind(self, index: int) -> list[bool]:
        """For each of ``tensors``, whether an output may depend on it."""
        if len(self._known) != len(self.node.outputs):
            self._known = self.depends()
        return [i in self._known[index] for i in self.tensors]

    def depends(self) -> list[Dependence]:
        """For each output of the node the differentiable inputs that it depends on."""
        known = dict.fromkeys(self.node.inputs, NOTHING)
        known |= {v: frozenset([i]) for i, v in enumerate(self.inputs) if i in self.tensors}
        tangents = duals.level_open() and not torch.is_grad_enabled()
        return output_dependences(self.node, known, tangents)

    def outputs(self, indices: Sequence[int]) -> list[Any]:
        """Outputs as objects, connected to the inputs where both can have a gradient."""
        kinds = [self.node.outputs[i].type for i in indices]
        chosen = [i for i, kind in zip(indices, kinds) if differentiable(kind)]
        made: dict[int, Any] = {}
        if chosen and self.tensors and (torch.is_grad_enabled() or duals.level_open()):
            depends = self.depends()
            chosen = [i for i in chosen if depends[i]]
            made = dict(zip(chosen, self.attached(chosen)))
        return [
            made[i] if i in made else plain_object(self.node.outputs[i], self.graph)
            for i in indices
        ]

    def attached(self, chosen: Sequence[int]) -> Sequence[Any]:
        """Outputs that depend on differentiable inputs."""
        if not chosen or not (torch.is_grad_enabled() or duals.level_open()):
            return [plain_object(self.node.outputs[i], self.graph) for i in chosen]
        return _attach(self, list(chosen), *self.tensors.values())

    def backward(
        self, indices: Sequence[int], grads: Sequence[Any], need: dict[int, bool]
    ) -> list[Any]:
        """The cotangents of ``tensors``, from those of the outputs ``indices``."""
        if all(g is None for g in grads):
            return [None] * len(self.tensors)
        by_output: list[Any] = [None] * len(self.node.outputs)
        for i, g in zip(indices, grads):
            by_output[i] = g
        wanted = [need.get(i, False) for i in range(len(self.inputs))]
        if self.node.op in REGION_RULES:
            found = REGION_RULES[self.node.op](self, by_output, wanted)
            self._refuse_hooks()
        else:
            found = self._by_rule(by_output)
        return [found[i] if need[i] else None for i in self.tensors]

    def _refuse_hooks(self) -> None:
        """An error where hooks of the user's would get what the regions have saved, and may change it."""
        if self.hooked and self.saves:
            raise GradientError(
                f"a gradient that is taken inside of the function needs what a staged `{self.node.op}` has saved under saved_tensors_hooks, which it "
                "does not give to hooks. Leave the hooks out, or let them stand in the branch or body that takes the gradient too.",
                self.node.location,
            )

    def pushed(self, indices: Sequence[int], tangents: Sequence[Any]) -> tuple[Any, ...]:
        """The tangents of the outputs ``indices``: what those of ``tensors`` give by the product with vectors from the left, which is linear in these."""
        outer = self.enabled
        with torch.enable_grad():
            inner = copy.copy(self)
            inner.node = self._with_gradients()
            inner.tensors = {i: _apart(x, outer) for i, x in self.tensors.items()}
            inner.versions = {i: x._version for i, x in inner.tensors.items()}
            outs = inner.attached(indices)
            self._refuse_lists([*outs, *self.tensors.values()])
            vectors = [torch.Tensor.requires_grad_(zeros_like(o)) for o in outs]
            there = [i for i, t in zip(inner.tensors, tangents) if t is not None]
            pulled = run_backward(outs, vectors, [inner.tensors[i] for i in there], True)
            given = [t for t in tangents if t is not None]
            pairs = [(p, t) for p, t in zip(pulled, given) if p is not None and p.requires_grad]
            found: Sequence[Any] = [None] * len(vectors)
            if pairs:
                seen, weights = zip(*pairs)
                found = run_backward(seen, weights, vectors, True)
            made = [zeros_like(o.detach()) if f is None else f for f, o in zip(found, outs)]
        return tuple(made) if outer else tuple(x.detach() for x in made)

    def _refuse_lists(self, found: Sequence[Any]) -> None:
        if any(isinstance(x, Carrier) for x in found):
            raise GradientError(
                "dual tensors (torch.autograd.forward_ad) are in a list whose length depends on data: use torch.func.jvp",
                self.node.location,
            )

    def _with_gradients(self) -> Node:
        """The node; where it was recorded while gradients were off, which tangents go through, another one that was not."""
        node = self.node
        if all(n.grad for r in node.regions.values() for n in all_nodes(r)):
            return node
        if not node_effects(node).pure:
            raise GradientError(
                f"a tangent (torch.autograd.forward_ad) goes through a staged `{node.op}` that is recorded under torch.no_grad() and has effects: "
                "take it without no_grad()",
                node.location,
            )
        regions = {name: copied(r, ordered=True) for name, r in node.regions.items()}
        for inner in (n for r in regions.values() for n in all_nodes(r)):
            inner.grad = True
        kinds = [v.type for v in node.outputs]
        made = Node(node.op, node.args, node.kwargs, kinds, regions=regions, location=node.location)
        self.graph.graph.nodes.append(made)
        return made

    def _by_rule(self, grads: list[Any]) -> list[Any]:
        if self.node.op in UNKNOWN:
            raise GradientError(UNKNOWN[self.node.op], self.node.location)
        env = {v: self.input(i) for i, v in enumerate(self.inputs)}
        args = map_values(env.__getitem__, self.node.args)
        results = RULES[self.node.op](
            args, lambda i: plain_object(self.node.outputs[i], self.graph), grads
        )
        found = list(_aligned(self.node.args, results))
        return found + [None] * (len(self.inputs) - len(found))


def _hooked(node: Node, graph: FuncGraph) -> bool:
    """Whether hooks stand around a node with regions, or around ops in these, that may change what is saved."""
    top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    if top is not None and not getattr(top[0], "faithful", False):
        return True
    packed = graph.root.packed
    return bool(packed) and any(_is_packed(r, packed) for r in node.regions.values())


def _is_packed(graph: Graph, packed: set[Graph]) -> bool:
    inner = (r for n in graph.nodes for r in n.regions.values())
    return graph in packed or any(_is_packed(r, packed) for r in inner)


def _has_derivative(x: torch.Tensor) -> bool:
    return x.requires_grad or (duals.level_open() and duals.tangent_of(x) is not None)


def _apart(x: torch.Tensor, again: bool) -> Any:
    """A tensor of the value of ``x`` to differentiate by, which has no tangent; and its history, where that is to be differentiated ``again``."""
    plain = duals.primal_of(x)
    if again and x.requires_grad:
        return histories.alias(plain)
    return torch.Tensor.requires_grad_(same(as_symbolic(plain)))


def _aligned(args: Any, grads: Any):
    """The cotangents of the values among arguments, in order."""
    for arg, g in zip(args, grads):
        if isinstance(arg, (list, tuple)):
            yield from _aligned(arg, [None] * len(arg) if g is None else g)
        elif isinstance(arg, funcgraph.Value):
            yield g


def _goes_on(node: Any) -> bool:
    """Whether the gradient that runs goes through a node; torch does not say it of a leaf."""
    return hasattr(node, "variable") or torch._C._will_engine_execute_node(node)


class Attached(torch.autograd.Function):
    """Some outputs of a call as functions of its differentiable inputs."""

    @staticmethod
    def forward(ctx: Any, call: Call, indices: list[int], *tensors: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.call, ctx.indices = call, indices
        return tuple(plain_object(call.node.outputs[i], call.graph) for i in indices)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        # A gradient with respect to some tensors goes only where these are.
        need = {i: f is not None and _goes_on(f) for i, (f, _) in zip(ctx.call.tensors, ctx.next_functions, strict=True)}  # fmt: skip
        return None, None, *ctx.call.backward(ctx.indices, grads, need)

    @staticmethod
    def jvp(ctx: Any, call: Any, indices: Any, *tangents: torch.Tensor | None) -> Any:
        return ctx.call.pushed(ctx.indices, tangents)


class Kept(torch.autograd.Function):
    """A value as a tensor with the history that ``x`` has now."""

    @staticmethod
    def forward(ctx: Any, value: Value, graph: FuncGraph, x: Any) -> Any:
        return plain_object(value, graph)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, grad

    @staticmethod
    def jvp(ctx: Any, value: Any, graph: Any, tangent: torch.Tensor) -> Any:
        return tangent


_attach, _keep = within_transforms(Attached), within_transforms(Kept)


def _refuse_tangents(node: Node, graph: FuncGraph) -> None:
    """An op without a gradient has no tangents either."""
    if not duals.level_open() or not any(differentiable(v.type) for v in node.outputs):
        return
    if any(v in graph.sources and duals.tangent_of(graph.sources[v]) is not None for v in node.inputs):  # fmt: skip
        raise GradientError(
            f"a tangent (torch.autograd.forward_ad) goes through `{node.op}`, which has no derivative inside of a function",
            node.location,
        )


def connect(node: Node, graph: FuncGraph) -> None:
    """Connect the outputs of a node that was recorded just now, where it has a gradient."""
    known = node.op in RULES or node.op in REGION_RULES or node.op in UNKNOWN
    if not known or (node.op in ("tg.read", "tg.written") and not graph.replaying):
        if not known:
            _refuse_tangents(node, graph)
        return
    if node.grad:
        GIVE_TOKENS(node, graph)
    call = Call(node, graph)
    if not call.tensors:
        return
    depends = call.depends()
    chosen = [i for i, v in enumerate(node.outputs) if differentiable(v.type) and depends[i]]
    with torch.set_grad_enabled(node.grad):
        for i, x in zip(chosen, call.attached(chosen)):
            graph.sources[node.outputs[i]] = x


def GIVE_TOKENS(node: Node, graph: FuncGraph) -> None:
    """Give a node inputs that stand for the leaves which it makes. Set by ``given_leaves``."""


def connected(value: Value, graph: FuncGraph) -> Any:
    """An output that a recorded node got since, connected to the inputs of the node."""
    assert value.node is not None
    return Call(value.node, graph).outputs([value.index])[0]


funcgraph.CONNECT = connect
recomputed.CONNECTED = connected
