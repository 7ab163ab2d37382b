"""Objects of C that hold something which cannot be state: numpy arrays, buffers, files in memory, random generators, locks, ...

What one holds is looked at before and after code that is not converted runs in a staged branch or loop: as ``_STATES`` says, else by what
pickle would keep of it. An object that shows neither is ``blind`` and refused there, unless nothing can be changed in it.
"""

from __future__ import annotations

import array
import contextvars
import ctypes
import datetime
import decimal
import functools
import inspect
import io
import os
import pickle
import random
import re
import struct
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...errors import LastingChangeError
from ..symbols.funcgraph import user_location
from ..symbols.journal import MISSING, Location

_Contents = tuple[Callable[[Any], Any], Callable[[Any, Any], None]]


def _text_of(x: Any) -> tuple[Any, int] | None:
    return None if x.closed else (x.getvalue(), x.tell())


def _put_text(x: Any, content: tuple[Any, int] | None) -> None:
    if content is None:
        x.close()
        return
    if x.closed:
        x.__init__()  # opens it again
    x.seek(0)
    x.truncate()
    x.write(content[0])
    x.seek(content[1])


def _put_array(x: Any, content: bytes) -> None:
    del x[:]
    x.frombytes(content)


def _numbers(x: np.ndarray) -> Any:
    return x.shape, x.tolist() if x.dtype.hasobject else x.tobytes()


def _put_numbers(x: np.ndarray, content: Any) -> None:
    shape, items = content
    if x.shape != shape:
        x.resize(shape, refcheck=False)
    if x.dtype.hasobject:
        kept = np.empty(shape, object)
        kept[...] = items
        x[...] = kept
    else:
        x[...] = np.frombuffer(items, x.dtype).reshape(shape)


def _put_bytes(x: memoryview, content: bytes) -> None:
    x.cast("B")[:] = content


def _put_raw(x: Any, content: bytes) -> None:
    ctypes.memmove(ctypes.addressof(x), content, len(content))


def _put_environment(x: Any, content: dict) -> None:
    x.clear()
    x.update(content)


def _put_lock(x: Any, held: bool) -> None:
    if held != x.locked():
        x.acquire() if held else x.release()


_STREAM: _Contents = (_text_of, _put_text)


class _Bound:
    """What a context variable gives, whatever is in that: the default, or MISSING, where nothing was set."""

    def __init__(self, x: Any):
        self.x = x

    @classmethod
    def of(cls, variable: contextvars.ContextVar) -> _Bound:
        try:
            return cls(variable.get())
        except LookupError:
            return cls(MISSING)

    def __repr__(self) -> str:
        return f"object {id(self.x)}"


def _bind(variable: contextvars.ContextVar, bound: _Bound) -> None:
    """Where nothing was set before, the default is set: only the token of ``set`` could take that back."""
    found = bound.x
    if found is MISSING:
        try:
            found = contextvars.Context().run(variable.get)
        except LookupError:
            raise refusal(variable, "and had no value before") from None
    variable.set(found)


def reset_variable(variable: contextvars.ContextVar, token: contextvars.Token) -> None:
    """``variable.reset(token)`` as often as a body is traced; Python takes a token once."""
    if token.var is not variable:
        variable.reset(token)  # its error
    old = token.old_value
    _bind(variable, _Bound(MISSING if old is contextvars.Token.MISSING else old))


_STATES: dict[type, _Contents] = {
    contextvars.ContextVar: (_Bound.of, _bind),
    np.ndarray: (_numbers, _put_numbers),
    array.array: (array.array.tobytes, _put_array),
    memoryview: (memoryview.tobytes, _put_bytes),
    io.StringIO: _STREAM,
    io.BytesIO: _STREAM,
    random.Random: (random.Random.getstate, random.Random.setstate),
    type(os.environ): (dict, _put_environment),
    type(threading.Lock()): (lambda x: x.locked(), _put_lock),
}  # fmt: skip
_RAW = (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union)
# Nothing can be changed in these, or what can be is looked at where it is reached.
FIXED = (
    int, float, complex, bool, str, bytes, type(None), tuple, frozenset, range, slice, type, types.ModuleType, types.CodeType,
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()), types.CellType, types.FrameType, types.TracebackType, types.GenericAlias, types.UnionType,
    type(Ellipsis), type(NotImplemented), property, staticmethod, classmethod, super, weakref.ref, weakref.ProxyType,
    BaseException, re.Pattern, re.Match, struct.Struct, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo,
    np.generic, np.dtype, np.ufunc, torch.Tensor, torch.nn.Module, inspect.Signature, contextvars.Token,
)  # fmt: skip
_LIBRARIES = ("torch", "numpy", "functools", "operator", "typing", "tograph", "tqdm")
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: a class made in C


