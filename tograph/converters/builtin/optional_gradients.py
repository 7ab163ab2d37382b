"""Optimisers and clipping where it depends on the path of a run which gradients are None.

torch gathers the gradients that are not None in lists: how long these are would depend on data. An optimiser of torch does for each parameter the same
whatever the others are, so that here its step is done for the gradients that are surely there, and under an ``if`` for each group of those that are
there together. Clipping and unscaling take a gradient that is not there as the zeros that stand for it, which change no norm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ...runtime.gradients import grad_fields
from ...runtime.symbols.funcgraph import is_tracing
from ...runtime.traces import optimizer_state
from ...runtime.values import facts
from ...runtime.values.structure import TaggedUnion, is_growing, is_union
from ..call_rules import is_optimizers
from ..calls import call
from ..conversion import converted
from ..if_stmt import if_stmt
from ..registry import STEPS, handles


def _unions(parameters: Iterable[Any]) -> dict[torch.Tensor, TaggedUnion]:
    """The parameters whose gradient is None or one tensor."""
    found = {
        p: grad_fields.read(p)
        for p in parameters
        if isinstance(p, torch.Tensor) and p.requires_grad
    }
    return {p: g for p, g in found.items() if is_union(g) and len(_present(g)) == 1}


def _present(g: TaggedUnion) -> list[int]:
    return [i for i, o in enumerate(g.options_) if o is not None]


def _tensor(g: TaggedUnion) -> Any:
    return g.options_[_present(g)[0]]


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _plain_step(optimizer: torch.optim.Optimizer, function: Any) -> bool:
    """Whether a step is that of a class of torch's own, which goes from parameter to parameter, without hooks around it."""
    own = is_optimizers(function) and not isinstance(optimizer, torch.optim.LBFGS)
    return own and not optimizer._optimizer_step_pre_hooks and not optimizer._optimizer_step_post_hooks  # fmt: skip


def step(function: Any, optimizer: torch.optim.Optimizer, closure: Any = None) -> Any:
    """``optimizer.step(closure)``, where ``function`` is the method of its class."""
    if not is_tracing() or not _plain_step(optimizer, function):
        return call(function, optimizer, *(() if closure is None else (closure,)))
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = call(closure)
    optimizer_state.begin(optimizer)
    parameters = _parameters(optimizer)
    unions = _unions(parameters)
    groups: dict[Any, dict[torch.Tensor, TaggedUnion]] = {}
    for p, g in unions.items():
        groups.setdefault((g.tag_.node.ref.value, *_present(g)), {})[p] = g
    _step_for(function, optimizer, dict.fromkeys(unions))
    for group in groups.values():
        first = next(iter(group.values()))
        test = facts.known(facts.is_one_of(first, _present(first)))
        shown = {p: _tensor(group[p]) if p in group else None for p in parameters}
        if_stmt(test, lambda shown=shown: _step_for(function, optimizer, shown), None, ())
    return loss


def _step_for(function: Any, optimizer: torch.optim.Optimizer, shown: dict[torch.Tensor, Any]) -> None:  # fmt: skip
    with grad_fields.standing(shown):
        call(function, optimizer)


STEPS.append(step)


def _with_zeros(function: Any, parameters_of: Any) -> None:
    @handles(function)
    def run(first: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return function(first, *args, **kwargs)
        first, found = parameters_of(first, *args)
        with grad_fields.standing({p: _tensor(g) for p, g in _unions(found).items()}):
            return converted(function)(first, *args, **kwargs)


def _given(parameters: Any, *args: Any) -> tuple[Any, Any]:
    if isinstance(parameters, torch.Tensor):
        return parameters, [parameters]
    if is_growing(parameters):
        return parameters, []  # of a length that only the run knows
    found = call(list, parameters)
    return found, found


for _function in ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_"):
    _with_zeros(getattr(torch.nn.utils, _function), _given)
_with_zeros(torch.amp.GradScaler._unscale_grads_, lambda scaler, opt, *args: (scaler, _parameters(opt)))  # fmt: skip
