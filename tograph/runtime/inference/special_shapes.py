"""Shape rules, continued from ``shapes``: complex numbers, Fourier transforms, special functions, and what distributions ask.

The meta kernels of these ops are Python that loads sympy at its first use, 0.5 seconds of a first call. Where a rule has no answer it
gives None, and the meta kernel has the words for an error.
"""

from __future__ import annotations

from typing import Any

import torch

from .shapes import Meta, is_packed, like, pointwise, result_type, rule

# ---- complex numbers


@rule("complex polar")
def _complex(a, b):
    if a.dtype != b.dtype or a.dtype not in (torch.float32, torch.float64):
        return None
    return pointwise((a, b), a.dtype.to_complex())


@rule("angle")
def _angle(x):
    known = is_packed(x) and (x.dtype.is_complex or x.dtype.is_floating_point)
    return like(x, x.dtype.to_real()) if known else None


@rule("_conj_physical conj_physical")
def _conjugate(x):
    return pointwise((x,), x.dtype) if x.dtype.is_complex else None


# ---- Fourier transforms: of the last dimension of tensors that lie in order


def _last(x: Meta, dim: Any) -> bool:
    return x.static and is_packed(x) and 0 not in x.size and list(dim) in ([-1], [x.rank - 1])


@rule("_fft_r2c")
def _real_to_complex(x, dim, normalization, onesided):
    if x.dtype not in (torch.float32, torch.float64) or not _last(x, dim):
        return None
    n = x.size[-1] // 2 + 1 if onesided else x.size[-1]
    return like(x, x.dtype.to_complex(), (*x.size[:-1], n))


@rule("_fft_c2c")
def _complex_to_complex(x, dim, normalization, forward):
    return like(x) if x.dtype.is_complex and _last(x, dim) else None


@rule("_fft_c2r")
def _complex_to_real(x, dim, normalization, last_dim_size):
    if not x.dtype.is_complex or not _last(x, dim) or type(last_dim_size) is not int or last_dim_size < 1:  # fmt: skip
        return None
    return like(x, x.dtype.to_real(), (*x.size[:-1], last_dim_size))


# ---- special functions


@rule(
    "special_erfcx special_log_ndtr special_ndtri special_i0e special_i1 special_i1e special_bessel_j0 special_bessel_j1"
)
def _special(x):
    if x.dtype.is_complex:
        return None
    return pointwise((x,), x.dtype if x.dtype.is_floating_point else torch.get_default_dtype())


@rule("polygamma")
def _polygamma(n, x):
    return _special(x) if type(n) is int and n >= 0 else None


@rule("igamma igammac")
def _incomplete_gamma(a, b):
    dtype = result_type(a, b)
    return pointwise((a, b), dtype) if dtype.is_floating_point else None


@rule("special_zeta special_xlog1py")
def _of_two(a, b):
    if not isinstance(a, Meta) or not isinstance(b, Meta):
        return None
    same = a.dtype == b.dtype and a.dtype.is_floating_point
    return pointwise((a, b), a.dtype) if same else None


# ---- what distributions and samplers ask


@rule("_is_all_true _is_any_true")
def _is_true(x):
    return like(x, size=()) if x.dtype == torch.bool else None


@rule("geometric cauchy log_normal")
def _drawn(x, *args, **kwargs):
    return like(x) if isinstance(x, Meta) and x.dtype.is_floating_point else None


@rule("histc")
def _histogram(x, bins=100, min=0, max=0):
    return like(x, size=(bins,)) if type(bins) is int and bins > 0 and x.dtype.is_floating_point else None  # fmt: skip


@rule("take")
def _take(x, index):
    return like(index, x.dtype) if index.dtype == torch.int64 and x.device == index.device else None


@rule("isin")
def _isin(elements, tests, *, assume_unique=False, invert=False):
    if not isinstance(elements, Meta) or not isinstance(tests, Meta):
        return None
    return like(elements, torch.bool)
