"""Functions that do the same: those that one ``def`` or ``lambda`` made, over the same variables."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any


def same_function(a: Any, b: Any, same: Callable[[Any, Any], bool]) -> bool:
    """Whether two functions cannot be told apart but by ``is``: one code, the cells of the same variables, equal defaults.

    A ``def`` in the body of a loop makes a function in every iteration. The bodies of statements share the cells of their
    function, so that each of these reads the variables as they are when it is called.
    """
    if type(a) is not FunctionType or type(b) is not FunctionType:
        return False
    if a.__code__ is not b.__code__ or a.__globals__ is not b.__globals__:
        return False
    cells = a.__closure__ or (), b.__closure__ or ()
    if not all(x is y for x, y in zip(*cells)):
        return False
    kept = (
        (dict(enumerate(f.__defaults__ or ())), f.__kwdefaults__ or {}, vars(f)) for f in (a, b)
    )
    return all(_same_items(x, y, same) for x, y in zip(*kept))


def _same_items(a: dict[Any, Any], b: dict[Any, Any], same: Callable[[Any, Any], bool]) -> bool:
    return a.keys() == b.keys() and all(same(x, b[k]) for k, x in a.items())
