"""Checks of what users give to the functions of the public surface: one message for each mistake."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import InvalidArgumentError, NotAFunctionError, SignatureError
from ..inference.shapes import SYMBOLS
from .funcgraph import user_location


def check_callable(fn: Any, caller: str, name: str) -> None:
    """NotAFunctionError for an argument that cannot be called."""
    if not callable(fn):
        raise NotAFunctionError(
            f"'{name}' of {caller} must be callable, not {fn!r}", user_location()
        )


def check_whole(x: Any, caller: str, name: str) -> None:
    """SignatureError for an argument that is neither a whole number nor a tensor of one."""
    if isinstance(x, torch.Tensor):
        whole = not (x.dtype.is_floating_point or x.dtype.is_complex)
        one = all(type(n) is not int or n == 1 for n in x.shape)
        found = f"a {x.dtype} tensor of shape {tuple(x.shape)}"
    else:
        whole = isinstance(x, int) or (isinstance(x, SYMBOLS) and x.node.kind is not float)
        one, found = True, repr(x)
    if not (whole and one):
        raise SignatureError(
            f"'{name}' of {caller} must be a whole number or a tensor of one, not {found}",
            user_location(),
        )


def check_flag(x: Any, caller: str, name: str) -> None:
    """SignatureError for an option that is neither True nor False."""
    if not isinstance(x, bool):
        raise SignatureError(f"'{name}' of {caller} must be a bool, not {x!r}", user_location())


def check_loop_limits(maximum_iterations: Any, parallel_iterations: Any) -> None:
    """The two numbers that bound a loop."""
    if maximum_iterations is not None:
        check_whole(maximum_iterations, "a loop", "maximum_iterations")
        if isinstance(maximum_iterations, int) and maximum_iterations < 0:
            raise InvalidArgumentError(
                f"'maximum_iterations' must not be negative, not {maximum_iterations!r}: None means no limit",
                user_location(),
            )
    if not isinstance(parallel_iterations, int) or parallel_iterations < 1:
        raise InvalidArgumentError(
            f"'parallel_iterations' must be a positive integer, not {parallel_iterations!r}",
            user_location(),
        )
