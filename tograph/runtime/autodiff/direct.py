"""The short way of a call that is joined with autograd: what most calls of a pair need, and nothing that only some do.

A pair has one where its nodes of autograd take and give tensors only. It is taken in a run of which native code gives the forward
part, and whose ways (``routes``), where they differ from run to run, lead from every input to every output; ``run`` answers None where native code gave nothing.
A node keeps what ``nodes`` needs to go on: for gradients that are differentiated again, for some of the results, and where native code
declines, ``backward`` is the one of ``nodes``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..graph.types import TensorType
from ..symbols.plain_apply import plain_apply
from .generator_states import states_of
from .looked import modified
from .nodes import Call, ShareNode, dense, gradients
from .unbased import unbased

if TYPE_CHECKING:
    from .pairs import Pair


class Kept(NamedTuple):
    """What a node knows of its call, as ``nodes.Call`` does.

    ``held``: its inputs, None for those that are saved. ``stored``: the tensors that it keeps where no gradient frees them, else None. ``numbers``: what is kept
    and no tensor, None in the places of tensors; empty where all are tensors.
    """

    node: Node
    held: Sequence[torch.Tensor | None]
    stored: tuple[torch.Tensor, ...] | None
    snapshots: Sequence[Any]
    state: Any
    told: tuple[bool, ...]
    versions: list[int]
    numbers: list[Any]
    likes: list[tuple[Any, ...]]
    doubts: list[int]


class Step(NamedTuple):
    """A backward program, and which of its results is the gradient of which input; ``flat``: the inputs whose gradient is known to be zero."""

    program: Any
    places: list[tuple[int, int]]
    flat: list[int]


class Direct:
    """The short way of a pair. ``taken``: whether a call has gone it."""

    def __init__(self, pair: Pair):
        self.pair, self.nodes = pair, [Node(pair, node) for node in pair.nodes]
        first = len(pair.graph.outputs) + pair.saved
        self.snapshots = slice(first, first + len(pair.snapshots))
        self._told = slice(self.snapshots.stop, self.snapshots.stop + len(pair.routes.told))
        at = {i: (n, k) for n, node in enumerate(pair.nodes) for k, i in enumerate(node.given)}
        self._twins = [(i, *at[twin]) for i, twin in pair.twins.items()]
        self._alone = [(i, 0, i) for i in range(len(pair.graph.outputs))] == self._twins
        self.taken = False

    @classmethod
    def of(cls, pair: Pair) -> Direct | None:
        """That of a pair, or None."""
        if pair.constant or pair.before or pair.ended.places:
            return None
        plain = all(_is_plain(node) for node in pair.nodes)
        return cls(pair) if plain and pair.written.isdisjoint(pair.wrt) else None

    def run(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The outputs of the graph, joined with autograd; None where this is not the way."""
        pair = self.pair
        state = states_of(pair.gpus, pair.generators) if pair.random else None
        outs = pair.program.quick(inputs)
        if outs is None:
            return None
        if pair.program.gives_views:
            outs = unbased(outs, len(pair.graph.outputs), inputs)
        told = tuple(outs[self._told])
        if told and not all(node.goes_everywhere(told) for node in self.nodes):
            return pair.joined([outs, state, []], inputs)
        self.taken = True
        if self._alone:
            return list(_direct(self.nodes[0], outs, (outs[self.snapshots], state, told), *inputs))
        outputs = list(outs)
        given = [_direct(node, outs, (outs[self.snapshots], state, told), *inputs) for node in self.nodes]  # fmt: skip
        for i, n, k in self._twins:
            outputs[i] = given[n][k]
        return pair.finished(outputs, inputs)


def _is_plain(node: ShareNode) -> bool:
    """Whether a node takes, gives and keeps what the short way is for."""
    given = [node.pair.pullback.forward.outputs[i] for i in node.given]
    tensors = node.only_tensors and all(isinstance(v.type, TensorType) for v in given)
    return tensors and not (node.groups or node.sized)


