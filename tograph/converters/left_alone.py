"""Calls of what is not converted: it runs as it is written, with arguments that it can take.

Of what it is given, all counts as read. Context managers made of a user's generator function are converted all the same.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import types
import typing
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map_only

from ..errors import GraphBoolError, StagingError
from ..runtime.guarding import reads, unconverted
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library import leaf_flags
from ..runtime.library.staged_string import StagedString
from ..runtime.symbols import contents, decisions
from ..runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ..runtime.symbols.symbolic import as_symbolic
from ..runtime.symbols.valueless import NO_ADDRESS, no_array
from ..runtime.values import torch_trees
from ..runtime.values.growing import StagedList
from . import outside_world, threads, union
from .call_rules import MARK, WRAPPERS, is_unconverted
from .conversion import convert_if_needed, converted, generator_form
from .generators import Generator
from .iterators import gives_items
from .registry import HIGHER_ORDER, STREAM_METHODS, TENSOR_METHODS, form_of, hashable
from .resolved import resolved


def _is_contextmanager(f: Any) -> bool:
    """Whether ``f`` is what ``contextlib.contextmanager`` made of a user's generator function."""
    return getattr(f, "__code__", None) is _HELPER and is_unconverted(
        getattr(f, "__wrapped__", None)
    )


@contextlib.contextmanager
def _sample():
    yield


_HELPER = _sample.__code__

WRAPPERS.add(_HELPER)


def leave_alone(f, args, kwargs):
    """``f(*args, **kwargs)`` as it is written, with arguments that it can take."""
    if _is_contextmanager(f):
        if isinstance(f, types.MethodType):
            f, args = f.__func__, (f.__self__, *args)
        native = converted(f.__wrapped__)
        manager = contextlib.contextmanager(native)(*args, **kwargs)
        if is_tracing():
            form = generator_form(f.__wrapped__)
            manager.generator__ = form and Generator(native, form, args, kwargs)
        return manager
    if getattr(f, "__name__", "") == "seed":
        reads.seeded(f, getattr(f, "__self__", None))
    elif any(f is g for g in (id, hash, weakref.proxy)):
        reads.identified(*args[:1])
    if "requires_grad" not in kwargs or not is_tracing():
        return resolved(lambda a, k: _run_alone(f, a, k), f, args, kwargs)
    leaf_flags.need_known(kwargs["requires_grad"])
    return leaf_flags.note_made(resolved(lambda a, k: _run_alone(f, a, k), f, args, kwargs))


def _run_alone(f, args, kwargs):
    if hashable(f) and f in _QUIET:
        return f(*args, **kwargs)
    owner = getattr(f, "__self__", None)
    if _is_stream(owner) and f.__name__ in STREAM_METHODS:
        return STREAM_METHODS[f.__name__](owner, *args, **kwargs)
    _refuse_text(owner, args)
    _refuse_told(owner, f)
    outside_world.called(f, args, kwargs)
    args = torch_trees.given(f, args)
    if _of_arrays(f, owner):
        _refuse_growing(f, (*args, *kwargs.values()))
    reads.passed((*args, *kwargs.values(), owner))
    if getattr(f, MARK, False):
        decisions.python("{0!s} runs as written (tg.do_not_convert)", getattr(f, "__name__", f))
    if hashable(f) and f in HIGHER_ORDER:
        args = tuple(map(convert_if_needed, args))
        kwargs = {k: convert_if_needed(v) for k, v in kwargs.items()}
        return f(*args, **kwargs)
    try:
        with _handled_refusals(f, owner):
            found = unconverted.run(f, args, kwargs)
        threads.check()
        outside_world.opened(found)
        gives_items(found)
        _refuse_shown(found, f)
        return found
    except (GraphBoolError, TypeError, ValueError, RuntimeError) as error:
        for given in (_with_contents, _with_numbers, _with_each_item):
            found = given(error, f, owner, args, kwargs)
            if found is not _UNKNOWN:
                return found
        ours = _instead(error, f, owner, args, kwargs)
        if ours is None:
            raise
        raise ours from None


