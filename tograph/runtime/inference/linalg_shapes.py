"""Shape rules, continued from ``shapes``: ``torch.linalg``, and reductions and searches without a C++ meta kernel.

Their meta kernels are Python, which torch imports at the first use: 0.3 to 1.3 seconds of a first call. A rule of this file
answers for float matrices of known sizes that fit together; anything else is None, so that the meta kernel has the words
for an error. LAPACK writes columns: its results are matrices whose rows are strided.
"""

from __future__ import annotations

from typing import Any

import torch

from .reduction_shapes import reduced
from .shapes import INT_ONLY, Meta, broadcast, contiguous, like, pointwise, rule, same_size


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


@rule("mm")
def _mm(a, b):
    if a.rank != 2 or b.rank != 2:
        return None
    _check_product(a, b, a.size[1], b.size[0])
    return like(a, size=(a.size[0], b.size[1]))


def _check_product(a: Meta, b: Meta, n, k) -> None:
    if type(n) is int and type(k) is int and n != k:
        shapes = "x".join(map(str, a.size)), "x".join(map(str, b.size))
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({shapes[0]} and {shapes[1]})"
        )
    if a.dtype != b.dtype:
        names = [str(m.dtype).removeprefix("torch.") for m in (a, b)]
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {names[0]} != {names[1]}"
        )


@rule("addmm")
def _addmm(c, a, b, *, beta=1, alpha=1):
    out = _mm(a, b)
    return out if out is not None and _expands(c, out) else None


def _expands(x: Meta, to: Meta) -> bool:
    sizes = zip(reversed(x.size), reversed(to.size), strict=False)
    return x.rank <= to.rank and all(
        type(n) is not int or type(m) is not int or n in (1, m) for n, m in sizes
    )


@rule("bmm")
def _bmm(a, b):
    if a.rank != 3 or b.rank != 3 or not same_size(a.size[0], b.size[0]):
        return None
    _check_product(a, b, a.size[2], b.size[1])
    return like(a, size=(a.size[0], a.size[1], b.size[2]))


@rule("baddbmm")
def _baddbmm(c, a, b, *, beta=1, alpha=1):
    out = _bmm(a, b)
    return out if out is not None and _expands(c, out) else None


@rule("mv")
def _mv(a, b):
    if a.rank != 2 or b.rank != 1:
        return None
    if type(a.size[1]) is int and type(b.size[0]) is int and a.size[1] != b.size[0]:
        raise RuntimeError(
            f"size mismatch, got input ({a.size[0]}), mat ({a.size[0]}x{a.size[1]}), vec ({b.size[0]})"
        )
    return like(a, size=(a.size[0],))


@rule("dot vdot")
def _dot(a, b):
    if a.rank != 1 or b.rank != 1 or a.dtype != b.dtype:
        return None
    n, k = a.size[0], b.size[0]
    known = type(n) is int and type(k) is int
    return None if known and n != k else like(a, size=())


@rule("linalg_lstsq")
def _lstsq(a, b, rcond=None, driver=None):
    if a.rank < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if a.rank - b.rank not in (0, 1):
        raise RuntimeError("torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1")  # fmt: skip
    *batch, m, n = a.size
    vector = b.rank < a.rank
    rows = b.size[-1] if vector else b.size[-2]
    if type(m) is type(rows) is int and m != rows:
        place = 1 if vector else 2
        raise RuntimeError(f"torch.linalg.lstsq: input.size(-2) should match other.size(-{place})")
    batch = broadcast(batch, b.size[: a.rank - 2])
    width = 1 if vector else b.size[-1]
    driver, real = driver or "gelsy", a.dtype.to_real()
    rank = like(a, torch.int64, (0,) if driver == "gels" else batch)
    known = type(m) is type(n) is int
    singular = (0,) if driver in ("gels", "gelsy") else (*batch, min(m, n) if known else None)
    left = (0,) if driver == "gelsy" or (known and m <= n) else (*batch, width)
    if left != (0,) and not (known and driver == "gels"):
        if batch:  # whether there are any depends on ranks
            return None
        left = (None,)
    return [_solution(a, b, batch, width, vector), like(a, real, left), rank, like(a, real, singular)]  # fmt: skip


def _solution(a: Meta, b: Meta, batch: tuple, width: Any, vector: bool) -> Meta:
    """That of ``linalg_lstsq``: LAPACK writes it over the right-hand side, column by column."""
    n, size = a.size[-1], tuple(a.size[-2:])
    if not INT_ONLY.issuperset(map(type, (*batch, width, *size))):
        return like(b, size=(*batch, n) if vector else (*batch, n, width))
    columns = contiguous(b.dtype, (*batch, width, max(size)), b.device).stride
    *outer, column, row = columns
    if vector:
        return Meta(b.dtype, (*batch, n), (*outer, row), 0, b.device)
    return Meta(b.dtype, (*batch, n, width), (*outer, row, column), 0, b.device)
