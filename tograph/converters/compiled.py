"""What ``torch.compile`` and ``torch.compiler.disable`` made of functions and modules: in a graph the code runs that they were given.

``torch.compile`` would compile the tracer with it, and break its graph at each branch. Outside of graphs a compiled function stays one.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from ..runtime.symbols.funcgraph import is_tracing

_DYNAMO = "torch._dynamo.eval_frame"
# What torch puts around functions that torch.compile has to leave alone, such as Optimizer.zero_grad.
_NOT_COMPILED = torch._disable_dynamo(lambda: None).__code__


def original(f: Any) -> Any:
    """What a compiled function or module was made of; None where it is another thing, or a module with hooks beside those of the original."""
    if type(f) is types.FunctionType:
        if f.__code__ is _NOT_COMPILED:
            return vars(f)["__wrapped__"]
        return vars(f).get("_torchdynamo_orig_callable") if f.__globals__.get("__name__") == _DYNAMO else None  # fmt: skip
    if type(f).__module__ == _DYNAMO and isinstance(f, torch.nn.Module):
        return None if f._forward_hooks or f._forward_pre_hooks else f._orig_mod
    return None


def instead(f: Any) -> Any:
    """What is called in the place of ``f`` while a graph is recorded, or None."""
    return original(f) if is_tracing() else None
