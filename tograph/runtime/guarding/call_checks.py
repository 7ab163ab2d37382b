"""Checks of the tensors of a call: what a trace asks of them besides their kinds, and of what else lies in their memory.

A function traces anew where one of them fails. A concrete function cannot, and says what does not fit; saved ones keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from ...errors import SharedMemoryError, SignatureError
from ..symbols.symbolic import SymTensor
from .guards import (
    APART,
    CAPTURED,
    CLEAR,
    HOOKS,
    IN_ORDER,
    NO_HOOKS,
    OF_TENSORS,
    OFFSET,
    OTHER,
    PARAMETER,
    STRIDES,
    Check,
    Guards,
)
from .size_words import describe_size
from .slots import Slot
from .sources import Source, holder

# What tensors of a call have to be, by the test.
WORDS = {
    **dict(zip(OF_TENSORS, ("requires a gradient", "requires no gradient", "is a leaf that requires a gradient", "is no leaf that requires a gradient"))),
    HOOKS: "has no hooks",
    IN_ORDER: "is contiguous",
    STRIDES: "has the strides that it was traced with",
    OFFSET: "begins where it did in its memory",
    PARAMETER[True]: "is a parameter",
    PARAMETER[False]: "is no parameter",
    CAPTURED: "is the very tensor that the function also uses by another name",
    OTHER: "is not a tensor of the function that it was compared with",
    APART: "shares memory with no other one, since it is written",
    CLEAR: "(and others) shares no memory with tensors that the function uses, since one of both is written",
}  # fmt: skip
_KNOWN = WORDS | {HOOKS: "has the hooks that it had then"}
_ADVICE = "Call the tg.function itself, which traces anew, or get another concrete function."


def check(guards: Guards, names: Sequence[str], slots: Iterable[Any], tensors: Sequence[Any]) -> None:  # fmt: skip
    """SignatureError, or SharedMemoryError, where the tensors of a direct call are not such as the trace is for.

    ``slots``: the captured inputs that are looked up at each call; DeadResourceError where one is of another kind.
    """
    if any(isinstance(x, SymTensor) for x in tensors):
        return  # what is recorded anew is right for all
    asked = guards.of_arguments
    failed = None if asked.hold(tensors) else asked.failed(tensors)
    if failed is not None:
        raise _refused(failed, names)
    looked_up = [slot for slot in slots if isinstance(slot, Slot)]
    for slot in looked_up:
        slot()  # whether it is of its kind
    kept = {slot.neighbours for slot in looked_up}
    if not all(neighbours is None or neighbours.alone(tensors) for neighbours in kept):
        raise _shared("a tensor that the function looks up at each call")


def _refused(failed: Any, names: Sequence[str]) -> SignatureError | SharedMemoryError:
    if not isinstance(failed, Check):
        text = (
            describe_size(failed[0], failed[1], list(names))
            if isinstance(failed, tuple)
            else failed
        )
        return SignatureError(f"the concrete function was traced for {text}, which does not hold for these arguments. {_ADVICE}")  # fmt: skip
    at = failed.source.key
    name = names[at] if at < len(names) else "an argument"
    if failed.test == APART:
        return _shared(f"argument {name!r}")
    if failed.test == CLEAR:
        return _shared("a captured tensor")
    text = _KNOWN.get(failed.test, "is as it was then")
    return SignatureError(f"the concrete function was traced for an argument {name!r} that {text}. {_ADVICE}")  # fmt: skip


def _shared(what: str) -> SharedMemoryError:
    return SharedMemoryError(
        f"{what} shares memory with an argument, and one of both is written: the concrete function was traced for tensors that share none. "
        "Pass a clone, or call the tg.function itself."
    )


# ---- in saved files: (position, test, what it compares with)


def record(found: Iterable[Check], captured: Sequence[Any]) -> list[tuple[int, str, Any]]:
    """What tells the checks ``of_call`` again. ``captured``: the tensors that the graph uses; others matter no more."""
    rows = []
    for c in found:
        extra = c.old if c.test in (STRIDES, OFFSET) else None
        if c.test == CLEAR:
            pairs = [(get(), places) for get, places in c.old]
            extra = [(x, places) for x, places in pairs if any(x is y for y in captured)]
        if c.test in (CAPTURED, OTHER):
            extra = c.old()
            if not any(extra is y for y in captured):
                continue
        if c.test != CLEAR or extra:
            rows.append((c.source.key, c.test, extra))
    return rows


def of_record(i: Any, test: Any, extra: Any, count: int) -> Check | None:
    """The check of a record, for a call of ``count`` tensors; None where it is not one."""
    if test not in WORDS or type(i) is not int or not 0 <= i < count:
        return None
    takes = _EXTRA.get(test, lambda x, count: x is None)
    if not takes(extra, count):
        return None
    old = extra
    if test == HOOKS:
        old = NO_HOOKS
    if test in PARAMETER.values():
        old = torch.nn.Parameter
    if test in (CAPTURED, OTHER):
        old = holder(extra)
    if test == CLEAR:
        old = [(holder(x), tuple(places)) for x, places in extra]
    return Check(Source(None, "tensor", i, f"tensor {i}"), test, old)


def _positions(x: Any, count: int) -> bool:
    return isinstance(x, (list, tuple)) and all(type(i) is int and 0 <= i < count for i in x)


def _pairs(x: Any, count: int) -> bool:
    return isinstance(x, (list, tuple)) and all(
        isinstance(p, (list, tuple))
        and len(p) == 2
        and isinstance(p[0], torch.Tensor)
        and _positions(p[1], count)
        for p in x
    )


_EXTRA: Mapping[str, Callable[[Any, int], bool]] = {
    STRIDES: lambda x, count: isinstance(x, tuple) and all(type(n) is int for n in x),
    OFFSET: lambda x, count: type(x) is int,
    CAPTURED: lambda x, count: isinstance(x, torch.Tensor),
    OTHER: lambda x, count: isinstance(x, torch.Tensor),
    CLEAR: _pairs,
}
