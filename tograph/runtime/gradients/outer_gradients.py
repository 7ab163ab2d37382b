"""The part of a gradient, taken in a loop's body, that goes on to what was computed before the loop.

By way of the loop's state the first iteration comes there, others only where an iteration computes the state from that before. What a body
would compute of it in vain, in every iteration, is a branch that runs where a cotangent is not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ...errors import GradientError, GraphBoolError, Location
from ..graph.ir import Value
from ..graph.types import TensorType
from ..symbols.funcgraph import current_graph, user_location
from ..symbols.symbolic import as_symbolic, wrap
from ..values import flattening
from ..writes import iterations, list_histories, two_names
from . import optional_grads
from .engine import run_backward


def run(
    outputs: Sequence[Any], grads: Sequence[Any], inputs: Sequence[Any], create: bool, unused: bool
) -> list[Any]:
    """The gradients of ``inputs``, as of ``run_backward``."""
    try:
        return _checked(outputs, grads, inputs, create, unused)
    except GraphBoolError as error:
        if error.formula is None:  # code of the user's, such as a hook
            raise
        name = type(error.formula).__name__
        raise GradientError(_NUMBER.format(name), user_location()) from error


_NUMBER = (
    "torch's formula for this derivative ({}) needs a number that is known only when the graph runs"
)


def _checked(
    outputs: Sequence[Any], grads: Sequence[Any], inputs: Sequence[Any], create: bool, unused: bool
) -> list[Any]:
    if two_names.led_to_before(outputs, inputs):
        nodes = iterations.behind(outputs)
        states = [inputs[i].grad_fn for i in iterations.asked(nodes, inputs)]
        again = any(fn.earlier.again for fn in states)
        if not (again and _ask_anew(iterations.led(nodes, states), False)):
            raise _of_first(_ONE, user_location())
        return _any(inputs, create)
    return _run(outputs, grads, inputs, create, unused)


def _run(
    outputs: Sequence[Any], grads: Sequence[Any], inputs: Sequence[Any], create: bool, unused: bool
) -> list[Any]:
    nodes = iterations.behind(outputs)
    for node in filter(iterations.is_state, nodes):
        node.earlier.answered = {}
    if iterations.by_past(nodes, inputs):
        raise GradientError(_BY_PAST, user_location())
    asked = iterations.asked(nodes, inputs)
    if asked:
        return _with_leaves(outputs, grads, inputs, create, asked)
    passed = [] if create else iterations.passed(outputs)
    lists = list_histories.led_to(nodes)
    if not passed and not lists:
        return list(run_backward(outputs, grads, inputs, create, unused))
    if passed:
        found = _passing(outputs, grads, inputs, passed)
    else:
        found = list(run_backward(outputs, grads, inputs, create))
    if not unused and any(n.looked for n in lists):  # the run goes on where that was zeros
        found = [torch.zeros_like(x, requires_grad=False) if g is None else g for x, g in zip(inputs, found)]  # fmt: skip
    if not unused and any(g is None for g in found):
        missing = next(i for i, g in enumerate(found) if g is None)
        raise RuntimeError(optional_grads.UNUSED.format(missing))
    return found


def _passing(
    outputs: Sequence[Any], grads: Sequence[Any], inputs: Sequence[Any], passed: Sequence[Any]
) -> list[Any]:
    """The gradients, None for those that nothing leads to; they may pass iterations to what was computed before."""
    for earlier in passed:
        earlier.held = []
    found = list(run_backward(outputs, grads, inputs, False))
    for earlier in passed:
        held, earlier.held = earlier.held, None
        if held:
            _add(found, [x for x, _ in held], [g for _, g in held], inputs)
    return found


_REFUSED = (
    "a gradient that is taken inside of a staged loop is one of a value that an earlier iteration computed, with respect to a tensor that an earlier "
    "iteration made, in a way that is not followed. Compute the value in the iteration that takes the gradient, at the start of the body."
)

_BY_PAST = (
    "a gradient of a gradient that was taken inside of a staged loop, and went through the loop's state back into earlier iterations, is one with respect to that state. "
    "Take it with respect to what the iteration computes of the state (`h = h * 1` at the start of the body), if that is what is meant, or to tensors from outside of the loop."
)

_ONE = (
    "a gradient that is taken inside of a staged loop is one with respect to state of the loop that is, in the first iteration or a later one, a tensor which the "
    "differentiated value was also computed from by another name. Begin the loop with a tensor of its own (`a = w.clone()` for `a = w`)."
)


def _any(inputs: Sequence[Any], create: bool) -> list[Any]:
    """What has the type of gradients, in a trace that is not the last one."""
    return [x * 0 if create else torch.zeros_like(x) for x in inputs]


def _of_first(text: str, location: Location | None) -> GradientError:
    """An error which there may not be where the first iteration is apart: those behind it make their own state."""
    error = GradientError(text, location)
    error.apart = True
    return error


def _with_leaves(
    outputs: Sequence[Any],
    grads: Sequence[Any],
    inputs: Sequence[Any],
    create: bool,
    asked: Sequence[int],
) -> list[Any]:
    """The gradients, where those of the inputs ``asked`` are also by way of what the iteration that made these leaves computed of them.

    An input that no iteration has made is the one from before the loop: its gradient is that of this one. Where that is to be differentiated, or is not
    followed, the iteration computes anew what it differentiates: this trace is not the last one, and goes on with what has the type of a gradient.
    """
    states = {i: inputs[i].grad_fn for i in asked}
    known = all(fn.told.entry is not False for fn in states.values())
    again = any(fn.earlier.again for fn in states.values())
    if create or again or not (known and all(fn.told.leaf for fn in states.values())):
        needed = create or not known
        if _ask_anew(iterations.led(iterations.behind(outputs), list(states.values())), needed):
            return _any(inputs, create)
        if needed:
            raise _of_first(_REFUSED, user_location())
    for fn in states.values():
        fn.earlier.asked[fn.index] = None
    entries = {i: fn.told.entry for i, fn in states.items() if fn.told.entry is not None}
    # The engine comes to the iterations before only where something from before the loop is asked for.
    outside = [fn.earlier.outside[0] for fn in states.values()]
    every = [*inputs, *entries.values(), *outside]
    found = _passing(outputs, grads, every, iterations.passed(outputs))
    before = dict(zip(entries, found[len(inputs) :]))
    for i, fn in states.items():
        answer = fn.earlier.asked[fn.index]
        if answer is not None:
            fn.earlier.answered[fn.index] = answer
            found[i] = _of_leaf(inputs[i], answer, before.get(i), found[i])
    for fn in states.values():
        fn.earlier.asked = {}
    return found[: len(inputs)]


class Anew(NamedTuple):
    """A gradient of state with respect to other state from which an earlier iteration computed it: what another trace of the body is to compute again.

    ``needed``: there is no other way.
    """

    name: Any
    by: Any
    needed: bool


def _ask_anew(pairs: Sequence[tuple[Any, Any]], needed: bool) -> bool:
    """Have another trace of the body compute state again; False where that cannot be."""
    if any(n.told.name in n.earlier.hopeless for n, _ in pairs):
        return False
    for n, by in pairs:
        n.earlier.anew.append(Anew(n.told.name, by.told.name, needed))
    return True


def _of_leaf(x: Any, answer: iterations.Answer, before: Any, direct: Any) -> Any:
    """The gradient of a leaf, which an iteration made or which was there ``before``."""
    made = wrap(answer.grad, as_symbolic(x).meta, current_graph())
    start = direct if before is None else before
    with torch.no_grad():
        if start is None:
            start = torch.zeros_like(x, requires_grad=False)
        return torch.where(as_tensor(answer.made, x), made, start)


def as_tensor(flag: Value, like: torch.Tensor) -> Any:
    """A flag of the graph as a tensor on the device of another one."""
    graph, kind = current_graph(), TensorType(torch.bool, (), str(like.device))
    value = graph.emit("aten.scalar_tensor.default", flag, type=kind, dtype=torch.bool, device=like.device)  # fmt: skip
    return flattening.symbolic(value, graph, connected=False)


def _add(
    found: list[Any], outside: Sequence[Any], cotangents: Sequence[Any], inputs: Sequence[Any]
) -> None:
    """Add to gradients what comes to ``inputs`` by way of tensors from before a loop."""
    reached: list[int] = []

    def gradients() -> tuple[Any, ...]:
        made = _run(outside, cotangents, inputs, False, True)
        reached.extend(i for i, g in enumerate(made) if g is not None)
        return tuple(made[i] for i in reached)

    def zeros() -> tuple[Any, ...]:
        return tuple(torch.zeros_like(inputs[i], requires_grad=False) for i in reached)

    with torch.no_grad():
        some = torch.stack([(g != 0).any() for g in cotangents]).any()
        more = EITHER(some, gradients, zeros)
        for i, g in zip(reached, more):
            found[i] = g if found[i] is None else found[i] + g


def EITHER(test: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """What one of two functions gives, as a staged ``if``; ``body`` is traced first. Set by ``control_flow``."""
    raise NotImplementedError
