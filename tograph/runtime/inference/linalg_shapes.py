"""Shape rules, continued from ``shapes``: ``torch.linalg``, and reductions and searches without a C++ meta kernel.

Their meta kernels are Python, which torch imports at the first use: 0.3 to 1.3 seconds of a first call. A rule of this file
answers for float matrices of known sizes that fit together; anything else is None, so that the meta kernel has the words
for an error. LAPACK writes columns: its results are matrices whose rows are strided.
"""

from __future__ import annotations

from typing import Any

import torch

from .shapes import Meta, like, pointwise, reduced, rule


def _matrices(*xs: Any) -> bool:
    """Whether all metas are (batches of) matrices of known sizes, without an empty one, and of one dtype."""
    first = xs[0]
    return all(
        isinstance(x, Meta)
        and x.rank >= 2
        and x.static
        and 0 not in x.size
        and x.dtype == first.dtype
        and x.dtype in (torch.float32, torch.float64)
        and x.device == first.device
        for x in xs
    )


def _square(x: Any) -> bool:
    return _matrices(x) and x.size[-1] == x.size[-2]


def _columns(x: Meta, rows: int, columns: int) -> Meta:
    """Matrices like those of ``x``, of another size, written column by column."""
    made = like(x, size=(*x.size[:-2], rows, columns))
    return made._replace(stride=(*made.stride[:-2], 1, rows))


@rule("linalg_inv_ex linalg_cholesky_ex")
def _inverse(x, *args, **kwargs):
    if not _square(x):
        return None
    return [_columns(x, *x.size[-2:]), like(x, torch.int32, x.size[:-2])]


@rule("_linalg_det")
def _determinant(x):
    return [like(x, size=x.size[:-2]), *_factors(x)] if _square(x) else None


def _factors(x: Meta) -> list[Meta]:
    """LU factors and pivots of square matrices."""
    return [_columns(x, *x.size[-2:]), like(x, torch.int32, x.size[:-1])]


@rule("_linalg_slogdet")
def _log_determinant(x):
    return [like(x, size=x.size[:-2]), *_determinant(x)] if _square(x) else None


@rule("linalg_qr")
def _qr(x, mode="reduced"):
    if not _matrices(x) or mode not in ("reduced", "complete"):
        return None
    rows, columns = x.size[-2:]
    inner = rows if mode == "complete" else min(rows, columns)
    return [_columns(x, rows, inner), _columns(x, inner, columns)]


@rule("_linalg_eigh")
def _eigh(x, uplo="L", compute_v=True):
    if not _square(x) or not compute_v:
        return None
    return [like(x, size=x.size[:-1]), _columns(x, *x.size[-2:])]


@rule("_linalg_svd")
def _svd(x, full_matrices=False, compute_uv=True, *, driver=None):
    if not _matrices(x) or not compute_uv or x.device.type != "cpu":
        return None
    rows, columns = x.size[-2:]
    inner = min(rows, columns)
    left, right = (rows, columns) if full_matrices else (inner, inner)
    return [_columns(x, rows, left), like(x, size=(*x.size[:-2], inner)), _columns(x, right, columns)]  # fmt: skip


@rule("_linalg_solve_ex")
def _solve(a, b, *, left=True, check_errors=False):
    info = like(a, torch.int32, a.size[:-2])
    if not _square(a) or not left or b.dtype != a.dtype:
        return None
    if b.size == a.size[:1] and a.rank == 2:
        return [like(b), *_factors(a), info]
    if not _matrices(b) or b.size[:-1] != a.size[:-1]:
        return None
    return [_columns(b, *b.size[-2:]), *_factors(a), info]


@rule("linalg_solve_triangular")
def _solve_triangular(a, b, *, upper, left=True, unitriangular=False):
    if not (a.static and b.static):
        return _columns(b, *b.size) if _pair(a, b) else None
    fits = left and _square(a) and _matrices(a, b) and b.size[:-1] == a.size[:-1]
    return _columns(b, *b.size[-2:]) if fits else None


def _pair(a: Meta, b: Meta) -> bool:
    """Whether these are two matrices of one dtype, of sizes that only the run knows: the op itself says whether they fit together."""
    return a.rank == b.rank == 2 and a.dtype == b.dtype and a.device == b.device


@rule("cholesky_solve")
def _cholesky_solve(b, factor, upper=False):
    fits = _square(factor) and _matrices(factor, b) and b.size[:-1] == factor.size[:-1]
    return _columns(b, *b.size[-2:]) if fits else None


@rule("linalg_matrix_exp")
def _matrix_exp(x):
    return like(x) if _square(x) else None


@rule("linalg_cross")
def _cross(a, b, *, dim=-1):
    if a.size != b.size or a.dtype != b.dtype or not -a.rank <= dim < a.rank or a.size[dim] != 3:
        return None
    return like(a)


# ---- reductions and searches


@rule("logsumexp")
def _logsumexp(x, dim, keepdim=False):
    if isinstance(dim, (list, tuple)) and not dim:
        return None  # torch refuses it of a tensor with dimensions
    return reduced(x, dim, keepdim, x.dtype) if x.dtype.is_floating_point else None


@rule("trace")
def _trace(x):
    return like(x, size=()) if x.rank == 2 and x.dtype.is_floating_point else None


@rule("count_nonzero")
def _count(x, dim=None):
    return reduced(x, dim, False, torch.int64)


@rule("dist")
def _dist(a, b, p=2):
    return like(a, size=()) if a.dtype == b.dtype and a.size == b.size and a.dtype.is_floating_point else None  # fmt: skip


@rule("_cdist_forward")
def _cdist(a, b, p, mode):
    if not _matrices(a, b) or a.size[:-2] != b.size[:-2] or a.size[-1] != b.size[-1]:
        return None
    return like(a, size=(*a.size[:-1], b.size[-2]))


@rule("logaddexp logaddexp2")
def _logaddexp(a, b):
    same = a.dtype == b.dtype and a.dtype.is_floating_point
    return pointwise((a, b), a.dtype) if same else None


@rule("kthvalue")
def _kth(x, k, dim=-1, keepdim=False):
    if not x.static or not x.rank or not -x.rank <= dim < x.rank or not 1 <= k <= x.size[dim]:
        return None
    return [reduced(x, dim, keepdim, x.dtype), reduced(x, dim, keepdim, torch.int64)]


@rule("aminmax")
def _aminmax(x, *, dim=None, keepdim=False):
    if not x.static or 0 in x.size or (dim is not None and not -x.rank <= dim < x.rank):
        return None
    return [reduced(x, dim, keepdim, x.dtype)] * 2


@rule("searchsorted")
def _searchsorted(sequence, values, *, out_int32=False, right=False, side=None, sorter=None):
    if not isinstance(values, Meta) or sequence.rank != 1:
        return None
    return like(values, torch.int32 if out_int32 else torch.int64)


@rule("bucketize")
def _bucketize(values, boundaries, *, out_int32=False, right=False):
    if boundaries.rank != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.rank})")
    if not isinstance(values, Meta):
        return None
    return like(values, torch.int32 if out_int32 else torch.int64)
