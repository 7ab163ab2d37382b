"""Tensors that the function makes and that have a history outside, as they leave a trace: leaves, and what was computed of leaves that do not leave.

What is computed of arguments and captured tensors has its history by the gradient of the call (``execution.gradient_calls``), and so has what is computed of leaves that leave,
as far as ``autodiff.returned`` follows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import autodiff
from ..control_flow.picking import Picked
from ..gradients import grad_fields, transforms
from ..graph.ir import Value
from ..graph.types import BOOL, INT, ListType, TensorType
from ..symbols import duals, wholes
from ..symbols.funcgraph import FuncGraph, Ref
from ..symbols.scalars import scalar
from ..symbols.symbolic import SymTensor, value_of
from ..values.deques import bounded
from ..values.growing import StagedList
from ..values.listed import parts
from ..values.staged_tuples import StagedTuple
from ..values.structure import Handle, Spec, TaggedUnion, Tree, leaf_types
from ..writes import freed


class MadeLeaf:
    """A tensor made in the function that requires a gradient and has no history: outside it is such a leaf again, with its gradient.

    ``made``: whether it is one in a run.
    """

    def __init__(self, x: torch.Tensor, grad: Any, made: Any = True):
        self.x, self.grad, self.made = x, grad, made

    def __tograph_flatten__(self):
        return isinstance(self.x, torch.nn.Parameter), [self.x, self.grad, self.made]

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        x, grad, made = parts
        if not isinstance(x, torch.Tensor):
            return x
        if not made:  # it may be one that the code has frozen
            return x if x.requires_grad else _with_field(x, grad)
        if not x.requires_grad or not x.is_leaf:  # else the call made it, see ``autodiff.returned``
            x = torch.nn.Parameter(x.detach()) if aux else x.detach().requires_grad_()
        return _with_field(x, grad)


def _with_field(x: Any, grad: Any) -> Any:
    if isinstance(x, torch.Tensor) and isinstance(grad, torch.Tensor):
        x.grad = grad
    return x


class Frozen:
    """A tensor that, in some run, is one which the code made, does not require a gradient, and has one in its ``.grad``: a leaf behind ``requires_grad_(False)``."""

    def __init__(self, x: Any, grad: Any):
        self.x, self.grad = x, grad

    def __tograph_flatten__(self):
        return None, [self.x, self.grad]

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        return _with_field(*parts)


class Computed:
    """A result that was computed of leaves which the function made and which do not leave: it requires a gradient, and nothing is behind it.

    ``made``: whether it was in a run. ``over``: the function has taken a gradient of it, and freed what that needs. ``anyway``: also where gradients are off
    around the call, since the code turned them on.
    """

    def __init__(self, x: Any, made: Any, over: bool, anyway: bool):
        self.x, self.made, self.told = x, made, (over, anyway)

    def __tograph_flatten__(self):
        return self.told, [self.x, self.made]

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        x, made = parts
        over, anyway = aux
        if made is False or not isinstance(x, torch.Tensor) or x.requires_grad:
            return x
        if transforms.active() or duals.level_open():
            return x
        if torch.is_grad_enabled():
            return _computed(x, over)
        with torch.set_grad_enabled(anyway):
            return _computed(x, over) if anyway else x


def _computed(x: torch.Tensor, over: bool) -> torch.Tensor:
    """``x`` with the history of a leaf that nobody has, and by torch no view of that, so that it can be written."""
    leaf = x.detach().requires_grad_()
    return _Over.apply(leaf) if over else _UNSAFE_VIEW(leaf, leaf.shape)


class _Over(torch.autograd.Function):
    """A tensor of which the function has taken the gradient: it has no other."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor) -> torch.Tensor:
        return leaf.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(freed.MESSAGE)


_UNSAFE_VIEW = torch.ops.aten._unsafe_view.default


