"""One trace of a function: its graph, what it captured, and how to call it."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch

from ..errors import DeadResourceError
from . import autodiff, commits, host, structure, transforms
from .carrier import differentiable
from .commits import Target
from .diagnosis import at_run_time
from .funcgraph import FuncGraph, Storage
from .ir import Graph, Node, Value, prune, set_control_inputs
from .sources import Strong
from .structure import Leaf, Spec, flatten, opened, spec_of
from .symbolic import SymTensor
from .tracing import recording


class ConcreteFunction:
    """A traced function for one signature. Call it with the same arguments as the function.

    ``graph``: the Graph. ``inputs``, ``outputs``: its values. ``captured_inputs``: tensors that it reads or writes by
    reference. ``structured_outputs``: the structure of the result. ``host_code``: the program that runs it.
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        captured: Sequence[torch.Tensor],
        result: Spec,
        effects: Sequence[tuple[Any, Spec]],
        signature: Any,
        bind: Callable[..., list[Any]] | None = None,
        owned: Callable[[torch.Tensor], bool] = lambda x: False,
    ):
        """``owned``: whether something of the caller's holds a captured tensor, so that it is held weakly here."""
        self.name, self.graph = name, graph
        self._captured = [weakref.ref(x) if owned(x) else Strong(x) for x in captured]
        self.structured_input_signature = signature
        self._result, self._effects, self._bind = result, list(effects), bind
        self._single = isinstance(result, Leaf) and not result.fixed
        self.kernels: list[Any] = []
        self.late: list[tuple[int, Any]] = []

    inputs = property(
        lambda self: self.graph.inputs[: len(self.graph.inputs) - len(self._captured)]
    )
    outputs = property(lambda self: self.graph.outputs)

    @property
    def captured_inputs(self) -> list[torch.Tensor]:
        """The captured tensors; DeadResourceError when the caller has dropped one of them."""
        found = [held() for held in self._captured]
        for i, x in enumerate(found):
            if x is None:
                kind = self.graph.inputs[len(self.graph.inputs) - len(found) + i].type
                raise DeadResourceError(
                    f"a {kind} that {self.name!r} captured does not exist any more: its owner was deleted. "
                    "Keep the object that owns it for as long as the function is called."
                )
        return found

    @property
    def structured_outputs(self) -> Any:
        """The result's structure with a type for every value."""
        rest = iter(self.graph.outputs)
        return structure.unflatten(self._result, rest, lambda v: v.type)

    @cached_property
    def program(self) -> host.Program:
        return host.build(self.graph)

    @property
    def host_code(self) -> str:
        """The generated host program."""
        return self.program.source

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.name}: {len(self.graph.nodes)} nodes>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._bind is None:
            return self.run(list(args))
        tensors, places = self._bind(self, args, kwargs)
        return self.run(tensors, places)

    def _with_late(self, tensors: list[Any]) -> tuple[Any, ...]:
        """The inputs with those captured tensors that are the ``.grad`` of something at this call."""
        captured = list(self.captured_inputs)
        for i, owner in self.late:
            captured[i] = (tensors[owner] if isinstance(owner, int) else owner).grad
        return (*tensors, *captured)

    @cached_property
    def _floats(self) -> list[int]:
        """The inputs that may require grad; none when the gradient has to be that of the host program."""
        if not autodiff.supported(self.graph):
            return []
        return [i for i, v in enumerate(self.graph.inputs) if differentiable(v.type)]

    @cached_property
    def _differentiable(self) -> autodiff.Differentiable:
        return autodiff.Differentiable(self.graph, host.build)

    def _differentiates(self, inputs: Sequence[Any]) -> bool:
        """Whether this call runs a forward graph that keeps what the gradient needs."""
        return any(inputs[i].requires_grad for i in self._floats) and not transforms.active()

    def run(self, tensors: list[Any], places: Sequence[Target] = ()) -> Any:
        """The result for the tensors of the arguments; ``places`` are where effects on arguments go."""
        inputs = (*tensors, *self.captured_inputs) if not self.late else self._with_late(tensors)
        commits.calls.targets.append(places)
        try:
            if torch.is_grad_enabled() and self._differentiates(inputs):
                outputs = self._differentiable.run(inputs)
            else:
                outputs = self.program.run(*inputs)
        except Exception as error:
            _add_location(error, self.graph)
            raise
        finally:
            commits.calls.targets.pop()
        if self._single and not places:
            return outputs[0]
        values = iter(outputs)
        result = structure.unflatten(self._result, values, _same)
        for (names, spec), target in zip(self._effects, places):
            target.apply(names, structure.unflatten(spec, values, _same))
        return result


