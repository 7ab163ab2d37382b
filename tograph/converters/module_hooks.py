"""Backward hooks of whole modules: torch's own, around the module's inputs and outputs, with hooks that are converted.

They act on gradients that are taken while the graph is recorded, with effects on Python objects like any code. For a gradient that is taken of the
graph, from outside or through a branch or a loop body that the module stands in, two nodes are around what the module has recorded
(``HookNodes``). Hooks that do more than compute, or use what is computed in the module, are refused there.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules import module as torch_module
from torch.utils.hooks import BackwardHook
from torch.utils.module_tracker import ModuleTracker

from ..errors import GradientError
from ..runtime.library import custom, hooks
from ..runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ..runtime.symbols.symbolic import as_symbolic, same
from ..runtime.values import flattening
from ..runtime.values.structure import is_union
from .hook_nodes import HookNodes
from .registry import handles

_REFUSED = (
    "{} has backward hooks of the whole module that cannot be part of a graph ({}), and a gradient goes through it that is taken outside of the function, or of the branch "
    "or loop body that calls it. Take the gradient where the module is called, use register_hook on its inputs and outputs, or call the "
    "module under torch.no_grad()."
)


def has_hooks(m: torch.nn.Module) -> bool:
    """Whether a call of a module has to set up backward hooks."""
    found = (
        m._backward_hooks or m._backward_pre_hooks
        or torch_module._global_backward_hooks or torch_module._global_backward_pre_hooks
    )  # fmt: skip
    return bool(found) and is_tracing() and torch.is_grad_enabled()


def check(m: torch.nn.Module) -> None:
    """The old kind of hooks sees the inputs of the last op of the module, which a graph does not keep apart."""
    if m._get_backward_hooks()[1]:
        raise GradientError(
            f"{type(m).__name__} has a hook of register_backward_hook, which a graph does not have. Use register_full_backward_hook.",
            user_location(),
        )


class _Through(torch.autograd.Function):
    """The same tensors behind one node of torch's history, and nothing in the graph."""

    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> Any:
        ctx.mark_non_differentiable(*(x for x in tensors if not x.requires_grad))
        return tuple(same(as_symbolic(x)) for x in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class _Hook(BackwardHook):
    def _apply_on_tensors(self, fn: Any, args: Any) -> Any:
        at = [i for i, x in enumerate(args) if isinstance(x, torch.Tensor)]
        if not any(args[i].requires_grad for i in at):
            return args, None
        made = dict(zip(at, _Through.apply(*(args[i] for i in at))))
        fn(next(x.grad_fn for x in made.values() if x.grad_fn is not None))
        out = [made.get(i, x) for i, x in enumerate(args)]
        return tuple(out) if type(args) is tuple else type(args)(*out), at

    def setup_input_hook(self, args: Any) -> Any:
        made = super().setup_input_hook(args)
        self.nodes = HookNodes(self, made)
        return made

    def setup_output_hook(self, args: Any) -> Any:
        result = super().setup_output_hook(args)
        outputs = result if isinstance(result, tuple) else (result,)
        try:
            self.nodes.place(outputs)
        except GradientError as error:
            for x in outputs:
                hooks.refuse(x, _REFUSED.format(type(self.module).__name__, error.message))
        return result


def _converted(hook: Any) -> Any:
    """A hook whose result is what it returns, or the gradients that it was given first where a staged condition says None."""

    def run(module: torch.nn.Module, *grads: Any) -> Any:
        made = custom.CONVERT(hook)(module, *grads)
        if not is_union(made):
            return made
        options = [grads[0] if o is None else o for o in made.options_]
        return flattening.choose(made.tag_, options, current_graph())

    return run


@handles(BackwardHook)
def backward_hook(module: torch.nn.Module, user_hooks: Any, user_pre_hooks: Any) -> BackwardHook:
    """``BackwardHook(...)`` of torch's converted ``Module._call_impl``."""
    if not is_tracing():
        return BackwardHook(module, user_hooks, user_pre_hooks)
    return _Hook(module, list(map(_converted, user_hooks)), list(map(_converted, user_pre_hooks)))


# What they gather is known while tracing; that the hooks are these ones is a guard of the module's call.
for _gather in (torch.nn.Module._get_backward_hooks, torch.nn.Module._get_backward_pre_hooks):
    handles(_gather)(_gather)


def _follows(hook: Any) -> None:
    """A hook of torch's ``ModuleTracker`` (``FlopCounterMode``), which follows modules as they run: in a graph none do."""

    @handles(hook)
    def run(tracker: ModuleTracker, *args: Any) -> None:
        if not is_tracing():
            hook(tracker, *args)


_follows(ModuleTracker._fw_pre_hook)
_follows(ModuleTracker._fw_post_hook)
