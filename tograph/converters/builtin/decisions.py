"""Functions of torch whose C++ or plain Python decides on data, written so that they convert or stage.

Each does what torch's does. ``_converted`` ones are plain Python that the pipeline rewrites when they are first called.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch.nn.modules.lazy import LazyModuleMixin

from ...runtime.inference.shapes import SYMBOLS
from ...runtime.recording.tracing import suspended
from ...runtime.symbols.funcgraph import is_tracing
from .. import union
from ..call_rules import DECIDING
from ..calls import call
from ..conversion import converted
from ..registry import TENSOR_METHODS, handles
from ..staging import is_staged
from . import normalizing
from .numbers import bool_


def _equal(input, other):
    """``torch.equal``"""
    a, b = input, other
    if not (is_staged(a) or is_staged(b)):
        return torch.equal(a, b)
    for at, x in enumerate((a, b), 1):
        if not isinstance(x, torch.Tensor):
            name = ("input", "other")[at - 1]
            raise TypeError(f"equal(): argument '{name}' (position {at}) must be Tensor, not {type(x).__name__}")  # fmt: skip
    return call(_compared, a, b)


def _compared(a, b):
    if a.dim() != b.dim() or a.shape != b.shape:
        return False
    return bool((a == b).all())


DECIDING.add(_compared)


def _allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """``torch.allclose``"""
    a, b = input, other
    if not (is_staged(a) or is_staged(b)):
        return torch.allclose(a, b, rtol, atol, equal_nan)
    return bool_(call(torch.isclose, a, b, rtol, atol, equal_nan).all())


for _function in (torch.equal, torch.allclose):
    _form = _equal if _function is torch.equal else _allclose
    _form = union.each(_form)
    handles(_function)(_form)
    TENSOR_METHODS[_function.__name__] = _form


def _one_hot(x, num_classes=-1):
    if x.dtype != torch.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if x.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if (x < 0).any():
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = x.max().item() + 1
    elif (x >= num_classes).any():
        raise RuntimeError("Class values must be smaller than num_classes.")
    found = x.unsqueeze(-1) == torch.arange(num_classes, device=x.device)
    return found.to(torch.int64, memory_format=torch.contiguous_format)


@handles(F.one_hot)
def one_hot(x, num_classes=-1):
    return converted(_one_hot)(x, num_classes) if is_staged(x) else F.one_hot(x, num_classes)


def _ctc_loss(log_probs, targets, lengths, target_lengths, blank, reduction, zero_infinity):
    loss = torch._ctc_loss(log_probs, targets, lengths, target_lengths, blank, zero_infinity)[0]
    if zero_infinity:
        loss = torch.where(loss == float("inf"), torch.zeros_like(loss), loss)
    if reduction == "mean":
        counts = torch.as_tensor(target_lengths, device=loss.device).clamp_min(1)
        return (loss / counts.to(loss.dtype)).mean()
    return loss.sum() if reduction == "sum" else loss


@handles(F.ctc_loss)
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):  # fmt: skip
    """``F.ctc_loss``: lengths that are tensors stay tensors."""
    args = (log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
    if not any(map(is_staged, args[:4])):
        return F.ctc_loss(*args)
    if isinstance(input_lengths, torch.Tensor) != isinstance(target_lengths, torch.Tensor):
        lengths = torch.as_tensor(input_lengths), torch.as_tensor(target_lengths)
        args = (log_probs, targets, *lengths, blank, reduction, zero_infinity)
    return _ctc_loss(*args)


def _normalized(function: Any, x: torch.Tensor, *args: Any) -> Any:
    """A normalisation; where the size of ``x`` is known only when the graph runs, its check that there is more than one value is staged.

    ``eps``, the last argument, may be a staged number.
    """
    if is_tracing() and isinstance(args[-1], SYMBOLS):
        _normalized(function, x, *args[:-1], 1e-5)  # torch's errors; nobody reads what it gives
        return normalizing.FORMS[function](x, *args)
    staged = is_tracing() and any(isinstance(n, SYMBOLS) for n in x.shape)
    return (converted(function) if staged else function)(x, *args)


@handles(F.group_norm)
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """``F.group_norm``"""
    return _normalized(F.group_norm, input, num_groups, weight, bias, eps)


@handles(F.batch_norm)
def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):  # fmt: skip
    """``F.batch_norm``. torch's op changes the statistics without saying so in its schema, and takes a plain number as momentum."""
    if not (is_tracing() and training) or running_mean is None or running_var is None:
        return _normalized(
            F.batch_norm, input, running_mean, running_var, weight, bias, training, momentum, eps
        )
    y = _normalized(F.batch_norm, input, None, None, weight, bias, True, 0.0, eps)
    if _empty(input.shape):
        return y  # as torch does: statistics of nothing are not followed
    rest = [d for d in range(input.dim()) if d != 1]
    with torch.no_grad():
        wide = input.to(torch.promote_types(input.dtype, running_mean.dtype))
        _follow(running_mean, wide.mean(rest), momentum)
        _follow(running_var, wide.var(rest), momentum)
    return y


@handles(F.instance_norm)
def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):  # fmt: skip
    """``F.instance_norm``, in the same way: the statistics follow the mean over the instances."""
    if not (is_tracing() and use_input_stats) or running_mean is None or running_var is None:
        return _normalized(F.instance_norm, input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)  # fmt: skip
    y = _normalized(F.instance_norm, input, None, None, weight, bias, True, 0.0, eps)
    if _empty(input.shape[1:]):
        return y  # of no instances they are NaN in torch too
    rest = list(range(2, input.dim()))
    with torch.no_grad():
        _follow(running_mean, input.mean(rest).mean(0), momentum)
        _follow(running_var, input.var(rest).mean(0), momentum)
    return y


_PRIVATE: Any = F
DECIDING.update((_PRIVATE._verify_batch_size, _PRIVATE._verify_spatial_size))
_CHECKS: Any = torch
DECIDING.update((_CHECKS._assert, _CHECKS._check_tensor_all, _CHECKS._check_tensor_all_with))


def _empty(sizes: Any) -> bool:
    return any(not isinstance(n, SYMBOLS) and n == 0 for n in sizes)


def _follow(kept: torch.Tensor, new: torch.Tensor, momentum: Any) -> None:
    kept.copy_((1 - momentum) * kept + momentum * new.to(kept.dtype))


@handles(torch.utils.checkpoint.checkpoint)
def checkpoint(function, *args, use_reentrant=None, context_fn=None, determinism_check=None, debug=None,
               early_stop=None, preserve_rng_state=True, **kwargs):  # fmt: skip
    """``torch.utils.checkpoint``: what a graph keeps for its gradient is decided for the whole graph."""
    return call(function, *args, **kwargs)


@handles(LazyModuleMixin._infer_parameters)
def infer_parameters(module, hook_owner, args, kwargs=None):
    """The parameters of a lazy module are made once, outside of the graph, from the sizes of the arguments."""
    if not is_tracing():
        return LazyModuleMixin._infer_parameters(module, hook_owner, args, kwargs)
    with suspended():
        real = torch.utils._pytree.tree_map_only(torch.Tensor, _example, (args, kwargs or {}))
        LazyModuleMixin._infer_parameters(module, hook_owner, *real)
    return None


def _example(x: Any) -> torch.Tensor:
    return torch.zeros(tuple(x.shape), dtype=x.dtype, device=x.device)
