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
    return any(_is_named_before(x, outputs) for x in inputs)


def _is_named_before(x: torch.Tensor, outputs: Sequence[torch.Tensor]) -> bool:
    """Whether what a loop carries, or an inner one gives, may be a tensor from before it that ``outputs`` were computed from by its own name."""
    states, leaves = _behind(x)
    around = [s.grad_fn for s in states]
    if not around or not leaves:
        return False
    loops = {s.grad_fn.earlier for s in states}
    named = used(outputs, lambda node: is_state(node) and node.earlier in loops)
    if not any(edge(y) in named for y in leaves):
        return False
    for fn in around:
        if fn.earlier.body.settled:
            return True
        fn.earlier.body.shares = True
    return False


def _behind(x: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The state of loops that a tensor may be, by way of what staged constructs give and loops begin with, and what is from before all of these."""
    found, todo = {}, [x]
    while todo:
        y = todo.pop()
        if id(y) in found:
            continue
        found[id(y)] = y
        if is_state(y.grad_fn):
            entry = y.grad_fn.told.entry
            more = [*MOVED(y), *SHARED(y), *([entry] if isinstance(entry, torch.Tensor) else [])]
            # What ``x`` itself begins with is asked for alone, where it is no state.
            todo += [z for z in more if y is not x or z is not entry or is_state(z.grad_fn)]
        else:
            todo += STANDS_FOR(y)
    states = [y for y in found.values() if is_state(y.grad_fn)]
    return states, [y for y in found.values() if not is_state(y.grad_fn) and y is not x]


def SHARED(x: torch.Tensor) -> Sequence[torch.Tensor]:
    """The other state of its loop whose tensor of an earlier iteration a placeholder may be. Set by ``control_flow``."""
    return ()


def STANDS_FOR(x: torch.Tensor) -> Sequence[torch.Tensor]:
    """The tensors from before a staged construct that what it gives may be. Set by ``autodiff``."""
    return ()


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
