"""``torch.optim.LBFGS.step`` in a graph: one loop, whose exits the data decide, over directions in tensors of fixed sizes.

The steps, tolerances and their order are torch's, so that the iterates are; the two-loop recursion is algorithm 7.4 of Nocedal
and Wright, Numerical Optimization (2006). The line search is in ``wolfe``.
"""

from __future__ import annotations

from typing import Any

import torch

from ...errors import StagingError
from ...runtime.symbols.funcgraph import is_tracing, user_location
from ...runtime.traces.line_search_state import begin, directions, note
from ..call_rules import DECIDING
from ..construction import BEGINNINGS
from ..conversion import converted
from ..registry import handles
from .wolfe import ends, inside, interpolated, strong_wolfe

SMALLEST = 1e-10  # curvature of a pair that is kept


@handles(torch.optim.LBFGS.step)
def lbfgs_step(optimizer, closure):
    """One step: the loss before it."""
    if not is_tracing():
        return torch.optim.LBFGS.step(optimizer, closure)
    group = optimizer.param_groups[0]
    if group["line_search_fn"] not in (None, "strong_wolfe"):
        raise RuntimeError("only 'strong_wolfe' is supported")
    if group["history_size"] < 1:
        raise StagingError("an LBFGS with a history_size of 0 has no step in a tg.function", user_location())  # fmt: skip
    kept = directions(optimizer)
    with torch.no_grad():
        loss = converted(_step)(optimizer, kept, closure)
        note(kept)
    return loss


def _step(optimizer, kept, closure):
    group = optimizer.param_groups[0]
    loss, grad = _evaluate(optimizer, closure)
    kept.func_evals.add_(1)
    if not (grad.abs().max() <= group["tolerance_grad"]):  # so that a NaN goes on, as in torch
        _iterate(optimizer, kept, closure, group, float(loss), grad)
    return loss


def _evaluate(optimizer, closure):
    with torch.enable_grad():
        loss = closure()
    return loss, optimizer._gather_flat_grad()


def _iterate(optimizer, kept, closure, group, loss, grad):
    lr, most, small = group["lr"], group["max_iter"], group["tolerance_change"]
    lr = lr.item() if isinstance(lr, torch.Tensor) else lr
    n, evals = 0, 1
    before, t = float(kept.prev_loss), float(kept.t)
    while n < most:
        n += 1
        kept.n_iter.add_(1)
        if kept.n_iter == 1:
            kept.d.copy_(-grad)
            kept.h_diag.fill_(1)
            t = float(min(1.0, 1.0 / grad.abs().sum()) * lr)
        else:
            _remember(kept, grad - kept.grad, kept.d * t)
            kept.d.copy_(_direction(kept, grad))
            t = float(lr)
        kept.grad.copy_(grad)
        before = loss
        slope = grad.dot(kept.d)
        if slope > -small:
            break
        used, done = 0, False
        if group["line_search_fn"] is not None:
            loss, grad, t, used = _search(optimizer, closure, t, kept.d, loss, grad, slope, group["max_eval"] - evals)  # fmt: skip
            optimizer._add_grad(t, kept.d)
            done = grad.abs().max() <= group["tolerance_grad"]
        else:
            optimizer._add_grad(t, kept.d)
            if n != most:
                new, grad = _evaluate(optimizer, closure)
                loss, used = float(new), 1
                done = grad.abs().max() <= group["tolerance_grad"]
        evals += used
        kept.func_evals.add_(used)
        if n == most or evals >= group["max_eval"] or done:
            break
        if (kept.d * t).abs().max() <= small or abs(loss - before) < small:
            break
    kept.t.fill_(t)
    kept.prev_loss.fill_(before)


def _search(optimizer, closure, t, d, loss, grad, slope, most) -> Any:
    """The line search: (loss, gradient, step, evaluations)."""
    start = optimizer._clone_param()

    def at(t):
        return optimizer._directional_evaluate(closure_with_grad, start, t, d)

    def closure_with_grad():
        with torch.enable_grad():
            return closure()

    return strong_wolfe(at, t, d, loss, grad, slope, most)


def _remember(kept, y, s):
    """Keep a pair of changes, of the gradient and of the point, in the place of the oldest one where there is no other."""
    curvature = y.dot(s)
    if curvature > SMALLEST:
        size = kept.ro.shape[0]
        slot = (kept.head + kept.count) % size
        kept.dirs[slot] = y
        kept.steps[slot] = s
        kept.ro[slot] = 1.0 / curvature
        if kept.count == size:
            kept.head.copy_((kept.head + 1) % size)
        else:
            kept.count.add_(1)
        kept.h_diag.copy_(curvature / y.dot(y))


def _direction(kept, grad):
    """Minus the approximate inverse Hessian times the gradient."""
    size, count, head = kept.ro.shape[0], int(kept.count), int(kept.head)
    q, weights = -grad, torch.zeros_like(kept.ro)
    for i in range(count):
        row = (head + count - 1 - i) % size
        weight = kept.steps[row].dot(q) * kept.ro[row]
        weights[row] = weight
        q = q.add(kept.dirs[row], alpha=-weight.item())
    d = q * kept.h_diag
    for i in range(count):
        row = (head + i) % size
        back = kept.dirs[row].dot(d) * kept.ro[row]
        d = d.add(kept.steps[row], alpha=(weights[row] - back).item())
    return d


BEGINNINGS[torch.optim.LBFGS] = begin
DECIDING.update((_step, _evaluate, _iterate, _search, _remember, _direction, strong_wolfe, ends, interpolated, inside))  # fmt: skip
