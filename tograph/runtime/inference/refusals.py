"""Dtypes that torch refuses: an op that a graph would compute by itself is asked of torch first.

The rules of ``shapes`` say what an op gives, not for which dtypes torch has a kernel, and neither do meta kernels
(``torch.hypot`` of integers). Compiled code of a graph never asks torch, so the op runs once, while tracing, on small tensors
of the same dtypes and ranks, with the numbers of the code. What torch raises for them is raised at the line of the user, as the
op itself would there. The answer is kept for the dtypes, ranks and numbers.

Asked are ops that native code has a form for and whose arguments can be small: what they accept does not depend on the
elements. Others are torch's own at run time too. Only for tensors on a CPU: the first launch of each kernel of a GPU would
take longer than the trace.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .shapes import SYMBOLS, Meta

# Reductions, and pointwise ops without torch's tag for them.
_OTHERS = frozenset((
    "sum", "prod", "nansum", "mean", "amax", "amin", "any", "all", "argmax", "argmin", "max", "min", "median", "var", "std",
    "var_mean", "std_mean", "norm", "linalg_vector_norm", "logsumexp", "aminmax", "count_nonzero", "cumsum", "cumprod", "cummax",
    "cummin", "logcumsumexp", "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data",
    "rsub", "__and__", "__or__", "__xor__", "floor_divide", "masked_fill", "hardswish", "hardswish_backward",
    "hardsigmoid_backward", "hardtanh_backward", "leaky_relu_backward", "softplus_backward", "mse_loss", "smooth_l1_loss",
    "huber_loss", "binary_cross_entropy", "glu", "arange", "native_layer_norm", "complex", "polar",
))  # fmt: skip
# Ops that take positions from a tensor: small ones hold zeros for them.
_INDEXED = frozenset(("nll_loss_forward", "nll_loss2d_forward", "index_copy", "index_fill"))
# Ops that are torch's own at run time, too, but whose kernels have no form for bools or complex numbers: what runs before and behind one has to know it.
_NOT_OF_ALL = frozenset((
    "sort", "topk", "kthvalue", "mode", "nanmedian", "_unique2", "unique_dim", "unique_consecutive", "searchsorted", "bucketize", "trace",
    "mm", "mv", "dot", "vdot", "bmm", "addmm", "addmv", "addbmm", "baddbmm", "linear",
))  # fmt: skip
_SOME = frozenset((torch.bool, torch.complex32, torch.complex64, torch.complex128))
_found: dict[Any, tuple[torch.dtype, ...]] = {}


def dtypes(func: Any, args: tuple, kwargs: dict) -> tuple[torch.dtype, ...] | None:
    """The dtypes of what an op gives, by torch itself; None where it is not asked. Tensors among the arguments are metas.

    Raises what torch raises for arguments of these dtypes.
    """
    base = func._schema.name.split("::")[-1]
    if not _asked(func, base) and not (base in _NOT_OF_ALL and _of_some((args, kwargs))):
        return None
    try:
        open_size = 1 if torch.Tag.pointwise in func.tags else 2  # 1 goes with any size beside it
        given = _small((_short(base, args), kwargs), 0 if base in _INDEXED else 1, open_size)
    except _Elsewhere:
        return None
    key = (func, _key(given), torch.get_default_dtype())
    if key not in _found:
        with _disable_current_modes(), torch.no_grad():
            out = func(*given[0], **given[1])
        _found[key] = tuple([x.dtype for x in (out if isinstance(out, (tuple, list)) else (out,))])
    return _found[key]


@functools.cache
def _asked(func: Any, base: str) -> bool:
    if func.namespace != "aten" or func._schema.is_mutable:
        return False
    if torch.Tag.nondeterministic_seeded in func.tags:
        return False
    return torch.Tag.pointwise in func.tags or base in _OTHERS or base in _INDEXED


def _of_some(x: Any) -> bool:
    """Whether there are bools or complex numbers among the arguments."""
    if isinstance(x, Meta):
        return x.dtype in _SOME
    if isinstance(x, dict):
        return any(map(_of_some, x.values()))
    return isinstance(x, (list, tuple)) and any(map(_of_some, x))


class _Elsewhere(Exception):
    """A tensor that is not on a CPU, or an op that says more of other sizes."""


def _short(base: str, args: tuple) -> tuple:
    """The arguments with sizes as ``_small`` makes them, where an op takes them as numbers."""
    if base == "nll_loss2d_forward" and args[0].size[:1] + args[0].size[2:] != args[1].size:
        raise _Elsewhere  # what torch says of sizes is said of those that are given
    if base == "native_layer_norm":
        return (args[0], _sizes(args[1]), *args[2:])
    if base == "index_copy" and not all(a.static for a in (args[0], *args[2:4])) and args[2].rank:
        # sizes that only the run knows are whatever the known ones need
        return tuple([a._replace(size=(2,) * a.rank) if isinstance(a, Meta) else a for a in args])
    if base in ("topk", "kthvalue") and type(args[1]) is int:
        return (args[0], min(args[1], 1), *args[2:])
    if base == "arange":  # as many numbers as there are arguments, up to 3
        return tuple([type(x)(i + (len(args) == 1)) if type(x) in (int, float) else x for i, x in enumerate(args)])  # fmt: skip
    return args


def _sizes(size: Any, open_size: int = 2) -> tuple[int, ...]:
    """0 and 1 stay: torch asks less of nothing, and has a word to say on the variance of one number."""
    return tuple([open_size if type(n) is not int else min(n, 2) for n in size])


def _small(x: Any, value: int, open_size: int) -> Any:
    """Arguments with a small tensor in the place of each meta; ``open_size`` is for sizes that only the run knows."""
    if isinstance(x, Meta):
        if x.device.type != "cpu":
            raise _Elsewhere
        return _full(x.dtype, _sizes(x.size, open_size), value)
    if isinstance(x, (list, tuple)):
        return [_small(a, value, open_size) for a in x]
    if isinstance(x, dict):
        if torch.device(x.get("device") or "cpu").type != "cpu":
            raise _Elsewhere
        return {k: _small(a, value, open_size) for k, a in x.items()}
    return x.node.kind(1) if isinstance(x, SYMBOLS) else x


@functools.cache
def _full(dtype: torch.dtype, size: tuple[int, ...], value: int) -> torch.Tensor:
    """One tensor for each kind: ops do not write into it, and it has no history."""
    with _disable_current_modes(), torch.inference_mode(False):
        return torch.full(size, value, dtype=dtype)


def _key(x: Any) -> Any:
    """A hashable form of the arguments, which tells 1, True and 1.0 apart."""
    if isinstance(x, torch.Tensor):
        return id(x)  # one of those that are kept
    if isinstance(x, (list, tuple)):
        return tuple([_key(a) for a in x])
    if isinstance(x, dict):
        return tuple([(k, _key(a)) for k, a in x.items()])
    return type(x), x
