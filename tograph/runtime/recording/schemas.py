"""What the schema of an op tells of a call of it: asked once for each op."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def of_default_generator(func) -> Any:
    """The overload of ``torch.randn(..., generator=None)`` and its kind that takes no generator."""
    name = func._overloadname
    if not any(a.name == "generator" and not a.has_default_value() for a in func._schema.arguments):
        return func
    plain = name.replace("_generator", "").replace("generator", "default")
    return getattr(func._overloadpacket, plain)


@cache
def asked_for(func) -> frozenset[str]:
    """The keyword arguments that a call names also where they are None (``rounding_mode`` of ``div``): they have no default."""
    return frozenset(
        a.name for a in func._schema.arguments if a.kwarg_only and not a.has_default_value()
    )


@cache
def factory_options(func) -> frozenset[str]:
    """The names of the options of an op that makes a tensor from none; of any other op, nothing."""
    if any("Tensor" in str(a.type) for a in func._schema.arguments):
        return frozenset()
    return frozenset(a.name for a in func._schema.arguments if a.kwarg_only)
