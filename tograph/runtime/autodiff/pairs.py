"""A graph as a function of torch's autograd: forward/backward pairs, made when a call needs one, and kept.

A call with inputs that require grad runs the forward graph of the pair for those inputs, and keeps what the backward graph
needs. A gradient that is to be differentiated again (``create_graph=True``) is the **joint** graph (inputs and cotangents
-> gradients), a graph like any other, so any order is reached by recursion. It computes the forward part again: random
numbers are drawn from the state that the generator had, prints are left out, and tensors that the function
writes enter as the snapshots that it read, those that staged branches and loops use as what they were before the call: it writes nothing.

``supported`` says whether a graph can be treated so. Where it cannot, the caller runs the host program under autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ... import collector
from ..gradients import transforms
from ..graph.generators import generators_of
from ..graph.ir import Graph, Node, Value, all_nodes, map_values
from ..graph.ordering import graph_effects, prune, set_control_inputs
from ..graph.rewrite import copied, copy_node, leave_out
from ..passes.lift_writes import lifted
from ..symbols.carrier import differentiable
from ..writes.freed import is_freed
from ..writes.histories import Before
from ..writes.stale import MODIFIED
from .direct import Direct
from .ended import Ended
from .generator_states import gpus_of
from .graphs import append
from .nesting import same_items
from .nodes import ShareNode, dense
from .routes import Routes
from .shares import Share, narrowed, shares
from .unwrapped import unwrap
from .vjp import Pullback, vjp

Build = Callable[..., Any]  # of a graph, and of how many of its outputs leave the library
Taking = tuple[int, tuple[bool, ...]]  # a share's number, and which of its results take part
_HOST_ONLY = ("tg.py_call", "tg.recursion", "tg.cell_new", "tg.caught", "tg.reraise")


def supported(graph: Graph) -> bool:
    """Whether gradients of a graph can be taken as graphs: it calls no Python, and catches nothing."""
    return all(
        n.op not in _HOST_ONLY and all(map(supported, n.regions.values())) for n in graph.nodes
    )


class Pair:
    """The forward and backward programs of a graph for one set of inputs that require grad.

    ``constant``: no output depends on them as far as autograd sees, so ``program`` is that of the graph itself. ``made``: the input from which on
    they are leaves that the call makes and returns.
    """

    def __init__(self, graph: Graph, wrt: tuple[int, ...], build: Build, made: int | None = None):
        through = set(graph.inputs)
        given = [
            i
            for i, v in enumerate(graph.outputs)
            if v not in through and differentiable(v.type) and not is_freed(v)
        ]
        first: dict[Value, int] = {}
        for i in given:
            first.setdefault(graph.outputs[i], i)
        self.graph, self.wrt, self.build = graph, wrt, build
        self.made = len(graph.inputs) if made is None else made
        self.pullback = vjp(graph, wrt, list(first.values()))
        unwrap(self.pullback, len(graph.outputs))
        self.twins = {
            i: first[graph.outputs[i]]
            for i in given
            if first[graph.outputs[i]] in self.pullback.given
        }
        self.through = {
            i: graph.inputs.index(v) for i, v in enumerate(graph.outputs) if v in through
        }
        effects = graph_effects(graph)
        self.random, self.written = effects.random, frozenset(effects.writes)
        self.generators = generators_of(all_nodes(graph)) if self.random else []
        self.gpus = gpus_of(graph) if self.random else []
        inside = {v for n in graph.nodes if n.regions for v in n.inputs}
        self.before = [i for i in sorted(self.written) if graph.inputs[i] in inside]
        self.constant = not self.pullback.given
        forward = graph if self.constant else self.pullback.forward
        self.saved = len(forward.outputs) - len(graph.outputs)
        self.snapshots: list[Value] = []
        if not self.constant:
            self.snapshots = self._snapshots(forward)
            forward.outputs = forward.outputs + self.snapshots
        self.routes = Routes(forward, self.pullback.given, wrt)
        forward.outputs = forward.outputs + self.routes.told
        self.ended = Ended(graph)
        if self.ended.places:
            forward = copied(forward, ordered=True) if self.constant else forward
            self.ended.tell(forward, wrt)
            forward.outputs = forward.outputs + self.ended.told
        self.program = build(forward, len(graph.outputs))
        self.shares = [] if self.constant else shares(self.pullback)
        self.nodes = [ShareNode(self, k) for k in range(len(self.shares))]
        self.direct = Direct.of(self)
        self._narrowed: dict[Taking, Share] = {}
        self._backwards: dict[tuple[Taking, tuple[bool, ...]], Any] = {}
        self._refusals: dict[Taking, Any] = {}
        self._joints: dict[Taking, tuple[Differentiable, list[int]]] = {}

    def finished(self, found: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """The outputs, of all that the forward program gave, those without a gradient of this pair as autograd has to see them."""
        outputs = list(found[: len(self.graph.outputs)])
        for i, j in self.through.items():
            outputs[i] = inputs[j]
        if not self.ended.places:
            return outputs
        told = found[len(found) - len(self.ended.told) :]
        return self.ended.refusing(outputs, {j: inputs[j] for j in self.wrt}, told)

    @property
    def goes_directly(self) -> bool:
        """Whether a call has gone the short way."""
        return self.direct is not None and self.direct.taken

    def joined(self, box: list[Any], inputs: Sequence[Any]) -> list[Any]:
        """The outputs of the graph, joined with autograd. ``box``: see ``ShareNode.applied``."""
        by_index: dict[int, Any] = {}
        taken = [_as_before(x) if i in self.written else x for i, x in enumerate(inputs)]
        for share in self.nodes:
            returned = share.applied(box, taken)
            by_index.update(zip(share.given, returned))
        outputs = list(box[0])
        for i, twin in self.twins.items():
            made, outputs[i] = outputs[i], by_index[twin]
            if isinstance(made, (list, tuple)):
                own = {id(x): inputs[k] for k, x in enumerate(taken) if k not in self.written}
                outputs[i] = same_items(made, outputs[i], own)
        return self.finished(outputs, inputs)

    def narrowed(self, taking: Taking) -> Share:
        """A share where only some of its results take part in a gradient, see ``shares.narrowed``."""
        if taking not in self._narrowed:
            with collector.seldom():
                self._narrowed[taking] = narrowed(self.shares[taking[0]], taking[1])
        return self._narrowed[taking]

    def backward(self, taking: Taking, needed: tuple[bool, ...]) -> Any:
        """The backward program of a share that computes the gradients that are needed."""
        if (taking, needed) not in self._backwards:
            with collector.seldom():
                self._backwards[taking, needed] = self._backward(taking, needed)
        return self._backwards[taking, needed]

    def refuse_written(self, taking: Taking, stored: Sequence[Any], cotangents: Sequence[Any]) -> None:  # fmt: skip
        """Raise where a gradient needs what a region has written since it was saved.

        The joint graph of a call whose regions write its inputs has contents in the place of these writes, and does not see them.
        """
        if not self.before:
            return
        share = self.narrowed(taking)
        if taking not in self._refusals:
            with collector.seldom():
                self._refusals[taking] = self._refusing(share)
        program = self._refusals[taking]
        if program is None:
            return
        given = [stored[i] for i in share.stored] + [cotangents[i] for i in share.given]
        plain = [dense(x.detach()) if isinstance(x, torch.Tensor) else x for x in given]
        with torch.no_grad():
            (program.run_mapped if any(map(transforms.is_mapped, plain)) else program.run)(*plain)

    def _refusing(self, share: Share) -> Any:
        """What of a backward graph raises, as a program; None where nothing refuses what was written."""
        graph = copied(share.backward, ordered=True)
        graph.outputs = []
        leave_out(graph, ("tg.print", *_COMMITS))
        prune(graph)
        set_control_inputs(graph)
        return self.build(graph, 0) if any(map(_refuses, all_nodes(graph))) else None

    def _backward(self, taking: Taking, needed: tuple[bool, ...]) -> Any:
        share = self.shares[taking[0]] if all(taking[1]) else self.narrowed(taking)
        graph = copied(share.backward, ordered=True)
        graph.outputs = [v for v, n in zip(graph.outputs, needed) if n]
        leave_out(graph, _COMMITS)
        prune(graph)
        set_control_inputs(graph)
        return self.build(graph, 0)

    def joint(self, taking: Taking) -> tuple[Differentiable, list[int]]:
        """(inputs, snapshots, cotangents that are there) -> gradients, as a graph; and the inputs that these belong to."""
        if taking not in self._joints:
            number, there = taking
            own = [i for i, t in zip(self.shares[number].given, there, strict=True) if t]
            with collector.seldom():
                graph = lifted(self.graph) if self.before else self.graph
                p = vjp(graph, self.wrt, [self.pullback.given[i] for i in own], again=True)
                self._joints[taking] = Differentiable(self._joint_graph(p), self.build), p.present
        return self._joints[taking]

    def _snapshots(self, forward: Graph) -> list[Value]:
        """What a forward graph has read of tensors, but for those that enter as they were before the call."""
        others = {forward.inputs[i] for i in self.before}
        return [n.outputs[0] for n in forward.nodes if n.op == "tg.read" and n.args[0] not in others]  # fmt: skip

    def _joint_graph(self, p: Pullback) -> Graph:
        forward, backward = p.forward, p.backward
        made = Graph(backward.name)
        env = {v: Value(v.type) for v in (*forward.inputs, *self._snapshots(forward))}
        made.inputs = list(env.values())
        own = [forward.inputs[i] for i in self.before]
        starts = [Value(v.type) for v in own]
        made.inputs += starts
        for v, start in zip(own, starts):
            env[v] = _content(made, v, start, env)
        for node in forward.nodes:
            if node.op in ("tg.read", "tg.assign") and node.args[0] in own:
                _follow(node, made, env)
            elif node.op == "tg.read" and differentiable(node.outputs[0].type):
                [out] = node.outputs
                env[out] = _content(made, node.args[0], env[out], env)
            elif node.op not in ("tg.assign", "tg.read"):
                made.nodes.append(copy_node(node, env))
        count = len(p.kept)
        outs = forward.outputs[len(self.graph.outputs) :]
        cotangents = [Value(v.type) for v in backward.inputs[count + len(outs) :]]
        made.inputs += cotangents
        made.input_names = [""] * len(made.inputs)
        env = dict(
            zip(
                backward.inputs,
                [*(env[forward.inputs[i]] for i in p.kept), *(env[v] for v in outs), *cotangents],
            )
        )
        made.nodes += [copy_node(n, env) for n in backward.nodes]
        made.outputs = [map_values(env.__getitem__, v) for v in backward.outputs]
        leave_out(made, ("tg.print", *_COMMITS))
        _forget_writes(made)
        prune(made)
        set_control_inputs(made)
        return made


def _forget_writes(graph: Graph) -> None:
    """Leave out what nodes tell of writes over values: the backward part, which stands behind them, already refuses what it has to."""
    graph.over = ()
    for node in graph.nodes:
        node.over = ()
        for region in node.regions.values():
            _forget_writes(region)


def _refuses(node: Node) -> bool:
    """Whether a node of a backward graph may refuse what was written since it was saved."""
    return node.op == "tg.assert" and any(
        isinstance(x, str) and MODIFIED in x for x in node.args[2]
    )


def _content(graph: Graph, variable: Value, content: Value, env: dict[Value, Value]) -> Value:
    """What a tensor holds at some time, with the history that the tensor has."""
    if not differentiable(variable.type):
        return content
    return append(graph, "tg.written", env[variable], content, type=content.type)


def _follow(node: Node, graph: Graph, env: dict[Value, Value]) -> None:
    """A read or write of a tensor that is a value here."""
    variable = node.args[0]
    if node.op == "tg.read":
        env[node.outputs[0]] = env[variable]
        return
    content = env[node.args[1]]
    env[variable] = content if node.grad else _content(graph, variable, content, env)


# What a failure leaves of the changes of outer objects: the call that made them has returned when its gradient is taken.
_COMMITS = ("tg.commit",)


class Differentiable:
    """A graph with the pairs made so far, by the inputs that require grad."""

    def __init__(self, graph: Graph, build: Build, made: int | None = None):
        self.graph, self.build, self.made = graph, build, made
        self._pairs: dict[tuple[int, ...], Pair] = {}

    def pair(self, wrt: tuple[int, ...]) -> Pair:
        if wrt not in self._pairs:
            with collector.seldom():
                self._pairs[wrt] = Pair(self.graph, wrt, self.build, self.made)
        return self._pairs[wrt]

    def run(self, inputs: Sequence[Any], wrt: tuple[int, ...] | None = None) -> list[Any]:
        """The outputs of the graph, joined with autograd. ``wrt``: the inputs that require grad, where that is known."""
        if wrt is None:
            wrt = tuple(i for i, x in enumerate(inputs) if _requires_grad(x))
        pair = self.pair(wrt)
        if pair.constant:
            with torch.no_grad():
                outputs = pair.program.run(*inputs)
            return pair.finished(outputs, inputs)
        if pair.direct is not None:
            made = pair.direct.run(inputs)
            if made is not None:
                return made
        return pair.joined([], inputs)


def _requires_grad(x: Any) -> bool:
    """Whether a tensor does, or one in a list."""
    if isinstance(x, (list, tuple)):
        return any(map(_requires_grad, x))
    return isinstance(x, torch.Tensor) and x.requires_grad


def _as_before(x: Any) -> Any:
    """A tensor that the call writes, with the history that it has before: the gradient of the gradient goes on from there."""
    return Before.apply(x) if isinstance(x, torch.Tensor) and x.grad_fn is not None else x
