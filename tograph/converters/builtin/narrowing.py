"""``narrow`` where only the run knows whether it is in range: see ``runtime.narrowing``."""

from __future__ import annotations

import torch

from ...runtime.library import narrowing
from ..left_alone import leave_alone
from ..registry import TENSOR_METHODS, handles
from ..resolved import resolved


@handles(torch.narrow)
def narrow(input, dim, start, length):
    def run(args, kwargs):
        if narrowing.is_staged(args[0], *args[2:]):
            return narrowing.narrow(*args)
        return leave_alone(torch.narrow, args, kwargs)

    return resolved(run, torch.narrow, (input, dim, start, length), {})


TENSOR_METHODS["narrow"] = narrow
