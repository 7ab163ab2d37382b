"""``F.interpolate`` from or to sizes that only the run knows.

torch's own goes by forms of its ops that take a list of plain numbers in C++. Each has one that takes sizes as they are, with the factors beside them.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ...errors import GraphBoolError
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.funcgraph import user_location
from ...runtime.symbols.products import is_open
from ..calls import call
from ..left_alone import leave_alone
from ..registry import handles
from ..resolved import resolved
from ..tensor_index import as_place

aten = torch.ops.aten
_OPS = {
    (3, "nearest"): aten.upsample_nearest1d, (4, "nearest"): aten.upsample_nearest2d, (5, "nearest"): aten.upsample_nearest3d,
    (3, "nearest-exact"): aten._upsample_nearest_exact1d, (4, "nearest-exact"): aten._upsample_nearest_exact2d,
    (5, "nearest-exact"): aten._upsample_nearest_exact3d,
    (3, "linear"): aten.upsample_linear1d, (4, "bilinear"): aten.upsample_bilinear2d, (5, "trilinear"): aten.upsample_trilinear3d,
    (4, "bicubic"): aten.upsample_bicubic2d,
}  # fmt: skip
_FACTOR = "interpolate() takes a scale_factor that is known while tracing, and this one is known only when the graph runs: give it the size"
_SMOOTHED = {"bilinear": aten._upsample_bilinear2d_aa, "bicubic": aten._upsample_bicubic2d_aa}


def _listed(x: Any, count: int) -> tuple | None:
    """One value for each of ``count`` dimensions."""
    if x is None or isinstance(x, (list, tuple)):
        return None if x is None or len(x) != count else tuple(x)
    return (x,) * count


def _interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):  # fmt: skip
    """None where torch's own will do, or refuses what it is given."""
    count = input.dim() - 2
    sizes, factors = _listed(size, count), _listed(scale_factor, count)
    sizes = sizes and tuple(map(as_place, sizes))
    numbers = (*(sizes or ()), *(factors or ()))
    op = _SMOOTHED.get(mode) if antialias else _OPS.get((input.dim(), mode))
    plain = not (is_open(input) or any(isinstance(n, SYMBOLS) for n in numbers))
    by_corners = mode.startswith("nearest")
    if any(isinstance(f, SYMBOLS) for f in factors or ()):
        raise GraphBoolError(_FACTOR, user_location())
    if plain or op is None or (sizes is None) == (factors is None) or (by_corners and align_corners is not None):  # fmt: skip
        return None
    if sizes is None:
        if recompute_scale_factor:
            return None
        sizes = tuple(call(int, n * s) for n, s in zip(input.shape[2:], factors))
    elif recompute_scale_factor is not None:
        return None
    given = () if by_corners else (bool(align_corners),)
    return op.default(input, list(sizes), *given, *(factors or ()))


def _run(args: tuple, kwargs: dict[str, Any]) -> Any:
    found = _interpolate(*args, **kwargs)
    return leave_alone(F.interpolate, args, kwargs) if found is None else found


@handles(F.interpolate)
def interpolate(*args, **kwargs):
    return resolved(_run, F.interpolate, args, kwargs)