@contextlib.contextmanager
def _handled_refusals(f: Any, owner: Any) -> Iterator[None]:
    """Raise what the call has handled itself: it asked for a value that only the run knows, and went on as it does not where the value is there."""
    refusals = current_graph().root.refusals if is_tracing() else []
    known = len(refusals)
    yield
    if refusals[known:] and not _of_arrays(f, owner):
        raise refusals[known]


def _refuse_text(owner: Any, args: tuple) -> None:
    """StagingError for a staged text that is written to one in memory."""
    for x in args if isinstance(owner, io.StringIO) else ():
        if isinstance(x, StagedString):
            x.refuse("written to a text in memory")


def _refuse_told(owner: Any, f: Any) -> None:
    """StagingError for what a text in memory holds that the graph prints to."""
    if isinstance(owner, io.StringIO) and is_tracing() and any(x is owner for x in current_graph().root.told):  # fmt: skip
        raise StagingError(
            f"{f.__name__}() of a text in memory that this function prints to is known only when the graph runs: call it outside of the function, or "
            'put the text together as a string (`text += f"..."`)',
            user_location(),
        )


def _refuse_shown(found: Any, f: Any) -> None:
    """StagingError for a text, or a list of texts, that shows a staged value as it is while tracing."""
    texts = found if type(found) in (list, tuple) else (found,)
    if not is_tracing() or getattr(f, MARK, False):
        return
    if any(type(text) is str and STAGED_TEXT in text for text in texts):
        name = getattr(f, "__name__", type(f).__name__)
        raise StagingError(
            f"{name}() makes a text of a value that is known only when the graph runs: write it as an f-string, or call it outside of the function",
            user_location(),
        )


# What json says of staged values alone: it takes all others of these types.
_AS_JSON = re.compile("Object of type (str|int|float|bool) is not JSON serializable")
_NO_JSON = (
    "{}() asks for the text of a value that is known only when the graph runs: return the value and write it outside of the function, or use "
    "tg.py_function"
)


def _with_contents(error: Exception, f: Any, owner: Any, args: tuple, kwargs: dict[str, Any]) -> Any:  # fmt: skip
    """What a function of torch's or numpy's C code gives that asks for what tensors from outside hold (``contents``); _UNKNOWN where that is not known."""
    asks = isinstance(error, GraphBoolError) or str(error).startswith(NO_ADDRESS)
    if not (asks and is_tracing() and _of_arrays(f, owner)) or isinstance(f, types.FunctionType):
        return _UNKNOWN
    if isinstance(owner, torch.Tensor):
        f = getattr(as_symbolic(owner), f.__name__)
    args, kwargs = tree_map_only(torch.Tensor, as_symbolic, (args, kwargs))
    try:
        with contents.asked():
            return f(*args, **kwargs)
    except (GraphBoolError, RuntimeError):
        return _UNKNOWN


def _with_numbers(error: Exception, f: Any, owner: Any, args: tuple, kwargs: dict[str, Any]) -> Any:  # fmt: skip
    """What a function of torch's C code gives that asks for a number where it was given a tensor of one integer, with its item; _UNKNOWN where that does not help."""
    if type(error) is not GraphBoolError or not (is_tracing() and _of_arrays(f, owner)) or isinstance(f, types.FunctionType):  # fmt: skip
        return _UNKNOWN
    if isinstance(owner, torch.Tensor) and f.__name__ in TENSOR_METHODS:
        f, args = TENSOR_METHODS[f.__name__], (owner, *args)
    f = form_of(f) or f
    given = {**dict(enumerate(args)), **kwargs}
    for at in [at for at, x in given.items() if _is_integer(x)]:
        tried = {**given, at: as_symbolic(given[at]).item()}
        try:
            return f(*[tried.pop(i) for i in range(len(args))], **tried)
        except (GraphBoolError, TypeError, RuntimeError):
            pass
    return _UNKNOWN


def _with_each_item(error: Exception, f: Any, owner: Any, args: tuple, kwargs: dict[str, Any]) -> Any:  # fmt: skip
    """What a function gives that cannot take items of several kinds in a list (``statistics.mean([x, 1])``), with each of them; _UNKNOWN where there are none."""
    if not is_tracing() or not any(map(union.holds_unions, (*args, *kwargs.values()))):
        return _UNKNOWN
    return union.apply_to_items(lambda *a, **k: leave_alone(f, a, k), *args, **kwargs)


