"""Backward hooks of a module for gradients of the graph: two nodes that give what they are given, and whose gradients call the hooks.

The one behind the module turns the cotangents of its outputs into those that the pre-hooks give. The one before it calls the hooks with the
cotangents of the inputs and with those of the outputs, which come to it by way of zeros that go from the one node to the other:

    %in, %zeros = Call(%x, zeros)        gradient: (gi, go) -> hooks(gi, go)
    ... the module, of %in ...
    %out = Call(%y, %zeros)              gradient: go -> prehooks(go), and the same for %zeros
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import GradientError
from ..runtime.graph.ir import Value
from ..runtime.library import custom, hooks
from ..runtime.symbols.funcgraph import Ref, current_graph, user_location
from ..runtime.symbols.symbolic import SymTensor, value_of
from ..runtime.writes import iterations

_TOLD = 4  # with more cotangents than that each is a tensor


class HookNodes:
    """The nodes around a module: made where its inputs are known, ``place`` puts them where its outputs are."""

    def __init__(self, hook: Any, args: Sequence[Any]):
        self.hook, self.graph = hook, current_graph()
        self.inputs = _graded(args, hook.input_tensors_index)
        self.values = [value_of(x, self.graph) for _, x in self.inputs]
        for (_, x), value in zip(self.inputs, self.values):
            if (
                x.ref is None
            ):  # branches and bodies in the module take its value from here, not that of the variable
                x.ref, x.version = Ref(value, self.graph), x.storage_.version
        self.start = len(self.graph.graph.nodes)

    def place(self, args: Sequence[Any]) -> None:
        """Put the nodes around what was recorded since; GradientError where that cannot be."""
        outputs = _graded(args, self.hook.output_tensors_index)
        if not outputs:
            return
        self.outputs = [k for k, _ in outputs]
        ys = [y for _, y in outputs]
        ends = [value_of(y, self.graph) for y in ys]
        through, zeros = self._before(ys) if self.inputs else ({}, [])
        values = [through.get(v, v) for v in ends]
        region = custom.gradient_region(values, self._prehooks, [*ys, *(ys if zeros else ())], list(range(len(values) + len(zeros))), _told(values))  # fmt: skip
        node = custom.call_of(values, [*values, *zeros], region.graph, "module_hook", told=_told(values))  # fmt: skip
        for y, old, new in zip(ys, ends, node.outputs):
            hooks.stand_for(y, old, new, self.graph)

    def _before(self, ys: Sequence[torch.Tensor]) -> tuple[dict[Value, Value], list[Value]]:
        """The node before the module: what stands for its inputs, and the zeros."""
        graph, nodes = self.graph, self.graph.graph.nodes
        xs, first = [x for _, x in self.inputs], len(nodes)
        if any(type(n) is not int for y in ys for n in y.shape):
            raise GradientError("the size of an output is known only when the graph runs", user_location())  # fmt: skip
        with torch.no_grad():
            rest = [torch.zeros(y.shape, dtype=y.dtype, device=y.device) for y in ys]
        values = [*self.values, *(value_of(x, graph) for x in rest)]
        told = _told(values)
        region = custom.gradient_region(values, self._hooks, [*xs, *rest], list(range(len(values))), told)  # fmt: skip
        node = custom.call_of(values, values, region.graph, "module_hook", told=told)
        if not hooks.ancestors(node).isdisjoint(nodes[self.start : first]):
            del nodes[first:]
            raise GradientError("a hook uses what the module computes", user_location())
        made, nodes[first:] = nodes[first:], []
        through = dict(zip(values[: len(xs)], node.outputs))
        changed = set(nodes[self.start :])
        for user in changed:
            user.replace_inputs(lambda v: through.get(v, v))
        for call in dict.fromkeys(getattr(n, "call", None) for n in iterations.behind(ys)):
            if call is not None:  # of an op with regions: it knows what it was given by the values
                call.inputs = [through.get(v, v) if call.node in changed else v for v in call.inputs]  # fmt: skip
        nodes[self.start : self.start] = made
        for x, new in zip(xs, node.outputs):  # what a gradient has saved of it is read anew
            graph.sources[new] = x
            if x.version == x.storage_.version:
                x.ref = Ref(new, graph)
        return through, node.outputs[len(xs) :]

    def _prehooks(self, *cotangents: Any) -> tuple[Any, ...]:
        """The cotangents of the outputs, and of the zeros."""
        given = _spread(cotangents, self.outputs, self.hook.n_outputs)
        for prehook in self.hook.user_pre_hooks:
            given = _checked(prehook(self.hook.module, given), given, "pre hook", "grad_output")
        found = tuple(given[k] for k in self.outputs)
        if self.inputs:
            return (*found, *found)
        nothing = (None,) * self.hook.n_inputs
        for hook in self.hook.user_hooks:
            made = hook(self.hook.module, nothing, given)
            if made is not None and any(x is not None for x in made):
                raise RuntimeError("Backward hook for Modules where no input requires gradient should always return None or None for all gradients.")  # fmt: skip
        return found

    def _hooks(self, *cotangents: Any) -> tuple[Any, ...]:
        """The cotangents of the inputs, and none of the zeros."""
        count = len(self.inputs)
        places = [i for i, _ in self.inputs]
        given = _spread(cotangents[:count], places, self.hook.n_inputs)
        behind = _spread(cotangents[count:], self.outputs, self.hook.n_outputs)
        if all(g is None for g in behind):  # past the outputs, as of a second derivative
            return cotangents[:count] + (None,) * len(self.outputs)
        for hook in self.hook.user_hooks:
            given = _checked(hook(self.hook.module, given, behind), given, "hook", "grad_input")
        return (*(given[i] for i in places), *(None for _ in self.outputs))


def _graded(args: Sequence[Any], places: Sequence[int] | None) -> list[tuple[int, Any]]:
    """The tensors that require a gradient, with their places."""
    return [(i, args[i]) for i in places or () if isinstance(args[i], SymTensor) and args[i].requires_grad]  # fmt: skip


def _told(values: Sequence[Value]) -> bool:
    return 1 < len(values) <= _TOLD


def _spread(found: Sequence[Any], places: Sequence[int], count: int) -> tuple[Any, ...]:
    """A value for each argument: None for those that have no gradient."""
    rows = dict(zip(places, found))
    return tuple(rows.get(i) for i in range(count))


def _checked(made: Any, given: tuple[Any, ...], kind: str, what: str) -> tuple[Any, ...]:
    """What a hook gives; None leaves what it was given."""
    if made is None:
        return given
    if len(made) != len(given):
        raise RuntimeError(f"Backward {kind} returned an invalid number of {what}, got {len(made)}, but expected {len(given)}")  # fmt: skip
    return tuple(made)
