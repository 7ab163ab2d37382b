"""Rows of ops whose effects are seen outside of a graph: prints, exceptions, calls of Python, generators, other ranks."""

from __future__ import annotations

import builtins
import sys
from types import BuiltinMethodType
from typing import Any

import torch

from ...errors import (  # fmt: skip
    AssertionFailed,
    GradientError,
    InvalidArgumentError,
    NoGradientError,
    NoIterationError,
    OutOfRangeError,
    StagingError,
    TographError,
    UnexpectedSizeError,
    refused,
)
from . import collectives, outside, prints
from .item_errors import in_words_of_indexing
from .opaque import plain
from .rows import IO, MAY_FAIL, NONE, PURE, REPLAY, Effects, register

register(
    "py.apply_opaque",
    run=lambda f, *a: plain(f)(*map(plain, a)),
    effects=Effects(foldable=False, mergeable=False),
    gradient=NONE,
)


def _print(*values, sep=None, end=None, file=None, flush=False):
    file = None if file is None else plain(file)
    prints.show(*map(plain, values), sep=sep, end=end, file=file, flush=flush)


def bare_exception(cls: type[BaseException], args: tuple) -> BaseException:
    """An exception with its arguments, without a run of the user's ``__new__`` and ``__init__``."""
    own = (c.__dict__.get("__new__") for c in cls.__mro__)
    made = next(new for new in own if isinstance(new, BuiltinMethodType))(cls, *args)
    made.args = args
    return made


def make_exception(kind: Any, args: tuple) -> BaseException:
    """An exception of a built-in type by name, or a copy of a template exception with new arguments."""
    if isinstance(kind, str):
        if kind in _CHECKS:
            return _CHECKS[kind](*args)
        found = getattr(builtins, kind)
        if not (isinstance(found, type) and issubclass(found, BaseException)):
            raise TographError(f"not a built-in exception: {kind!r}")
        return found(*args)
    template = kind.value
    made = bare_exception(type(template), args)
    made.__dict__.update(template.__dict__)
    made.__cause__ = template.__cause__
    made.__suppress_context__ = template.__suppress_context__
    return made


def _raise(kind, args, found=(), fields=(), **cause):
    """``found``: pairs of a name and its value, which a note shows; ``fields``: attributes; ``cause``: what follows ``from``."""
    error = make_exception(kind, tuple(plain(a) for a in args))
    error.__dict__.update(fields)
    if found:
        error.add_note("\n".join(f"where {name} is {_short(x)}" for name, x in found))
    if cause:
        raise error from cause["cause"]
    raise error


def _short(x: Any) -> str:
    if isinstance(x, torch.Tensor) and x.numel() > 16:
        return f"a {x.dtype} tensor of shape {list(x.shape)}"
    return str(x)


def _reraise(error, **cause):
    if cause:
        raise error from plain(cause["cause"])
    raise error


def catching(kinds: tuple[type, ...]) -> tuple[type, ...]:
    """The classes of a handler that take the exception which is raised now.

    What tograph refuses is no exception of the program: only a handler that names a class of ``tg.errors`` takes it.
    """
    error = sys.exc_info()[1]
    in_words_of_indexing(error)
    return tuple(k for k in kinds if issubclass(k, TographError)) if refused(error) else kinds


def _caught():
    """The exception that the handler around is for."""
    return sys.exc_info()[1]


_CHECKS = {
    f"tg.{c.__name__}": c
    for c in (
        StagingError,
        GradientError,
        NoGradientError,
        NoIterationError,
        UnexpectedSizeError,
        InvalidArgumentError,
        OutOfRangeError,
    )
}


def _assert(condition, kind, args, data=None):
    if isinstance(condition, torch.Tensor) and condition.numel() != 1:
        condition = bool(condition.all())
    if condition:
        return
    if kind == "tg.AssertionFailed":
        text = " ".join(map(str, args)) or "assertion failed"
        raise AssertionFailed(text)
    _raise(kind, args)


def _python_call(function, args, count):
    return plain(function)(*args)


register("tg.print", run=_print, effects=IO, gradient=NONE, outputs=0, aliases=False)
# Seeds and states of torch's generators: the default one, or the last argument.
for _name, _run, _outputs in [
    ("manual_seed", lambda seed, g=torch: plain(g).manual_seed(seed), 0),
    ("initial_seed", lambda g=torch: plain(g).initial_seed(), 1),
    ("new_seed", lambda g=torch: plain(g).seed(), 1),
    ("rng_state", lambda g=torch.default_generator: plain(g).get_state(), 1),
    ("set_rng_state", lambda state, g=torch.default_generator: plain(g).set_state(state), 0),
]:
    register(f"tg.{_name}", run=_run, effects=Effects(random=True), gradient=NONE, outputs=_outputs)  # fmt: skip
register("tg.raise", run=_raise, effects=MAY_FAIL, gradient=NONE, outputs=0)
register("tg.reraise", run=_reraise, effects=MAY_FAIL, gradient=NONE, outputs=0)
register("tg.caught", run=_caught, effects=Effects(io=True), gradient=NONE)
register("tg.assert", run=_assert, effects=MAY_FAIL, gradient=NONE, outputs=0)
register("tg.py_call", run=_python_call, effects=Effects(io=True, may_fail=True), gradient=REPLAY)
# Ranks of a process group that tell each other something: see ``collectives``.
for _name, _run, _outputs in [
    ("collective", collectives.run, 2),
    ("post", collectives.post, 1),
    ("arrived", collectives.arrived, 2),
]:
    register(f"tg.{_name}", run=_run, effects=IO | MAY_FAIL, gradient=NONE, outputs=_outputs, aliases=False)  # fmt: skip
# The graph of a function that calls itself; what it reads from around it, None for a call by itself.
register(
    "tg.recursion",
    run=lambda callee, args, captured: plain(callee)(args, captured),
    effects=Effects(io=True, may_fail=True, random=True),
    gradient=REPLAY,
)
# A Python number that another call gives another time: what a random generator or a clock says.
register(
    "py.outside",
    run=lambda f, *args: outside.ask(plain(f), *args),
    effects=Effects(io=True, may_fail=True),
    gradient=NONE,
)
# One of several results; the call's own inputs say what it depends on.
register("tg.py_item", run=lambda results, i, inputs: results[i], effects=PURE, gradient=REPLAY)
