"""The node of torch's autograd that stands for a share of a call: what it keeps, and how its gradient runs.

Most shares take, give and keep tensors and numbers only. Those with lists are flattened on the way through torch, which knows tensors
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..gradients import transforms
from ..graph.ir import Value
from ..graph.types import ScalarType, TensorType
from ..symbols.plain_apply import plain_apply
from ..writes.saving import words
from ..writes.stale import MODIFIED
from .generator_states import restored, states_of
from .looked import Doubtful, everything, modified
from .nesting import flattened, nested, spread
from .routes import is_there
from .spare import Spare
from .unbased import unbased

if TYPE_CHECKING:
    from .pairs import Pair


class ShareNode:
    """A share of a pair's outputs, ``given``, as a function of the inputs.

    ``present``: the inputs that its backward graph gives gradients of. ``sources``: what it keeps, an input ``i`` as ``i`` and an output of
    the forward graph as ``~i``. ``groups``: see ``spare``, where there are several. ``flat``: all of this is tensors and numbers. ``sized``: of which tensors that it keeps nobody looks at the content.
    """

    def __init__(self, pair: Pair, number: int):
        pullback, share = pair.pullback, pair.shares[number]
        self.pair, self.number, self.saves = pair, number, share.saves
        self.given = [pullback.given[i] for i in share.given]
        self.positions, self.present = share.given, [pullback.present[k] for k in share.present]
        count = len(pair.graph.outputs)
        sources = [*pullback.kept, *(~i for i in range(count, count + pair.saved))]
        graph, leaves = pullback.forward, _leaves(pair)
        self.sources = [
            leaves.get(graph.outputs[~s], s) if s < 0 else s for s in map(sources.__getitem__, share.stored)
        ]  # fmt: skip
        values = [graph.outputs[i] for i in self.given]
        values += [graph.inputs[i] if i >= 0 else graph.outputs[~i] for i in self.sources]
        self.flat = _are_flat(values)
        self.flat_inputs = _are_flat(pair.graph.inputs)
        stored, looked = values[len(self.given) :], everything(share.backward)
        tensors = [i for i, v in enumerate(stored) if isinstance(v.type, TensorType)]
        self.sized = [i for i in tensors if share.backward.inputs[i] not in looked]
        self.tensors = [i for i in tensors if i not in self.sized]
        self.only_tensors = all(isinstance(v.type, TensorType) for v in pair.graph.inputs)
        self.groups = share.groups if -1 in share.groups or len(set(share.groups)) > 1 else ()
        self.doubtful = Doubtful(share.backward, self.tensors if self.flat and self.saves else (), pair.build)  # fmt: skip

    def applied(self, box: list[Any], inputs: Sequence[Any]) -> Sequence[Any]:
        """The outputs of the share, joined with autograd.

        ``box``: all that the forward program gave, which the first share runs, and the generators' states and tensors that are written before.
        """
        shape: list[Any] | None = None
        if self.pair.routes.told and self.flat_inputs:
            inputs = self._reached(box, inputs)
        if not self.flat_inputs:  # cotangents of lists, where a gradient is differentiated again
            inputs, shape = flattened(inputs)
        plain = self.only_tensors and not transforms.may_wrap(inputs)
        returned = (_applied if plain else _Apply.apply)(self, box, shape, *inputs)
        if returned is None:
            return ()
        return returned if self.flat else nested(returned, box.pop())

    def _reached(self, box: list[Any], inputs: Sequence[Any]) -> list[Any]:
        """The inputs, those to which no gradient comes in this run without their history: a hook on one of them is not called."""
        if not box:
            with torch.no_grad():
                _run(self.pair, box, inputs)
        reached = self.pair.routes.history_of(self.positions, _told(self.pair, box[0]))
        away = set(self.pair.wrt) - reached
        return [x.detach() if i in away else x for i, x in enumerate(inputs)]


def _leaves(pair: Pair) -> dict[Value, int]:
    """What is saved of the leaves that a call returns: they are saved themselves, so that a write to one is seen."""
    graph, found = pair.pullback.forward, {}
    own = {v: i for i, v in enumerate(graph.inputs) if i >= pair.made}
    for given in graph.outputs if own else ():
        if given.node is None or given.node.op != "aten.detach.default":
            continue
        [value] = given.node.args
        if value.node is not None and value.node.op == "tg.written" and value.node.args[0] in own:
            found[value] = own[value.node.args[0]]
    return found


def _are_flat(values: Sequence[Value]) -> bool:
    return all(isinstance(v.type, (TensorType, ScalarType)) for v in values)


@dataclass(frozen=True)
class _Sized:
    """A tensor that is kept for its size: no write to it matters."""

    tensor: torch.Tensor


def _content(x: Any) -> Any:
    return x.tensor if isinstance(x, _Sized) else x


class Call(NamedTuple):
    """What a node knows of its call.

    ``shape``: that of the inputs, where there are lists among them. ``numbers``: what is kept and no tensor, ``places``: where the
    tensors are among it. ``early``: gradients that ran op by op; the same again are the same to the last bit. ``doubts``: the versions of
    what is doubtful (``looked``); ``snapshots``: see ``pairs``; ``let``: True where torch gives it whatever its version is.
    """

    node: ShareNode
    inputs: Sequence[Any]
    shape: list[Any] | None
    versions: list[int]
    state: Any
    snapshots: list[Any]
    told: tuple[bool, ...]
    places: list[int]
    numbers: list[Any]
    kept: tuple[torch.Tensor, ...] | None
    likes: list[tuple[Any, ...]]
    specs: tuple[Any, Any] | None
    early: set[Any]
    doubts: list[int]
    let: list[bool]
    spare: Spare | None


def _told(pair: Pair, outs: Sequence[Any]) -> tuple[bool, ...]:
    """What the forward program told of the ways, of all that it gave."""
    first = len(pair.graph.outputs) + pair.saved + len(pair.snapshots)
    return tuple(outs[first : first + len(pair.routes.told)])


def _run(pair: Pair, box: list[Any], inputs: Sequence[Any]) -> None:
    state = states_of(pair.gpus, pair.generators) if pair.random else None
    with torch.no_grad():
        before = [inputs[i].detach().clone() for i in pair.before]
        outs = unbased(pair.program.run(*inputs), len(pair.graph.outputs), inputs)
    box += [outs, state, before]


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, node: ShareNode, box: list[Any], shape: list[Any] | None, *leaves: Any) -> Any:  # fmt: skip
        pair, inputs = node.pair, leaves if shape is None else nested(leaves, shape)
        if not box:
            _run(pair, box, inputs)
        (outs, state, before), specs = box, None
        given: list[Any] = [outs[i] for i in node.given]
        stored = [inputs[i] if i >= 0 else outs[~i] for i in node.sources]
        for i in node.sized:
            stored[i] = _Sized(stored[i].detach())
        flat, places = given, node.tensors
        if not node.flat:
            (flat, given_spec), (stored, stored_spec) = flattened(given), flattened(stored)
            specs = given_spec, stored_spec
            box.append(given_spec)
            places = [i for i, x in enumerate(stored) if isinstance(x, torch.Tensor)]
        doubtful, doubts = node.doubtful, list[int]()
        if doubtful.places:
            stored = doubtful.storable(stored, flat)
            doubts = doubtful.versions(stored)
        tensors, numbers = _parted(stored, places)
        if node.saves:
            ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        first = len(pair.graph.outputs) + pair.saved
        told = _told(pair, outs)
        ctx.call = Call(
            node,
            inputs,
            shape,
            _versions(node, inputs),
            state,
            [*outs[first : first + len(pair.snapshots)], *before],
            told,
            places,
            numbers,
            None if node.saves else tuple(tensors),
            [(x.shape, x.dtype, x.device) for x in flat] if len(flat) > 1 else [],
            specs,
            set(),
            doubts,
            [],
            Spare(node.groups, tensors) if node.groups and node.saves else None,
        )
        if told:
            without = [given[i] for i in pair.routes.without(node.positions, told)]
            if without:
                ctx.mark_non_differentiable(*flattened(without)[0])
        return tuple(flat)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return gradients(ctx, grads)


_applied = plain_apply(_Apply)


def gradients(ctx: Any, grads: Sequence[Any]) -> Any:
    """What ``backward`` of a node gives whose ``ctx.call`` is a ``Call``."""
    call: Call = ctx.call
    node, specs = call.node, call.specs
    nothing: list[Any] = [None] * len(call.inputs)
    if not any(g is not None for g in grads):
        return None, None, None, *spread(nothing, call.shape)
    there = [is_there(g) for g in (grads if specs is None else nested(grads, specs[0]))]  # fmt: skip
    open_to = node.pair.routes.open_to(node.positions, there, call.told)
    cotangents: list[Any] = [_zeros(*call.likes[i]) if g is None else g for i, g in enumerate(grads)]  # fmt: skip
    if specs is not None:
        cotangents = nested(cotangents, specs[0])
    if torch.is_grad_enabled():
        present, found = _again(ctx, call, tuple(there), cotangents)
    else:
        present, found = _gradients(ctx, call, tuple(there), cotangents)
    for i, g in zip(present, found):
        if i in open_to:
            nothing[i] = g
    # nothing follows from these cotangents, as from that of a sign
    for i in open_to.difference(present):
        x = call.inputs[i]
        if isinstance(x, torch.Tensor) and x.requires_grad:
            nothing[i] = torch.zeros_like(x)
    return None, None, None, *spread(nothing, call.shape)


def _versions(node: ShareNode, inputs: Sequence[Any]) -> list[int]:
    try:
        if node.only_tensors:
            return [x._version for x in inputs]
    except RuntimeError:  # a tensor of inference mode has none
        pass
    return [_version(x) for x in inputs]


def _version(x: Any) -> int:
    return x._version if isinstance(x, torch.Tensor) and not x.is_inference() else 0


def _parted(stored: list[Any], places: Sequence[int]) -> tuple[list[torch.Tensor], list[Any]]:
    """What is stored as tensors, and the rest with None in their places."""
    tensors = [stored[i] for i in places]
    if len(places) == len(stored):
        return tensors, [None] * len(stored)
    for i in places:
        stored[i] = None
    return tensors, stored


def _needs(ctx: Any, call: Call) -> Sequence[bool]:
    """Which inputs a gradient is computed of."""
    needs = ctx.needs_input_grad[3:]
    if call.shape is not None:
        return [any(flattened([need])[0]) for need in nested(needs, call.shape)]
    if not call.told:
        return needs
    # those that this run does not reach too: one program is for all runs
    away = {i for i in call.node.pair.wrt if not call.inputs[i].requires_grad}
    return [need or i in away for i, need in enumerate(needs)]


def _gradients(
    ctx: Any, call: Call, there: tuple[bool, ...], cotangents: list[Any]
) -> tuple[list[int], list[Any]]:
    """The inputs that get gradients, and these: None for those that nobody needs."""
    node, needs = call.node, _needs(ctx, call)
    stored = _stored(ctx, call, there, cotangents)
    taking, present = (node.number, there), node.present
    if not all(there):
        share = node.pair.narrowed(taking)
        present = [present[k] for k in share.present]
        stored = [stored[i] for i in share.stored]
        cotangents = [cotangents[i] for i in share.given]
    wanted = tuple(needs[i] for i in present)
    program = node.pair.backward(taking, wanted)
    given = [*stored, *map(dense, cotangents)]
    quick = None if call.early else program.quick(given)
    if quick is not None:
        return present, list(quick) if all(wanted) else _where(wanted, quick)
    given = list(map(dense, given))
    if any(map(transforms.is_mapped, cotangents)):
        results = program.run_mapped(*given)
    elif (taking, wanted) in call.early:
        results = program.run_early(*given)
    else:
        results = program.run(*given)
        if program.early:
            call.early.add((taking, wanted))
    return present, _where(wanted, results)


def _stored(ctx: Any, call: Call, there: Sequence[bool], cotangents: Sequence[Any]) -> list[Any]:
    """What a backward graph takes beside the cotangents."""
    stored = call.numbers
    if call.places:
        stored = list(stored)
        for i, x in zip(call.places, _saved(ctx, there, cotangents)):
            stored[i] = x
    else:
        _saved(ctx, there)
    if call.specs is not None:
        stored = nested(stored, call.specs[1])
    return list(map(_content, stored)) if call.node.sized else stored


def _where(wanted: Sequence[bool], results: Iterable[Any]) -> list[Any]:
    """The results in the places that are wanted."""
    each = iter(results)
    return [next(each) if w else None for w in wanted]


def _again(
    ctx: Any, call: Call, there: tuple[bool, ...], cotangents: list[Any]
) -> tuple[list[int], list[Any]]:
    """The gradients as a differentiable function of the inputs and the cotangents, and the inputs that they belong to."""
    stored = _stored(ctx, call, there, cotangents)
    pair, taking = call.node.pair, (call.node.number, there)
    for i, (x, version) in enumerate(zip(call.inputs, call.versions)):
        if isinstance(x, torch.Tensor) and _version(x) != version and i not in pair.written:
            raise RuntimeError(
                f"one of the variables needed for gradient computation has been {MODIFIED}: "
                f"input {i} of {pair.graph.name}, {tuple(x.shape)}, is at version {x._version}; expected version {version}"
            )
    pair.refuse_written(taking, stored, cotangents)
    joint, present = pair.joint(taking)
    cotangents = [g for g, t in zip(cotangents, there, strict=True) if t]
    with restored(call.state):
        return present, joint.run([*call.inputs, *call.snapshots, *cotangents])


def _saved(ctx: Any, there: Sequence[bool], cotangents: Sequence[Any] = ()) -> Sequence[torch.Tensor]:  # fmt: skip
    """What a node has saved, or torch's own error: it is freed, or was written since. ``kept``: what no gradient frees."""
    call: Call = ctx.call
    if call.kept is not None:
        return call.kept
    unpacked, ctx.unpacked = getattr(ctx, "unpacked", None), None
    if unpacked is not None:  # a checkpoint gives it once
        return unpacked
    by_torch = partial(_by_torch, ctx, cotangents)
    return by_torch() if call.spare is None else call.spare.saved(by_torch, there)


