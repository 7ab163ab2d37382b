"""``torch.set_grad_enabled`` and ``torch.inference_mode`` by a condition: whether gradients are recorded is decided while tracing."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import GraphBoolError
from ...runtime.symbols.funcgraph import user_location
from ..calls import call
from ..construction import instance
from ..registry import handles
from ..staging import is_symbolic


def _mode(cls: type) -> None:
    def form(mode: Any = True, **named: Any) -> Any:
        if is_symbolic(named.get("mode", mode)):
            raise GraphBoolError(
                f"torch.{cls.__name__}() takes a bool that is known while tracing, and this one is known only when the graph runs: write "
                "an `if` on it, with the code under torch.no_grad() in one branch and without it in the other",
                user_location(),
            )
        return instance(call, cls, (mode,) if not named else (), named)

    handles(cls)(form)


_mode(torch.set_grad_enabled)
_mode(torch.inference_mode)