def _is_integer(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and not (x.dim() or x.is_floating_point() or x.is_complex())


_UNKNOWN = object()


def _instead(error: Exception, f: Any, owner: Any, args: tuple, kwargs: dict[str, Any]) -> Exception | None:  # fmt: skip
    """The error that says what code which is not converted cannot do with staged values; None where its own says it."""
    name = getattr(f, "__name__", type(f).__name__)
    if isinstance(error, GraphBoolError):
        return _plain_number(f, owner, args, kwargs) if type(error) is GraphBoolError else None
    texts = [x for x in (*args, *kwargs.values()) if isinstance(x, StagedString)]
    shown = None if getattr(f, MARK, False) else shows_staged(error, name, texts)
    if isinstance(error, TypeError) and shown is None:
        staged = is_tracing() and _AS_JSON.fullmatch(str(error))
        return StagingError(_NO_JSON.format(name), user_location()) if staged else None
    if shown is not None:
        return shown
    return no_array(name) if str(error).startswith(NO_ADDRESS) else None


def shows_staged(error: Exception, name: str, taken: Iterable[Any] | None = None) -> StagingError | None:  # fmt: skip
    """The error in the place of one that staged values are the reason of: its text shows one, or it is the TypeError of code that has ``taken`` one.

    Code that is not converted took that for an object of no use to it. It is no behaviour of the program, which an ``except`` of it may
    handle: with the number or text itself, the call may succeed.
    """
    if not is_tracing() or type(error) not in (TypeError, ValueError):
        return None
    given = type(error) is TypeError and any(isinstance(x, (StagedString, *SYMBOLS)) for x in taken or ())  # fmt: skip
    if not given and STAGED_TEXT not in str(error):
        return None
    root = current_graph().root
    if (
        root.draws and not root.drawn
    ):  # the trace begins again, with numbers of numpy that are drawn while tracing
        return None
    return StagingError(
        f"{name}() takes a value that Python knows, and was given one that is known only when the graph runs ({error}): call it outside of the "
        "function, or use tg.py_function",
        user_location(),
    )


STAGED_TEXT = ", known when the graph runs>"


def _plain_number(f: Any, owner: Any, args: tuple, kwargs: dict[str, Any]) -> GraphBoolError | None:
    """The error of a function of torch or numpy that asks for a number among its arguments while tracing."""
    named = [*enumerate(args, 1), *((repr(name), x) for name, x in kwargs.items())]
    which = [str(at) for at, x in named if isinstance(x, SYMBOLS) or _is_integer(x)]
    if not which or not _of_arrays(f, owner):
        return None
    name = getattr(f, "__name__", type(f).__name__)
    return GraphBoolError(
        f"{name}() takes argument {' and '.join(which)} as a plain number, and this one is known only when the graph runs: pass a number that "
        "Python knows while tracing, or write what the function does with operations on tensors",
        user_location(),
    )


def _of_arrays(f: Any, owner: Any) -> bool:
    """Whether torch or numpy have a function: their C code reads the memory of a list, where nothing of a list of the graph is."""
    if isinstance(owner, torch.Tensor) or isinstance(f, np.ufunc):
        return True
    module = getattr(f, "__module__", None) or getattr(owner, "__module__", None) or ""
    return str(module).partition(".")[0] in ("torch", "numpy")


def _refuse_growing(f: Any, args: tuple) -> None:
    """StagingError for a list of the graph among arguments or in one of them."""
    parts = [
        p
        for x in args
        if type(x) in (list, tuple) or (type(x) is StagedList and x.handle is None)
        for p in x
    ]
    for x in (*args, *parts):
        if isinstance(x, StagedList):
            x.given_to(getattr(f, "__name__", type(f).__name__))


def _is_stream(x: Any) -> bool:
    """Whether what is written to an object goes out, or to a text in memory from outside of the function."""
    if x is None or not is_tracing():
        return False
    if isinstance(x, io.StringIO) and not current_graph().root.is_standard(x):
        return reads.is_outside(x)
    return isinstance(x, io.TextIOWrapper) or x is sys.stdout or x is sys.stderr


# Functions that look at no content.
_QUIET = frozenset([isinstance, issubclass, id, callable, type, hash, iter, typing.cast])
