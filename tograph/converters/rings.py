"""Functions that may call themselves: one that uses its own name, or is in a ring of few functions that use each other's."""

from __future__ import annotations

import types

from ..runtime.functions.function import Function
from ..runtime.symbols.code_lines import per_code

# As many functions may call each other in a ring.
RING = 3


def names_itself(f: types.FunctionType) -> bool:
    """Whether a function may call itself, by itself or in a ring of at most ``RING``."""
    known = _itself(f.__code__)
    if not known:
        known.append(_comes_back(f))
    return known[0]


def _comes_back(f: types.FunctionType) -> bool:
    """Whether a function, or one in a ring with it, uses its name, or a variable that holds it: a lambda has no name."""
    level, seen = [f], {f}
    for _ in range(RING):
        if any(f.__code__.co_name in _names(g.__code__) for g in level):
            return True
        called = [h for g in level for h in _called(g)]
        if any(h.__code__ is f.__code__ for h in called):
            return True
        level = [h for h in dict.fromkeys(called) if h not in seen]
        seen.update(level)
    return False


@per_code
def _itself(code: types.CodeType) -> list[bool]:
    """Where the answer for the code is kept: it takes the function too."""
    return []


def _names(code: types.CodeType) -> tuple[str, ...]:
    return (*code.co_names, *code.co_freevars)


def _called(f: types.FunctionType) -> list[types.FunctionType]:
    """The functions among a function's variables from around it."""
    held = [f.__globals__.get(n) for n in f.__code__.co_names]
    for cell in f.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # a variable that is not bound yet
            continue
    held = [x.python_function if isinstance(x, Function) else x for x in held]
    return [x for x in held if type(x) is types.FunctionType]
