"""``If`` from two callables, and what may be its condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import ConditionError
from ..gradients import outer_gradients
from ..inference.shapes import SYMBOLS
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.journal import Location as Place
from ..symbols.scalars import new_scalar
from ..symbols.symbolic import value_of
from ..values import facts, inner_lists, listed
from .joining import join_regions
from .modes import keeping
from .regions import recording_places, trace_region


def predicate(test: Any, what: str) -> Any:
    """A staged condition: a one-element bool tensor or a staged bool. Other numbers are compared with 0."""
    if isinstance(test, SYMBOLS):
        return test if test.node.kind is bool else test != 0
    for n in test.shape:
        if type(n) is int and n != 1:
            plain = f"Boolean value of Tensor with {'no values' if n == 0 else 'more than one value'} is ambiguous"
            error = ConditionError(
                f"condition of {what} statement expected to be `torch.bool` scalar, got a tensor of shape {tuple(test.shape)}: {plain}; use "
                ".any() or .all()",
                user_location(),
            )
            error.plain = plain
            raise error
    if any(type(n) is not int for n in test.shape):
        # More or fewer elements than one are an error when the graph runs.
        return truth_number(test)
    if test.dim():
        test = test.reshape(())  # one kind of condition, whatever shape the one element had
    return test if test.dtype == torch.bool else test != 0


def truth_number(test: Any) -> Any:
    """The truth of a tensor of one element as a staged bool, which is on no device."""
    if not isinstance(test, torch.Tensor):
        return test
    graph = current_graph()
    return new_scalar("py.truth", (value_of(test, graph),), bool, graph)


def staged_if(
    pred: Any, then: Callable[[], Any], orelse: Callable[[], Any], places: Sequence[Place] = ()
) -> Any:
    """``then()`` if ``pred`` else ``orelse()`` when the graph runs.

    The contents of ``places``, and of every location that either changes through an operator, are merged.
    """
    with facts.assuming(pred, True), listed.apart() as one, inner_lists.apart() as marks:
        first = trace_region("then", keeping(then), recording_places(places))
    with facts.assuming(pred, False), listed.apart() as other, inner_lists.apart() as others:
        second = trace_region("orelse", keeping(orelse), recording_places(places))
    listed.together(one, other)
    first.marks, second.marks = marks, others
    joined = join_regions("If", [pred], {"then": first, "orelse": second})
    inner_lists.together(marks, others)
    if first.raised or second.raised:
        facts.learn(pred, second.raised)
    return joined


def _either(test: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    return staged_if(predicate(test, "if"), body, orelse)


outer_gradients.EITHER = _either
