"""What torch keeps for all code, the grad mode and the default dtype, cannot depend on a staged condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...errors import StagingError
from ..symbols.funcgraph import user_location


def keeping(function: Callable[[], Any]) -> Callable[[], Any]:
    """``function``, which is refused where it returns with another grad mode or default dtype."""

    def run() -> Any:
        grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
        result = function()
        if (torch.is_grad_enabled(), torch.get_default_dtype()) != (grad, dtype):
            torch.set_grad_enabled(grad)
            torch.set_default_dtype(dtype)
            raise StagingError(
                "the grad mode or the default dtype is changed in a staged branch or loop, and stays changed after it: use a `with` statement, "
                "such as torch.no_grad(), or change it outside",
                user_location(),
            )
        return result

    return run