class Node:
    """What the calls of a pair have in common for one of its nodes, ``long`` on the longer way."""

    def __init__(self, pair: Pair, long: ShareNode):
        self.pair, self.long, sources = pair, long, long.sources
        outputs = pair.pullback.forward.outputs
        kept = [pair.graph.inputs[i] if i >= 0 else outputs[~i] for i in sources]
        self.places = [k for k, v in enumerate(kept) if isinstance(v.type, TensorType)]
        self.sources = [sources[k] for k in self.places]
        self.others = [(k, s) for k, s in enumerate(sources) if k not in set(self.places)]
        self.doubtful = [sources[k] for k in long.doubtful.places]
        # Inputs that torch frees with what is saved. What is doubtful it may refuse to give, so none of these.
        freed = long.saves and not self.doubtful
        self._saved = {s: k for k, s in enumerate(self.sources) if s >= 0 and freed}
        self._steps: dict[Any, Step] = {}
        self._whole: dict[tuple[bool, ...], bool] = {}

    def goes_everywhere(self, told: tuple[bool, ...]) -> bool:
        """Whether each of its outputs has a history in a run, and each input is in one."""
        if told not in self._whole:
            routes, positions = self.pair.routes, self.long.positions
            reached = routes.history_of(positions, told)
            self._whole[told] = reached.issuperset(self.pair.wrt) and not routes.without(positions, told)  # fmt: skip
        return self._whole[told]

    def kept(
        self,
        inputs: Sequence[torch.Tensor],
        outs: Sequence[Any],
        given: Sequence[torch.Tensor],
        run: tuple[Any, Any, tuple[bool, ...]],
    ) -> Kept:
        """What is kept of a run beside what torch saves."""
        numbers: list[Any] = []
        if self.others:
            numbers = [None] * len(self.long.sources)
            for k, s in self.others:
                numbers[k] = inputs[s] if s >= 0 else outs[~s]
        likes = [(x.shape, x.dtype, x.device) for x in given] if len(given) > 1 else []
        doubts = [(inputs[s] if s >= 0 else outs[~s])._version for s in self.doubtful]
        held = [None if i in self._saved else x for i, x in enumerate(inputs)]
        stored = None if self.long.saves else self.stored(inputs, outs)
        return Kept(self, held, stored, *run, [x._version for x in inputs], numbers, likes, doubts)

    def stored(self, inputs: Sequence[torch.Tensor], outs: Sequence[Any]) -> tuple[torch.Tensor, ...]:  # fmt: skip
        """The tensors that it keeps."""
        return tuple([inputs[s] if s >= 0 else outs[~s] for s in self.sources])

    def _inputs(self, kept: Kept, saved: Sequence[torch.Tensor]) -> list[Any]:
        """All inputs of a run."""
        return [saved[self._saved[i]] if i in self._saved else x for i, x in enumerate(kept.held)]

    def gradients(self, ctx: Any, kept: Kept, cotangents: Sequence[torch.Tensor]) -> list[Any] | None:  # fmt: skip
        """What ``backward`` gives; None where native code does not take these."""
        key = ctx.needs_input_grad, kept.told
        step = self._steps.get(key) or self._step(*key)
        try:
            saved = ctx.saved_tensors if kept.stored is None else kept.stored
        except RuntimeError as error:
            if not (kept.doubts and modified(error)):
                raise
            return None  # the longer way knows if that matters
        stored = saved
        if self.others:
            stored = list(kept.numbers)
            for k, x in zip(self.places, saved):
                stored[k] = x
        found = step.program.quick([*stored, *map(dense, cotangents)])
        if found is None:
            ctx.unpacked = saved if kept.stored is None else None
            return None
        made: list[Any] = [None] * len(key[0])
        for i, k in step.places:
            made[i] = found[k]
        for i in step.flat:
            made[i] = torch.zeros_like(self._inputs(kept, saved)[i - _LEADING])
        return made

    def _step(self, needs: tuple[bool, ...], told: tuple[bool, ...]) -> Step:
        long, routes, wanted = self.long, self.pair.routes, needs[_LEADING:]
        there = (True,) * len(long.given)
        open_to = routes.open_to(long.positions, there, told)
        asked = [i for i in long.present if wanted[i]]
        program = self.pair.backward((long.number, there), tuple(wanted[i] for i in long.present))
        places = [(i + _LEADING, k) for k, i in enumerate(asked) if i in open_to]
        flat = sorted(i + _LEADING for i in open_to.difference(long.present) if wanted[i])
        self._steps[needs, told] = Step(program, places, flat)
        return self._steps[needs, told]

    def call(self, ctx: Any, kept: Kept) -> Call:
        """The same for the longer way."""
        long, count = self.long, len(self.long.sources)
        if self._saved and ctx.unpacked is None:
            ctx.unpacked = ctx.saved_tensors
        saved = ctx.unpacked or ()
        inputs, versions = self._inputs(kept, saved), list(kept.versions)
        for i in self._saved:  # torch has looked at these
            versions[i] = inputs[i]._version
        specs = None if long.flat else ([None] * len(long.given), [None] * count)
        numbers = kept.numbers or [None] * count
        return Call(
            long, inputs, None, versions, kept.state, list(kept.snapshots), kept.told, self.places,
            numbers, kept.stored, kept.likes, specs, set(), kept.doubts, [], None,
        )  # fmt: skip


class _Direct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, node: Node, outs: Sequence[Any], run: tuple[Any, Any, tuple[bool, ...]], *inputs: torch.Tensor) -> Any:  # fmt: skip
        if node.long.saves:
            ctx.save_for_backward(*node.stored(inputs, outs))
        ctx.set_materialize_grads(False)
        ctx.unpacked = None
        given = tuple([outs[i] for i in node.long.given])
        ctx.call = node.kept(inputs, outs, given, run)
        return given

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        kept = ctx.call
        if type(kept) is Kept:
            there = all(g is not None for g in grads)
            if there and not torch.is_grad_enabled():
                found = kept.node.gradients(ctx, kept, grads)
                if found is not None:
                    return tuple(found)
            ctx.call = kept.node.call(ctx, kept)
        try:
            return gradients(ctx, grads)
        finally:
            ctx.unpacked = (
                None  # what torch frees now is not kept here, whether it was looked at or not
            )


_LEADING = 3  # arguments of the node before the inputs of the graph
_direct = plain_apply(_Direct)
