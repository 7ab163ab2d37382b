"""What guards ask of tensors and arrays: where they lie in memory, what they hold, their hooks and histories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..symbols.symbolic import memory


def lying(tensors: Any) -> dict[int, Any]:
    """The tensor in each memory; None where several lie in one."""
    found: dict[int, Any] = {}
    for x in tensors:
        if isinstance(x, torch.Tensor) and (at := memory(x)) and found.setdefault(at, x) is not x:
            found[at] = None
    return found


def apart(x: torch.Tensor, alone: dict[int, Any]) -> bool:
    """Whether no other tensor lies in the memory of ``x``, by what ``lying`` tells."""
    return alone.get(memory(x), x) is x


def clear(tensors: Any, captured: Sequence[tuple[Callable[[], Any], Sequence[int]]]) -> bool:
    """Whether no tensor of the arguments overlaps a captured one: ``captured`` are those with the positions where one of both is written."""
    spans = [span(x) if isinstance(x, torch.Tensor) else (0, 0) for x in tensors]
    for found, places in captured:
        x = found()
        if x is None:
            continue
        start, end = span(x)
        if any(spans[i][0] < end and start < spans[i][1] for i in places):
            return False
    return True


def span(x: torch.Tensor) -> tuple[int, int]:
    """Where the elements of a tensor begin in memory and end; of one without memory or elements nothing."""
    count = x.numel()
    if not count or x.layout is not torch.strided or not memory(x):
        return 0, 0
    start = x.data_ptr()
    if not x.is_contiguous():
        count = 1 + sum((n - 1) * step for n, step in zip(x.shape, x.stride()))
    return start, start + count * x.element_size()


def hooks_of(x: torch.Tensor) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The functions that the gradient of ``x`` goes through, and those that run when it was added to ``x.grad``."""
    own, later = x._backward_hooks or {}, x._post_accumulate_grad_hooks or {}
    return tuple(own.values()), tuple(later.values())


def unconnected(x: torch.Tensor, tensors: Any, targets: tuple[Any, ...]) -> bool:
    """Whether the history of ``x`` leads to no other one of some tensors: positions in ``tensors``, and what gives others."""
    others = [tensors[t] if isinstance(t, int) else t() for t in targets]
    others = [y for y in others if isinstance(y, torch.Tensor) and y is not x]
    computed = {y.grad_fn for y in others if y.grad_fn is not None}
    todo, seen = [x.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        if node in computed or any(getattr(node, "variable", None) is y for y in others):
            return False
        seen.add(node)
        todo += [n for n, _ in node.next_functions]
    return True


def same_array(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def same_content(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors hold the same bits: NaN too, and zeros of one sign."""
    if (a.shape, a.dtype, a.device) != (b.shape, b.dtype, b.device):
        return False
    plain = [x.detach().resolve_conj().resolve_neg().reshape(-1) for x in (a, b)]
    return torch.equal(*(x.contiguous().view(torch.uint8) for x in plain))
