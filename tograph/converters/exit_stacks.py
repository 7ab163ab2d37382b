"""``contextlib.ExitStack`` in converted code: what is pushed is called here, converted, in the order of Python's own.

A stack keeps its calls in its deque, which changes as any other: ``pop_all`` moves them to another stack. What leaves the stack reads the
deque then; the ways out of a ``with`` that can fail when the graph runs each read the same, so it is emptied behind all of them.
"""

from __future__ import annotations

import contextlib
from typing import Any

from ..errors import StagingError
from ..runtime.control_flow import StagedException
from ..runtime.symbols.funcgraph import is_tracing, user_location
from ..runtime.values.structure import is_union
from .call_rules import DECIDING
from .calls import call
from .registry import handles
from .with_stmt import EXITS, Exit, StagedTraceback, enter, exit_of


class _Pushed:
    """What an ``ExitStack`` calls at its end."""

    __tograph_callable__ = True

    def __init__(self, leave: Exit):
        self.leave = leave

    def __tograph_holds__(self) -> list[Any]:
        return [self.leave]

    def __call__(self, *error: Any) -> Any:
        return self.leave(*error)


def _calls(stack: Any) -> Any:
    return vars(stack)["_exit_callbacks"]


def _push(stack: Any, leave: Exit) -> None:
    call(_calls(stack).append, (True, _Pushed(leave)))


@handles(contextlib.ExitStack.enter_context)
def enter_context(stack: Any, cm: Any) -> Any:
    if not is_tracing():
        return stack.enter_context(cm)
    if is_union(cm):
        raise StagingError(
            "which manager an ExitStack enters depends on a staged condition: use a `with` statement for it, whose body then stands in each branch",
            user_location(),
        )
    leave = exit_of(cm)
    made = enter(cm)
    _push(stack, leave)
    return made


@handles(contextlib.ExitStack.push)
def push(stack: Any, exit: Any) -> Any:
    if not is_tracing():
        return stack.push(exit)
    _push(stack, exit_of(exit) if hasattr(type(exit), "__exit__") else _called(exit))
    return exit


def _called(f: Any) -> Exit:
    return lambda *error: call(f, *error)


@handles(contextlib.ExitStack.callback)
def callback(stack: Any, f: Any, /, *args: Any, **kwargs: Any) -> Any:
    if not is_tracing():
        return stack.callback(f, *args, **kwargs)

    def leave(*error: Any) -> None:
        call(f, *args, **kwargs)

    _push(stack, leave)
    return f


@handles(contextlib.ExitStack.pop_all)
def pop_all(stack: Any) -> Any:
    if not is_tracing():
        return stack.pop_all()
    made = call(type(stack))
    call(_calls(made).extend, list(_calls(stack)))
    _emptied(stack)
    return made


@handles(contextlib.ExitStack.close)
def close(stack: Any) -> None:
    leave_stack(stack, None, None, None)


@handles(contextlib.ExitStack.__exit__)
def leave_stack(stack: Any, *error: Any) -> Any:
    """``stack.__exit__``, as code calls it itself."""
    if not is_tracing():
        return stack.__exit__(*error)
    try:
        return _left(stack, *error)
    finally:
        _emptied(stack)


def _left(stack: Any, *error: Any) -> Any:
    return call(_unwound, tuple(_calls(stack)), *error)


def _emptied(stack: Any) -> None:
    if _calls(stack):
        call(_calls(stack).clear)


def _traceback_of(error: BaseException) -> Any:
    return StagedTraceback() if isinstance(error, StagedException) else error.__traceback__


handles(_traceback_of)(_traceback_of)


def _unwound(callbacks, kind, error, traceback):
    """What ``__exit__`` of an ``ExitStack`` does; whether it ends the exception."""
    if not callbacks:
        return False
    *callbacks, (_, leave) = callbacks
    try:
        ended = leave(kind, error, traceback)
    except BaseException as raised:
        if not _unwound(callbacks, type(raised), raised, _traceback_of(raised)):
            raise
        return error is not None
    if error is not None and ended:
        _unwound(callbacks, None, None, None)
        return True
    return _unwound(callbacks, kind, error, traceback)


DECIDING.add(_unwound)
EXITS[contextlib.ExitStack] = (_left, _emptied)
