"""Rows of torch's ops, made from their schemas: any ATen op can be recorded, and so can the ops of other libraries."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .arranged import arranged, is_arranged
from .opaque import plain
from .rows import IO, MAY_FAIL, NONE, REPLAY, Effects, Op

# Ops whose arguments decide, at run time, whether they fail.
_MAY_FAIL = frozenset((
    "index", "gather", "index_select", "embedding", "take", "take_along_dim", "scatter", "scatter_add", "index_put",
    "index_add", "index_copy", "index_fill", "nll_loss_forward", "nll_loss2d_forward", "bincount", "one_hot",
    "multinomial", "linalg_cholesky_ex", "cholesky", "linalg_inv_ex", "linalg_solve_ex", "_linalg_solve_ex",
    "linalg_lu_factor_ex", "masked_scatter", "repeat_interleave", "_assert_async", "_cdist_forward", "put",
    "scatter_reduce", "index_reduce", "binary_cross_entropy", "_linalg_check_errors", "_linalg_eigh", "linalg_eig",
    "_linalg_svd", "linalg_lstsq", "_embedding_bag", "embedding_bag", "_ctc_loss", "histc"
))  # fmt: skip
# Draws whose arguments hold probabilities or the like; those that take a number know it while tracing.
_FAILING_DRAWS = frozenset(("aten.bernoulli.default", "aten.binomial.default", "aten.poisson.default", "aten.normal.Tensor_float", "aten.normal.float_Tensor",
                            "aten.normal.Tensor_Tensor"))  # fmt: skip
# Ops that take a size or a type from a tensor, and whose result requires no grad in torch.
_UNRELATED = frozenset(
    [f"{n}_like" for n in ("zeros", "ones", "full", "empty", "rand", "randn", "randint")]
    + [f"new_{n}" for n in ("zeros", "ones", "full", "empty", "empty_strided")]
    + ["histc"]
)
# Libraries of ops in which the ranks of a group wait for each other.
_COLLECTIVE = frozenset(["_c10d_functional", "_c10d_functional_autograd", "_dtensor"])
# Ops whose result is whatever the memory held.
_UNINITIALISED = frozenset(("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"))  # fmt: skip


@functools.cache
def takes_size(name: str) -> bool:
    """Whether an op looks at the size and type of its first argument, and not at its content."""
    base = name.removeprefix("aten.").partition(".")[0]
    return name == "py.size" or (base in _UNRELATED and base != "histc")


def overload_name(func: torch._ops.OpOverload) -> str:
    """The table's name of a torch overload: ``aten.add.Tensor``, or ``op.ns.name.overload`` for other libraries."""
    text = str(func)
    return text if text.startswith("aten.") else "op." + text


@functools.cache
def overload(name: str) -> torch._ops.OpOverload:
    """The torch overload that a table name stands for."""
    parts = name.removeprefix("op.").split(".")
    found = torch.ops
    for part in parts:
        found = getattr(found, part)
    return found


def overload_packet(name: str) -> Any:
    """All overloads of a torch op, or None when there is no such op."""
    found: Any = torch.ops
    for part in name.removeprefix("op.").split("."):
        found = getattr(found, part, None)
    return found


def torch_row(name: str) -> Op:
    func = overload(name)
    base = func._schema.name.split("::")[-1]
    defined = base not in _UNINITIALISED
    effects = Effects(
        random=torch.Tag.nondeterministic_seeded in func.tags,
        may_fail=base in _MAY_FAIL or name in _FAILING_DRAWS,
        foldable=defined,
        mergeable=defined,
    )
    if func.namespace in _COLLECTIVE:
        effects |= IO | MAY_FAIL
    count = len(func._schema.returns)
    gradient = NONE if base in _UNRELATED else REPLAY
    return Op(name, _reference(name, func), effects, gradient, count, _may_alias(func))


def _may_alias(func) -> bool:
    """Whether an output may share storage with an argument: by the schema, or where torch decides at run time."""
    if any(r.alias_info is not None for r in func._schema.returns):
        return True
    try:
        if func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
            return True
    except RuntimeError:  # an op of TorchScript's own, which the dispatcher does not know
        return True
    return func._schema.name == "aten::_unsafe_view"


def _reference(name: str, func) -> Callable[..., Any]:
    """What a row runs: ``func``, or what has its meaning in a graph."""
    if name in _REFERENCES:
        return _REFERENCES[name](func)
    if is_arranged(name):
        return lambda *args, **kwargs: func(*arranged(name, args), **kwargs)
    if any(a.name == "generator" for a in func._schema.arguments):
        return lambda *args, **kwargs: func(
            *map(plain, args), **{k: plain(v) for k, v in kwargs.items()}
        )
    return func


def _keeping_workspace(func) -> Callable[..., Any]:
    """``func`` with what its gradient needs, which torch's kernel gives only where gradients are on; a graph runs where they are off."""

    def run(*args):
        if torch.is_grad_enabled():
            return func(*args)
        with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd():
            return func(*args)

    return run


def _leaking(x, noise, *args, **kwargs):
    """torch's formula for the gradient of the functional form takes the noise as it was before the draw."""
    noise = noise.clone()
    return torch.ops.aten.rrelu_with_noise(x, noise, *args, **kwargs), noise


def _copy(target, source, non_blocking=False):
    return torch.empty_like(target).copy_(source)


def _parts(x):
    """An argument may be conjugated by a flag, which torch's views of a graph's tensors do not ask for: a copy is not."""
    return torch.view_as_real(x.resolve_conj())


_REFERENCES: dict[str, Callable[[Any], Callable[..., Any]]] = {
    # A view of a value that nobody writes to may as well be a copy: strides never fail.
    "aten.view.default": lambda func: torch.reshape,
    "aten._unsafe_view.default": lambda func: torch.reshape,
    "aten.copy.default": lambda func: _copy,
    "aten.view_as_real.default": lambda func: _parts,
    "aten.mkldnn_rnn_layer.default": _keeping_workspace,
    "aten.rrelu_with_noise_functional.default": lambda func: _leaking,
}