def _same(x: Any) -> Any:
    return x


def _add_location(error: BaseException, graph: Graph) -> None:
    """Note on an error which line of the user's code made the op that failed."""
    trace, node = sys.exc_info()[2], None
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == f"<tograph host program of {graph.name}>":
            node = host.node_of(code, trace.tb_lineno)
        trace = trace.tb_next
    at_run_time(error, node, graph)


# ---- finishing a trace


def finish(
    root: FuncGraph,
    arguments: Sequence[SymTensor],
    result: Any,
    effects: Sequence[tuple[Any, Any]],
):
    """(graph, captured tensors, result spec, effects) of a root graph that was recorded.

    An effect is (names of steps or None, content), and becomes (names, spec).
    """
    spec = opened(spec_of(result))
    specs = [(names, opened(spec_of(content))) for names, content in effects]
    with recording(root):
        outputs = flatten(result, spec, root)
        for (_, inner), (_, content) in zip(specs, effects):
            outputs += flatten(content, inner, root)
    graph = root.graph
    graph.outputs = outputs
    captured = [
        k.external for k in root.captures if isinstance(k, Storage) and k.external is not None
    ]
    order = [root.captures[a.storage_] for a in arguments]
    order += [
        v for k, v in root.captures.items() if isinstance(k, Storage) and k.external is not None
    ]
    names = dict(zip(graph.inputs, graph.input_names))
    graph.inputs = order
    graph.input_names = [names.get(v, "") for v in order]
    forward_reads(graph, frozenset())
    prune(graph)
    set_control_inputs(graph)
    root.closed = True
    return graph, captured, spec, specs


def late_inputs(root: FuncGraph) -> list[tuple[int, Any]]:
    """The captured inputs that are looked up at every call, with the owner of each."""
    captured = [k for k in root.captures if isinstance(k, Storage) and k.external is not None]
    return [(i, k.late) for i, k in enumerate(captured) if k.late is not None]


def forward_reads(graph: Graph, assigned: frozenset[Value]) -> None:
    """A read of an input that nothing in the graph writes is that input itself."""
    assigned = assigned | _assigned_inputs(graph)
    replaced: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node.replace_inputs(lambda v: replaced.get(v, v))
        if node.op == "tg.read" and node.args[0] not in assigned:
            replaced[node.outputs[0]] = node.args[0]
            continue
        for region in node.regions.values():
            skip = len(node.args) - len(region.inputs)
            outer = dict(zip(region.inputs, node.args[skip:]))
            forward_reads(region, frozenset(v for v, o in outer.items() if o in assigned))
        nodes.append(node)
    graph.nodes = nodes
    graph.outputs = [replaced.get(v, v) for v in graph.outputs]


def _assigned_inputs(graph: Graph) -> frozenset[Value]:
    found: set[Value] = set()
    for node in graph.nodes:
        if node.op == "tg.assign":
            found.add(node.args[0])
        for region in node.regions.values():
            skip = len(node.args) - len(region.inputs)
            inner = _assigned_inputs(region)
            found |= {
                o
                for v, o in zip(region.inputs, node.args[skip:])
                if v in inner and isinstance(o, Value)
            }
    return frozenset(found)
