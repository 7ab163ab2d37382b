"""What tensors were computed from, as torch's autograd has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..symbols.symbolic import SymTensor


def used(outputs: Sequence[torch.Tensor], ends_at: Callable[[Any], bool]) -> set[Any]:
    """The tensors that ``outputs`` were computed from, as of ``edge``: not what is behind nodes that it ``ends_at``."""
    found = {edge(o) for o in outputs if o.requires_grad}
    todo: list[Any] = [o.grad_fn for o in outputs if o.grad_fn is not None]
    done = set(todo)
    while todo:
        node = todo.pop()
        if (leaf := getattr(node, "variable", None)) is not None:
            found.add(edge(leaf))
        if not ends_at(node):
            following = [e for e in node.next_functions if e[0] is not None]
            found.update(following)
            todo += {n for n, _ in following} - done
            done.update(todo)
    return found


def edge(x: torch.Tensor) -> Any:
    """What is the same for objects that are one tensor to autograd."""
    if x.grad_fn is not None:
        return x.grad_fn, x.output_nr
    return id(x.storage_ if isinstance(x, SymTensor) else x)