def _by_torch(ctx: Any, cotangents: Sequence[Any]) -> Sequence[torch.Tensor]:
    call: Call = ctx.call
    if not call.let:
        try:
            return ctx.saved_tensors
        except RuntimeError as error:
            if not call.doubts or not cotangents or not modified(error):
                raise
            return _without_doubts(ctx, cotangents, error)
    return _without_doubts(ctx, cotangents, None)


def _without_doubts(ctx: Any, cotangents: Sequence[Any], error: RuntimeError | None) -> Sequence[torch.Tensor]:  # fmt: skip
    """What a node has saved, where nothing of it that this run looks at was written since."""
    call: Call = ctx.call
    doubtful = call.node.doubtful
    if not call.let:
        doubtful.let(ctx)
        call.let.append(True)
    saved, stored = ctx.saved_tensors, list(call.numbers)
    for i, x in zip(call.places, saved):
        stored[i] = x
    looked = doubtful.looked_at([dense(_content(x)) for x in (*stored, *cotangents)])
    for k, version, used in zip(doubtful.places, call.doubts, looked):
        if used and stored[k]._version != version:
            raise error or RuntimeError(words(stored[k], version))
    return saved


def _zeros(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.zeros((), dtype=dtype, device=device).expand(shape)


def dense(x: Any) -> Any:
    """A tensor in the layout that native code takes; the gradient of a sum, for one, comes as one number expanded, that of ``sign`` without memory."""
    if not isinstance(x, torch.Tensor) or x.layout is not torch.strided:
        return x
    return x.clone() if x._is_zerotensor() else x.contiguous()
