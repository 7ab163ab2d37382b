"""Whether the sizes of an op's tensors fit, as far as it is known while tracing: where only the run tells, the op may raise torch's RuntimeError.

``unsure(func, args, kwargs)``, of metas. Sizes that are one and the same number fit, those of arguments that have been compared (a guard of the trace)
too. What is not known here to take all sizes is unsure: an op that is taken to fail and does not costs a region, one that fails and is not taken to is not caught.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..graph.ir import items_in
from .shapes import SYMBOLS, Meta, same_size

# Ops that take any sizes, where their other arguments are known.
_ANY = frozenset((
    "sum", "prod", "nansum", "mean", "any", "all", "var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm", "logsumexp",
    "count_nonzero", "cumsum", "cumprod", "_softmax", "_log_softmax", "sort", "argsort", "clone", "_to_copy", "detach", "alias",
    "lift_fresh", "t", "transpose", "permute", "unsqueeze", "squeeze", "slice", "select", "diagonal", "flip", "roll", "tril", "triu",
    "native_dropout", "nonzero", "_conj_physical", "conj", "real", "imag", "view_as_real", "scalar_tensor", "unbind", "split",
    "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "_local_scalar_dense", "sym_size", "unique_dim", "_unique2",
))  # fmt: skip
_RARE = frozenset([torch.uint16, torch.uint32, torch.uint64, torch.complex32])
_FACTORIES = frozenset(["zeros", "ones", "full", "empty", "rand", "randn", "arange", "new_zeros", "new_ones", "new_full", "new_empty", "eye", "tril_indices", "triu_indices", "randperm"])  # fmt: skip


def rare(found: Any) -> bool:
    """Whether an op gives tensors of a type that torch has few kernels for, and so may refuse."""
    if isinstance(found, Meta):
        return found.dtype in _RARE
    return any(m.dtype in _RARE for m in items_in(found, Meta))


def unsure(func: Any, args: tuple, kwargs: dict) -> bool:
    """Whether it is known only when the graph runs that an op takes the sizes that it is given."""
    metas = list(items_in((args, kwargs), Meta))
    if all(m.static for m in metas) and not _staged(args, kwargs):
        return False
    name = func._schema.name.split("::")[-1]
    if torch.Tag.pointwise in func.tags:
        return not _broadcast(*(m.size for m in metas))
    if name in _ANY:
        return False
    rule = _RULES.get(name)
    return rule is None or not rule(*args)


def _staged(args: tuple, kwargs: dict) -> bool:
    """Whether a number among the arguments is known only when the graph runs."""
    given = (v for a in (*args, *kwargs.values()) for v in (a if isinstance(a, (list, tuple)) else (a,)))  # fmt: skip
    return any(isinstance(v, SYMBOLS) for v in given)


def _equal(a: Any, b: Any) -> bool:
    """Whether two sizes are known to be equal: two that have a hint have been compared where this matters."""
    if same_size(a, b):
        return True
    staged = isinstance(a, torch.SymInt) and isinstance(b, torch.SymInt)
    return staged and a.node.has_hint() and b.node.has_hint()


def _one(n: Any) -> bool:
    return type(n) is int and n == 1


def _broadcast(*sizes: Sequence) -> bool:
    """Whether sizes are known to be broadcast together."""
    rank = max(map(len, sizes), default=0)
    for at in range(1, rank + 1):
        found = [s[-at] for s in sizes if len(s) >= at and not _one(s[-at])]
        if not all(_equal(found[0], n) for n in found[1:]):
            return False
    return True


def _expands(size: Sequence, to: Sequence) -> bool:
    """Whether a size is known to be one that can be expanded to another."""
    ends = zip(reversed(size), reversed(to))
    return len(size) <= len(to) and all(_one(n) or _equal(n, m) or (type(m) is int and m == -1) for n, m in ends)  # fmt: skip


def _product(a: Meta, b: Meta, *rest: Any) -> bool:
    """Of matrices, of as many of them, and of vectors."""
    if not a.rank or not b.rank:
        return False
    batches = a.rank < 3 or _equal(a.size[0], b.size[0])
    return batches and _equal(a.size[-1], b.size[-2 if b.rank > 1 else -1])


def _added_product(c: Meta, a: Meta, b: Meta, *rest: Any) -> bool:
    return _product(a, b) and _expands(c.size, (*a.size[:-1], *b.size[a.rank - 1 :]))


def _concatenated(xs: Sequence[Meta], dim: int = 0) -> bool:
    def others(x: Meta) -> list[Any]:
        return [n for i, n in enumerate(x.size) if i != dim % x.rank]

    first = xs[0]
    return all(x.rank == first.rank and all(map(_equal, others(x), others(first))) for x in xs)


def _stacked(xs: Sequence[Meta], dim: int = 0) -> bool:
    first = xs[0]
    return all(x.rank == first.rank and all(map(_equal, x.size, first.size)) for x in xs)


def _viewed(x: Meta, size: Any) -> bool:
    """Whether a tensor is known to have the elements of a view."""
    if isinstance(size, torch.dtype):
        return False
    have, had = _factors(x.size)
    want, wanted = _factors([n for n in size if not _rest(n)])
    if not any(map(_rest, size)):
        return have == want and had == wanted
    return not want and wanted != 0 and had % wanted == 0


def _rest(n: Any) -> bool:
    return type(n) is int and n == -1


def _factors(size: Sequence) -> tuple[Counter, int]:
    """The staged factors of a number of elements, as they are told apart, and the product of the others."""
    staged, known = Counter[Any](), 1
    for n in size:
        if type(n) is int:
            known *= n
        else:
            staged[_key(n)] += 1
    return staged, known


def _key(n: Any) -> Any:
    node = n.node
    if node.ref is None:
        return node.constant_
    return node.ref.value if node.expr is None else node.expr


def _normed(x: Meta, shape: Sequence, *rest: Any) -> bool:
    return len(shape) <= x.rank and all(map(_equal, x.size[x.rank - len(shape) :], shape))


def _made(*args: Any) -> bool:
    """Whether the sizes that are asked for are known not to be negative: those of other tensors."""
    return all(_counts(n) for a in args for n in (a if isinstance(a, (list, tuple)) else (a,)))


def _counts(n: Any) -> bool:
    if not isinstance(n, torch.SymInt):
        return True
    made = None if n.node.ref is None else n.node.ref.value.node
    return made is not None and made.op == "py.size"


_RULES: dict[str, Callable[..., bool]] = {
    **dict.fromkeys(["mm", "bmm", "mv", "dot", "vdot"], _product),
    **dict.fromkeys(["addmm", "baddbmm", "addmv"], _added_product),
    **dict.fromkeys(["view", "_unsafe_view", "reshape"], _viewed),
    **dict.fromkeys(_FACTORIES, _made),
    "cat": _concatenated,
    "stack": _stacked,
    "expand": lambda x, size, *rest: _expands(x.size, size) and _made(size),
    "native_layer_norm": _normed,
}
