"""The short way of a call that is joined with autograd: what most calls of a pair need, and nothing that only some do.

A pair has one where one node of autograd stands for all of its outputs and takes and gives tensors only. It is taken in a run of
which native code gives the forward part, and whose ways (``routes``) lead from every input to every output; ``run`` answers None in others.
The node keeps what ``nodes`` needs to go on: for gradients that are differentiated again, for some of the results, and where native code
declines, ``backward`` is the one of ``nodes``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..graph.types import TensorType
from ..symbols.plain_apply import plain_apply
from .generator_states import states_of
from .nodes import Call, ShareNode, dense, gradients
from .unbased import unbased

if TYPE_CHECKING:
    from .pairs import Pair


class Kept(NamedTuple):
    """What a node knows of its call, as ``nodes.Call`` does. ``numbers``: what is kept and no tensor, None in the places of tensors; empty where all are tensors."""

    direct: Direct
    inputs: Sequence[torch.Tensor]
    snapshots: Sequence[Any]
    state: Any
    versions: list[int]
    told: tuple[bool, ...]
    numbers: list[Any]
    likes: list[tuple[Any, ...]]
    doubts: list[int]


class Step(NamedTuple):
    """A backward program, and which of its results is the gradient of which input; ``flat``: the inputs whose gradient is known to be zero."""

    program: Any
    places: list[tuple[int, int]]
    flat: list[int]


class Direct:
    """The short way of a pair, whose one node is ``node``. ``taken``: whether a call has gone it."""

    def __init__(self, pair: Pair, node: ShareNode):
        self.pair, self.node = pair, node
        kept = [
            pair.graph.inputs[i] if i >= 0 else pair.pullback.forward.outputs[~i]
            for i in node.sources
        ]
        self.places = [k for k, v in enumerate(kept) if isinstance(v.type, TensorType)]
        self.sources = [node.sources[k] for k in self.places]
        self.others = [(k, s) for k, s in enumerate(node.sources) if k not in set(self.places)]
        first = len(pair.graph.outputs) + pair.saved
        self.snapshots = slice(first, first + len(pair.snapshots))
        self.told = slice(self.snapshots.stop, self.snapshots.stop + len(pair.routes.told))
        at = {i: k for k, i in enumerate(node.given)}
        self.twins = [(i, at[twin]) for i, twin in pair.twins.items()]
        self.taken = False
        self._steps: dict[Any, Step] = {}
        self._whole: dict[tuple[bool, ...], bool] = {}

    @classmethod
    def of(cls, pair: Pair) -> Direct | None:
        """That of a pair, or None."""
        if pair.constant or len(pair.nodes) != 1 or pair.before or pair.ended.places:
            return None
        [node] = pair.nodes
        given = [pair.pullback.forward.outputs[i] for i in node.given]
        plain = node.only_tensors and all(isinstance(v.type, TensorType) for v in given)
        usual = node.saves and not (node.groups or node.sized)
        return cls(pair, node) if plain and usual and pair.written.isdisjoint(pair.wrt) else None

    def run(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The outputs of the graph, joined with autograd; None where this is not the way."""
        pair = self.pair
        state = states_of(inputs) if pair.random else None
        with torch.no_grad():
            outs = pair.program.quick(inputs)
        if outs is None:
            return None
        if pair.program.gives_views:
            outs = unbased(outs, len(pair.graph.outputs), inputs)
        told = tuple(outs[self.told])
        if not self._goes_everywhere(told):
            return pair.joined([outs, state, []], inputs)
        self.taken = True
        outputs, given = list(outs), _direct(self, outs, (state, told), *inputs)
        for i, k in self.twins:
            outputs[i] = given[k]
        return pair.finished(outputs, inputs)

    def _goes_everywhere(self, told: tuple[bool, ...]) -> bool:
        """Whether each output has a history, and each input is in one."""
        if told not in self._whole:
            routes, positions = self.pair.routes, self.node.positions
            reached = routes.history_of(positions, told)
            self._whole[told] = reached.issuperset(self.pair.wrt) and not routes.without(positions, told)  # fmt: skip
        return self._whole[told]

    def kept(
        self,
        inputs: Sequence[torch.Tensor],
        outs: Sequence[Any],
        given: Sequence[torch.Tensor],
        state: Any,
        told: tuple[bool, ...],
    ) -> Kept:
        """What the node of a run keeps beside what it saves."""
        numbers: list[Any] = []
        if self.others:
            numbers = [None] * len(self.node.sources)
            for k, s in self.others:
                numbers[k] = inputs[s] if s >= 0 else outs[~s]
        likes = [(x.shape, x.dtype, x.device) for x in given] if len(given) > 1 else []
        versions = [x._version for x in inputs]
        kept = [self.node.sources[k] for k in self.node.doubtful.places]
        doubts = [(inputs[s] if s >= 0 else outs[~s])._version for s in kept]
        return Kept(
            self, inputs, outs[self.snapshots], state, versions, told, numbers, likes, doubts
        )

    def gradients(self, ctx: Any, kept: Kept, cotangents: Sequence[torch.Tensor]) -> list[Any] | None:  # fmt: skip
        """What ``backward`` gives; None where native code does not take these."""
        key = ctx.needs_input_grad, kept.told
        step = self._steps.get(key) or self._step(*key)
        try:
            stored: Sequence[Any] = ctx.saved_tensors
        except RuntimeError:  # freed, or written since: the longer way knows if that matters
            return None
        if self.others:
            filled = list(kept.numbers)
            for k, x in zip(self.places, stored):
                filled[k] = x
            stored = filled
        found = step.program.quick([*stored, *map(dense, cotangents)])
        if found is None:
            return None
        made: list[Any] = [None] * len(key[0])
        for i, k in step.places:
            made[i] = found[k]
        for i in step.flat:
            made[i] = torch.zeros_like(kept.inputs[i - _LEADING])
        return made

    def _step(self, needs: tuple[bool, ...], told: tuple[bool, ...]) -> Step:
        node, routes, wanted = self.node, self.pair.routes, needs[_LEADING:]
        there = (True,) * len(node.given)
        open_to = routes.open_to(node.positions, there, told)
        asked = [i for i in node.present if wanted[i]]
        program = self.pair.backward((node.number, there), tuple(wanted[i] for i in node.present))
        places = [(i + _LEADING, k) for k, i in enumerate(asked) if i in open_to]
        flat = sorted(i + _LEADING for i in open_to.difference(node.present) if wanted[i])
        self._steps[needs, told] = Step(program, places, flat)
        return self._steps[needs, told]

    def call(self, kept: Kept) -> Call:
        """The same for the longer way."""
        node, count = self.node, len(self.node.sources)
        specs = None if node.flat else ([None] * len(node.given), [None] * count)
        numbers = kept.numbers or [None] * count
        return Call(
            node, kept.inputs, None, kept.versions, kept.state, list(kept.snapshots), kept.told, self.places,
            numbers, None, kept.likes, specs, set(), kept.doubts, [], None,
        )  # fmt: skip


class _Direct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, direct: Direct, outs: Sequence[Any], told: tuple[Any, Any], *inputs: torch.Tensor) -> Any:  # fmt: skip
        node = direct.node
        ctx.save_for_backward(*[inputs[i] if i >= 0 else outs[~i] for i in direct.sources])
        ctx.set_materialize_grads(False)
        given = tuple([outs[i] for i in node.given])
        ctx.call = direct.kept(inputs, outs, given, *told)
        return given

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        kept = ctx.call
        if type(kept) is Kept:
            there = all(g is not None for g in grads)
            if there and not torch.is_grad_enabled():
                found = kept.direct.gradients(ctx, kept, grads)
                if found is not None:
                    return tuple(found)
            ctx.call = kept.direct.call(kept)
        return gradients(ctx, grads)


_LEADING = 3  # arguments of the node before the inputs of the graph
_direct = plain_apply(_Direct)
