"""State of a loop that is, in some iterations, a tensor from before the loop which code also has by a name of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .edges import edge, used
from .iterations import is_state


def led_to_before(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> bool:
    """Whether one of ``inputs`` is state that in the first iteration is a tensor which ``outputs`` were also computed from by another name: ``a * w`` behind ``a = w``.

    In later ones it may be what other state was: then a name from before the loop counts.
    """
    for x in [x for x in inputs if is_state(x.grad_fn)]:
        fn = x.grad_fn
        entry, body = fn.told.entry, fn.earlier.body
        first = isinstance(entry, torch.Tensor) and edge(entry) in _used_first(outputs, fn)
        if first or _is_named(x, outputs):
            if body.settled:
                return True
            body.shares = True  # what leads there may be state, too
    return False


def _is_named(x: torch.Tensor, outputs: Sequence[torch.Tensor]) -> bool:
    """Whether state may be a tensor that ``outputs`` were computed from by a name from before the loop."""
    moved = [y for y in MOVED(x) if y is not x.grad_fn.told.entry]
    if not moved:
        return False
    named = used(outputs, lambda node: is_state(node) and node.earlier is x.grad_fn.earlier)
    return any(edge(y) in named for y in moved)


def MOVED(x: torch.Tensor) -> Sequence[torch.Tensor]:
    """The tensors from before its loop that state may be. Set by ``control_flow``."""
    return ()


def _used_first(outputs: Sequence[torch.Tensor], state: Any) -> set[Any]:
    """The tensors that ``outputs`` were computed from in the first iteration, otherwise than by way of ``state``."""

    def beside(node: Any) -> bool:
        return is_state(node) and node.earlier is state.earlier

    found = used(outputs, beside)
    states = [e[0] for e in found if isinstance(e, tuple) and beside(e[0]) and e[0] is not state]
    entries = [s.told.entry for s in states]
    return found | {edge(e) for e in entries if isinstance(e, torch.Tensor)}