def _states() -> dict[type, _Contents]:
    """``_STATES``, with numpy's generators where the program has loaded them: `import tograph` does not."""
    return _states_with_numpy() if "numpy.random" in sys.modules else _STATES


@functools.cache
def _states_with_numpy() -> dict[type, _Contents]:
    return {
        **_STATES,
        np.random.RandomState: (lambda x: x.get_state(legacy=False), lambda x, s: x.set_state(s)),
        np.random.Generator: (lambda x: x.bit_generator.state, lambda x, s: setattr(x.bit_generator, "state", s)),
    }  # fmt: skip


def _is_global(x: Any) -> bool:
    """Whether an object is one that all of the program shares."""
    shared = "numpy.random" in sys.modules and x is np.random.mtrand._rand
    return shared or x is random._inst or x is os.environ


class Held:
    """The content of an object that cannot be state, compared as text; one object for each text, so that branches agree."""

    known: weakref.WeakValueDictionary[str, Held] = weakref.WeakValueDictionary()
    content: Any
    text: str

    def __new__(cls, content: Any) -> Held:
        text = repr(content)
        found = cls.known.get(text)
        if found is None:
            found = cls.known[text] = super().__new__(cls)
            found.content, found.text = content, text
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def base(kind: type) -> type:
    """The class in C that a class builds on."""
    return next(c for c in kind.__mro__ if c.__flags__ & _IMMUTABLE)


def place(x: Any) -> Location | None:
    """The location of what an object holds that is no container; None where nothing of it can be changed."""
    if isinstance(x, FIXED):
        return None
    kind = base(type(x))
    found = _states().get(type(x)) or _states().get(kind)
    if found is None and isinstance(x, _RAW):
        found = bytes, _put_raw
    if found is not None:
        return _restored(x, *found)
    return _shown(x) if kind is not object and not _is_of_library(kind) and _shows(x) else None


def _restored(x: Any, get: Callable[[Any], Any], put: Callable[[Any, Any], None]) -> Location:
    def set(value: Any) -> None:
        if not isinstance(value, Held):
            raise refusal(x, "and what it holds afterwards depends on a staged condition")
        if value != Held(get(x)):
            put(x, value.content)

    key = "world" if _is_global(x) else "contents"
    return Location((key, id(x)), f"a {type(x).__name__}", lambda: Held(get(x)), set, x)


def _shown(x: Any) -> Location:
    """What an object holds by its own account: a change is seen, and cannot be undone."""
    made = Location(
        ("contents", id(x)),
        f"a {type(x).__name__}",
        lambda: Held(_account(x)),
        lambda value: None,
        x,
    )
    made.refuse = lambda: refusal(x, "which cannot be undone where the branch is not taken")
    return made


def _account(x: Any) -> Any:
    if base(type(x)).__module__ != "itertools":
        return x.__reduce_ex__(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pickling of these ends with Python 3.14
        return x.__reduce_ex__(4)


def _shows(x: Any) -> bool:
    try:
        _account(x)
    except (TypeError, AttributeError, NotImplementedError, pickle.PicklingError):
        return False
    return True


def _is_of_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0].lstrip("_") in _LIBRARIES


def blind(x: Any) -> bool:
    """Whether code may change something in an object that cannot be looked at."""
    if isinstance(x, FIXED) or type(x) in _states() or isinstance(x, _RAW):
        return False
    kind = base(type(x))
    if kind is object or kind in _states() or _is_of_library(kind):
        return False
    iterator = hasattr(kind, "__next__") and not isinstance(x, io.IOBase)
    return not (isinstance(x, (list, dict, set)) or iterator or _shows(x))


def refusal(x: Any, why: str) -> LastingChangeError:
    return LastingChangeError(
        f"a {type(x).__name__} is changed in a staged branch or loop by code that runs while tracing, {why}. Use tensors or lists, change it "
        "outside, or call the code by tg.py_function.",
        user_location(),
    )
