"""The staged form of a built-in: the built-in itself runs when nothing of its arguments is staged."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch

from ...runtime.control_flow import StagedException
from ...runtime.symbols.required import require
from ...runtime.symbols.symbolic import scalar_of
from ...runtime.values.structure import is_union
from .. import special_results, union
from ..call_rules import is_user_function
from ..calls import call
from ..registry import handles
from ..staged_array import StagedArray
from ..staging import is_staged
from ..strings import StagedString


def as_number(x: Any, wrong: type[Exception] | None = None) -> Any:
    """A staged number for a one-element tensor; ``wrong``, if given, where it has more or none, else the error of ``item()``."""
    if not isinstance(x, torch.Tensor):
        return x
    for n in x.shape if wrong is not None else ():
        require(n == 1, wrong("only one element tensors can be converted to Python scalars"))
    return scalar_of(x)


def _any_staged(args: Any) -> bool:
    return any(
        is_staged(a) or is_union(a) or isinstance(a, (StagedException, StagedString)) for a in args
    )


def _plain(function: Any, args: Any, kwargs: Any) -> Any:
    """The built-in; where it would call a special method of a user's class, that is converted."""
    if function is bool and len(args) == 1:
        held = union.truth(args[0], "bool")
        return call(bool, held) if is_staged(held) else bool(held)
    if function is operator.index and isinstance(args[0], int):
        # Python does not ask the ``__index__`` of a subclass of int.
        return operator.index(args[0])
    names = (f"__{function.__name__}__", *(("__repr__",) if function is str else ()))
    for name in names if args else ():
        method = getattr(type(args[0]), name, None)
        if is_user_function(method):
            args = (*args, "") if function is format and len(args) == 1 else args
            return special_results.checked(name, args[0], call(method, *args, **kwargs))
    return function(*args, **kwargs)


_NUMBERS = frozenset([int, float, bool])  # what makes one of an array without dims


def unless_staged(function):
    """The built-in itself when nothing is staged; each option of a union apart."""

    def wrap(form):
        @functools.wraps(form)
        def run(*args, **kwargs):
            if union.holds_union(args, kwargs):
                return union.apply(run, *args, **kwargs)
            if (
                function in _NUMBERS
                and args
                and isinstance(args[0], StagedArray)
                and not args[0].ndim
            ):
                args = (args[0].tensor, *args[1:])
            if not _any_staged(args) and not _any_staged(kwargs.values()):
                return _plain(function, args, kwargs)
            return form(*args, **kwargs)

        return handles(function)(run)

    return wrap