class WithLeaves:
    """A list of the graph, some of whose tensors are leaves that the code made.

    ``codes``: by the column that holds such tensors what its items are (``autodiff.item_codes``), a list of the graph too; ``leaves``: what these name, each in its form.
    """

    def __init__(self, items: StagedList, codes: dict[int, Handle], leaves: Sequence[Any]):
        self.items, self.codes, self.leaves = items, codes, list(leaves)

    def __tograph_flatten__(self):
        kind, columns = self.items.__tograph_flatten__()
        cls = type(self.items)
        aux = (cls.__name__, getattr(cls, "maxlen", None)), kind, tuple(self.codes), len(columns)
        return aux, [*columns, *self.codes.values(), *self.leaves]

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        (name, maxlen), kind, places, count = aux
        columns, codes = list(parts[:count]), parts[count : count + len(places)]
        leaves = parts[count + len(places) :]
        for k, found in zip(places, codes):
            if not isinstance(found, Handle):  # else the structure alone is asked for
                columns[k] = [_item(x, code, leaves) for x, code in zip(columns[k], found)]
        cls = _LISTS.get(name) or bounded(maxlen)
        return cls.__tograph_unflatten__(kind, columns)


_LISTS = {c.__name__: c for c in (StagedList, StagedTuple)}


def _item(x: Any, code: int, leaves: Sequence[Any]) -> Any:
    if code > 0:
        return leaves[code - 1]
    return (
        x.detach().requires_grad_() if code == autodiff.NEW and isinstance(x, torch.Tensor) else x
    )


_TOLD = MadeLeaf, Computed  # whose last part tells what a run makes of the first
FORMS = *_TOLD, Frozen


def flags(spec: Spec) -> list[bool]:
    """For each value of a spec whether it only tells how a tensor leaves: the last part of a form."""
    if not isinstance(spec, Tree):
        return [False] * len(leaf_types(spec))
    found = [flags(part) for part in spec.parts]
    if spec.cls in _TOLD:
        found[-1] = [True] * len(found[-1])
    if spec.cls is WithLeaves:
        places, count = spec.aux[2:]
        for k in range(count, count + len(places)):
            found[k] = [True] * len(found[k])
    return [told for part in found for told in part]


def list_form(
    x: StagedList, root: FuncGraph, own: autodiff.OwnLeaves, leave: Callable[[Any], Any]
) -> Any:
    """The form of a list of the graph. ``leave`` gives that of a leaf in it."""
    if x.handle is None or not own.in_lists:
        return x
    codes: dict[int, Handle] = {}
    for k, handle in enumerate(x.columns):
        kind = handle.ref.value.type
        if isinstance(kind, ListType) and isinstance(kind.element, TensorType):
            found = autodiff.item_codes(root.resolve(handle.ref), root, own)
            codes |= {} if found is None else {k: Handle(Ref(found, root))}
    return WithLeaves(x, codes, map(leave, own.tensors)) if codes else x


def is_late(x: torch.Tensor, root: FuncGraph) -> bool:
    """Whether a tensor of the caller's is what a ``.grad`` field held at this call."""
    known = root.root.captured.get(id(x))
    return known is not None and known.late is not None


def form(
    x: SymTensor,
    root: FuncGraph,
    own: autodiff.OwnLeaves,
    chosen: Callable[[SymTensor], SymTensor],
    leave: Callable[[Any], Any],
) -> Any:
    """The form of a tensor of the trace. ``chosen`` gives that of its content; ``leave``: that of anything, such as what its ``.grad`` holds."""
    made = _form(x, root, own, chosen, leave)
    known = None if isinstance(made, MadeLeaf) or x.given_ else root.root.slots.get(id(x))
    if known is None or not known.graded:
        return made
    return Frozen(made, leave(grad_fields.left(x)))


