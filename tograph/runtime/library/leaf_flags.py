"""`x.requires_grad = True` and `x.requires_grad_()` of tensors of the graph: what torch refuses of them, and what only some runs would change.

A tensor behind a staged construct, or the state of a loop, has a history here if it has one on any path. Where it has none in a run, eager PyTorch makes a leaf of it, which the
graph does not: such a run is refused. So is one in which the tensor is one of the caller's by the name that a staged construct or loop gave it: that would require a gradient behind the call.
"""

from __future__ import annotations

from typing import Any

import torch

from ...errors import GradientError, GraphBoolError
from ..control_flow.picking import Picked, flat
from ..gradients import optional_grads
from ..gradients.optional_grads import Way
from ..graph.ir import Node, Value
from ..graph.types import BOOL
from ..guarding import reads
from ..inference.shapes import SYMBOLS
from ..symbols import journal
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.journal import MISSING, Location
from ..symbols.scalars import StagedBool
from ..symbols.symbolic import SymTensor
from ..values import locations
from ..values.structure import TaggedUnion
from ..writes import iterations
from .required import told

_NO_LEAF = "you can only change requires_grad flags of leaf variables."
_FREEZE = " If you want to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."


def need_known(required: Any) -> None:
    """GraphBoolError where only the run knows whether a tensor is to require a gradient."""
    if isinstance(required, (SymTensor, TaggedUnion, *SYMBOLS)):
        raise GraphBoolError(
            "whether a tensor requires a gradient is known while tracing, and this bool only when the graph runs: set it outside of the "
            "function, or write an `if` on it with x.detach() in one branch and x in the other",
            user_location(),
        )


def note_made(x: Any) -> Any:
    """A maker of tensors gave ``x``: with ``requires_grad=True`` that is a leaf of the code's, as by ``x.requires_grad_()``."""
    if type(x) is SymTensor and x.requires_grad and x.is_leaf and not (x.given_ or x.asked_):
        x.asked_ = True
        x.begin_leaf()
    return x


def set_flag(x: SymTensor, wanted: bool, assigned: bool) -> None:
    """``x.requires_grad = wanted``, or ``x.requires_grad_(wanted)`` where it is not ``assigned``: that is no error of what is no leaf and is to require a gradient."""
    reads.leaf(x)
    if not x.given_ and _may_be_computed(x):
        reads.history()
        current_graph().note_gradient()  # state of a loop may have a history from earlier iterations
    leaf, requires = _way(x, "is_leaf"), _way(x, "requires_grad")
    if assigned or not wanted:
        _need_leaf(x, leaf, _NO_LEAF + ("" if wanted else _FREEZE))
    if requires is wanted:
        if x.requires_grad is wanted:
            x.requires_grad_(wanted)
    elif isinstance(requires, bool):
        if x.grad_fn is not None:
            raise GradientError(_CHOSEN, user_location())
        if not _set_back(x):
            _refuse_outside(x)
        if x.given_ and journal.active():
            journal.record(Place(x))
        x.requires_grad_(wanted)
    else:
        _refuse_some(x, requires, wanted)


class Place(Location):
    """What a tensor from outside requires. Where the paths of a staged construct leave it different, the runs that leave it as it was are refused: what follows is traced for the others."""

    def __init__(self, x: torch.Tensor):
        known = locations.attribute(x, "requires_grad")
        super().__init__(known.key, known.name, known.get, known._set, x)

    def put_back(self, value: Any) -> None:
        if isinstance(value, StagedBool):
            here, wanted = current_graph(), not self.get()
            flag = value.node.value(here)
            if flag.node is not None:  # else an iteration begins with it
                changed = flag if wanted else here.emit("py.not", flag, type=BOOL)
                optional_grads.check(changed, "tg.GradientError", _ON_A_PATH)
                value = wanted
        super().put_back(value)


def _may_be_computed(x: SymTensor) -> bool:
    """Whether a value is computed of what a graph takes, otherwise than by a detached one."""
    todo, seen = [x.ref.value] if x.ref is not None else [], set()
    while todo:
        value = todo.pop()
        node = value.node
        if node is None or node.regions:
            return True
        if node not in seen and node.op != "aten.detach.default":
            seen.add(node)
            todo += node.inputs
    return x.ref is None


def _way(x: SymTensor, name: str) -> Way:
    """In which runs ``x`` is a leaf, or requires a gradient."""
    known = getattr(x, name)
    found = told(x, name, known)
    if found is MISSING:
        return known
    return found if isinstance(found, bool) else found.node.value(current_graph())


def _need_leaf(x: SymTensor, leaf: Way, said: str) -> None:
    """RuntimeError, here or in the runs in which ``x`` is no leaf."""
    if leaf is False and not iterations.is_state(x.grad_fn):
        raise RuntimeError(said)
    # What the state of a loop is a later trace of its body may know better.
    optional_grads.check(leaf, "RuntimeError", said)


def _refuse_some(x: SymTensor, requires: Value, wanted: bool) -> None:
    """GradientError, in the runs in which ``x`` is to become what it is not; here where that may be so in the first iteration of a loop only."""
    if not all(map(iterations.is_sure_state, iterations.behind([x], past=False))):
        error = GradientError(_SOMETIMES, user_location())
        error.apart = True
        raise error
    same = requires if wanted else current_graph().emit("py.not", requires, type=BOOL)
    optional_grads.check(same, "tg.GradientError", _SOMETIMES)


def _set_back(x: SymTensor) -> bool:
    """Whether the same region has set what ``x`` requires before, so that it is now as it was: then no run is refused."""
    here, refusals = x.__dict__.pop(_REFUSALS, (None, ()))
    if here is not current_graph():
        return False
    for node in refusals:
        here.graph.nodes.remove(node)
    return True


def _refuse_outside(x: SymTensor) -> None:
    """GradientError in the runs in which ``x`` is a tensor of the caller's, by a name that a staged construct gave it."""
    refusals: list[Node] = []
    x.__dict__[_REFUSALS] = current_graph(), refusals
    if not isinstance(x.storage_, Picked) or x.chain:
        return
    index, options = flat(x.storage_.which, x.storage_.options)
    here = current_graph()
    for i, o in enumerate(options):
        if o.chain or (o.storage_.external is None and o.storage_.argument is None):
            continue
        at = index(here)
        other: Way = at != i if isinstance(at, int) else here.emit("py.ne", at, i, type=BOOL)
        node = optional_grads.check(other, "tg.GradientError", _OUTSIDE)
        refusals += [node] if node is not None else []


_REFUSALS = "refusals_"
_SOMETIMES = (
    "whether this tensor requires a gradient depends on a staged branch or loop, and here it requires none: it is not changed to what it is to require. "
    "Make another one (`w = w.detach().requires_grad_()`), on the path that needs it."
)
_CHOSEN = "requires_grad_(False) of a leaf that a staged branch or loop chose, or moved: it would require none by its other names either. Use `w = w.detach()`."
_ON_A_PATH = (
    "a staged branch or loop sets requires_grad of a tensor from outside on another path than the one that this run takes, and what follows was traced for that: set it outside of the branch or "
    "loop, or set it back there."
)
_OUTSIDE = (
    "this tensor is one from outside of the function, by a name that a staged branch or loop gave it: what it requires is not changed. "
    "Make another one (`w = w.detach().requires_grad_()`)."
)
