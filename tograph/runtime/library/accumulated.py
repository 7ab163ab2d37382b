"""What gradients that are taken inside leave in the ``.grad`` of leaves: each is added to what is there, as torch's engine does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...errors import GradientError
from ..gradients import grad_fields, optional_grads, outer_gradients
from ..gradients.grad_fields import put, slot
from ..graph.ir import Value
from ..symbols.funcgraph import Ref, current_graph, user_location
from ..symbols.symbolic import SymTensor, as_symbolic, value_of
from ..values import flattening
from ..values.structure import is_union
from . import custom, outer_histories
from .laid_out import laid_out


def spread(x: torch.Tensor, g: Any, create: bool, way: Any, others: Sequence[Any]) -> None:
    """Add a gradient to the field of the leaf that a tensor is in a run; ``others`` have theirs, with that of this name."""
    known = Ref(way, current_graph()) if isinstance(way, Value) else None

    def add(leaf: Any) -> None:
        if leaf is x or not any(leaf is y for y in others):
            accumulate(leaf, g, create, way if known is None else current_graph().resolve(known))

    grad_fields.by_leaf(x, add, add)


def _note_made(leaf: torch.Tensor) -> None:
    """A leaf that a region made, or may have made, gets a gradient."""
    root = current_graph().root
    if root.graded_at is None and isinstance(leaf, SymTensor) and not leaf.given_:
        first = leaf.storage_.first
        node = None if first is None else first.value.node
        inside = leaf.storage_.home is not None and leaf.storage_.home.outer is not None
        if inside or (node is not None and node.regions):
            root.graded_at = (user_location(),)


def accumulate(leaf: torch.Tensor, g: Any, create: bool, way: Any) -> None:
    _note_made(leaf)
    old = grad_fields.own(leaf)
    if is_union(old):
        total = optional_grads.added(old, g, way, create, outer_gradients.EITHER)
        put(leaf, total)
        tensors = [o for o in old.options_ if o is not None]
        slot(leaf).summed += [as_symbolic(o).storage_ for o in tensors if not create]
    elif old is None:
        g = laid_out(g, leaf)
        put(leaf, optional_grads.optional(g if create else own(g), way))
    elif create:
        put(leaf, old + g)
    else:
        with torch.no_grad():
            old.add_(g)
        slot(leaf).location().set(old)
        slot(leaf).summed.append(as_symbolic(old).storage_)


def own(g: torch.Tensor) -> torch.Tensor:
    """A gradient as a tensor of its own: what is written to it in place is seen nowhere else."""
    graph = current_graph()
    return flattening.symbolic(value_of(g, graph), graph, connected=False)


def run_hooks(leaf: torch.Tensor, way: Any) -> None:
    """Call the hooks of a leaf that are to be called behind the sum."""
    for hook in outer_histories.later_hooks(leaf):
        if way is not True:
            raise GradientError(
                "whether a tensor with a post-accumulate-grad hook has a gradient depends on a staged condition",
                user_location(),
            )
        if custom.CONVERT(hook)(leaf) is not None:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")
