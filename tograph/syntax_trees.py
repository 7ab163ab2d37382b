"""Syntax trees of Python's parser, from any thread.

Before Python 3.12 the depth of the tree that is being built is kept in one place for all threads. Where another thread runs
meanwhile, as the collector's callbacks and finalizers let it, and builds a tree too, the parser finds a depth that is not its own and
raises SystemError, whatever the source is (CPython's issue 106905). Such a failure says nothing, and the next attempt is as good.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
ATTEMPTS = 20  # another thread has to come between in each of them
MESSAGE = "recursion depth mismatch"


def parse(source: str, mode: str = "exec") -> Any:
    """``ast.parse``. SyntaxError and RecursionError as that has them.

    >>> ast.unparse(parse("x  +  1", mode="eval"))
    'x + 1'
    """
    return undisturbed(lambda: ast.parse(source, mode=mode))


def undisturbed(parses: Callable[[], T]) -> T:
    """What a function that builds trees gives, as often as other threads disturb it."""
    for _ in range(ATTEMPTS - 1):
        try:
            return parses()
        except Exception as error:  # the parser's own, or that of a compiler which met it
            if not _disturbed(error):
                raise
    return parses()


def _disturbed(error: BaseException | None) -> bool:
    """Whether this is the parser's failure, or one that was raised from or during it."""
    while error is not None:
        if isinstance(error, SystemError) and MESSAGE in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