def _form(
    x: SymTensor,
    root: FuncGraph,
    own: autodiff.OwnLeaves,
    chosen: Callable[[SymTensor], SymTensor],
    leave: Callable[[Any], Any],
) -> Any:
    mixed = x.mixed_ and not _may_be_callers(x)
    if mixed or (x.requires_grad and x.is_leaf and not x.given_ and _is_own(x, root)):
        return MadeLeaf(x, leave(grad_fields.left(x)))
    made = chosen(x)
    if not (own.any or (own.written and own.reads_items)) or not (
        x.is_floating_point() or x.is_complex()
    ):
        return made
    value = value_of(x, root)
    code = 0 if x.chain else autodiff.item_code(_begun(x, root), root, own)
    ended = _is_ended(x, root)
    flag = False if x.chain or code != 0 or ended else _made_flag(x, root)
    if isinstance(code, Value):
        made = _one_of(made, leave(grad_fields.left(x)), code, [leave(y) for y in own.tensors], root)  # fmt: skip
    elif code > 0:
        return leave(own.tensors[code - 1])
    elif flag is not False:
        made = MadeLeaf(made, leave(grad_fields.left(x)), _staged(flag, root))
    way = False if ended or flag is True or id(x.storage_) in root.root.assigned else own.lead_to(value)  # fmt: skip
    if way is False:
        return made
    return Computed(made, _staged(way, root), freed.is_over(value, root), root.root.enabled)


def _one_of(made: Any, grad: Any, code: Value, leaves: Sequence[Any], root: FuncGraph) -> Any:
    """What an item of a list is, by its code: no leaf, one of ``leaves``, or another one that the code made."""
    tag = root.emit("py.sub", code, autodiff.FROZEN, type=INT)
    return TaggedUnion(scalar(tag, root), [made, MadeLeaf(made, grad), made, *leaves])


def _made_flag(x: SymTensor, root: FuncGraph) -> bool | Value:
    """Whether a tensor is a leaf that the code made: what one of several tensors is, the index says."""
    storage = x.storage_
    if not isinstance(storage, Picked):
        return autodiff.is_made_leaf(_begun(x, root), root)
    found = [_option_flag(o, root) for o in storage.options]
    if all(flag is found[0] for flag in found):
        return found[0]
    at: Any = storage.which(root)
    if isinstance(at, int):
        return found[at]
    flags = [f if isinstance(f, Value) else root.emit("py.constant", f, type=BOOL) for f in found]
    return root.emit("tg.choose", at, flags, type=BOOL)


def _option_flag(option: SymTensor, root: FuncGraph) -> bool | Value:
    """The same of one that it may be."""
    first, y = option.storage_.first, wholes.whole(option, root.root)
    if y is None:  # a value, of this name alone or of an item of a list
        return autodiff.is_made_leaf(root.resolve(first), root) if first is not None and not option.chain else False  # fmt: skip
    if not isinstance(y, SymTensor) or not y.requires_grad or y.given_:
        return False
    return True if y.is_leaf else False if y.chain else _made_flag(y, root)


def _is_ended(x: SymTensor, root: FuncGraph) -> bool:
    """Whether the code has made a leaf of a tensor, or a staged construct gave one in all runs, and ``requires_grad_(False)`` ended it."""
    return not x.requires_grad and (
        x.became_ is not None or any(x is y for y, _ in root.root.joined)
    )


def _may_be_callers(x: SymTensor) -> bool:
    """Whether iterations may have moved a tensor of the caller's to where a leaf of the code's was."""
    return any(s.external is not None or s.argument is not None for s in parts(x.storage_))


def _begun(x: SymTensor, root: FuncGraph) -> Value:
    """What a tensor was before it was written in place: a write leaves a leaf one, and makes none."""
    first = x.storage_.first
    return value_of(x, root) if first is None else root.resolve(first)


def _staged(flag: bool | Value, root: FuncGraph) -> Any:
    return scalar(flag, root) if isinstance(flag, Value) else flag


_MAKERS = re.compile(r"aten\.(new_\w+|\w+_like)\.")  # what makes a tensor beside another one


def _is_own(x: SymTensor, root: FuncGraph) -> bool:
    """Whether the code made a leaf of ``x``: it asked for one, or ``x`` is what a maker of tensors gave (``requires_grad=True``)."""
    first = x.storage_.first
    node = value_of(x, root).node if first is None else first.value.node
    made = node is not None and not x.chain and not node.regions
    return x.asked_ or (made and (not node.inputs or _MAKERS.match(node.op) is not None))
