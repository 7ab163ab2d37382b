"""Python values as trees: a container or an object of a class that users write for data is a class, an ``aux`` and parts in order.

``parts_of`` takes one apart, ``rebuild`` makes it of the same parts or others. A class that counts as more than its
attributes (a module, an iterator, a context manager) has no parts: its objects are constants of a trace.

Invariant: ``rebuild(type(x), *parts_of(x))`` equals ``x``, and neither runs code of a user's class.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from ..symbols.journal import MISSING


def parts_of(x: Any) -> tuple[Any, list[Any]] | None:
    """(aux, parts) of a container or a simple object, or None when ``x`` is not one."""
    return _taker(type(x))(x)


def has_parts(cls: type) -> bool:
    """Whether objects of a class may be taken apart."""
    return _taker(cls) is not _nothing


@functools.cache  # asked of each object in each value that a construct joins
def _taker(cls: type) -> Callable[[Any], tuple[Any, list[Any]] | None]:
    """How objects of a class are taken apart."""
    if cls in (list, tuple, deque):
        return _row
    if cls in (dict, OrderedDict, defaultdict):
        return _table
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _fixed_row
    if issubclass(cls, torch.Size) or _is_structseq(cls):
        return _fixed_row
    if cls is slice:
        return _slice
    if hasattr(cls, "__tograph_flatten__"):
        return lambda x: x.__tograph_flatten__()
    base = base_container(cls)
    if base is not None:
        return lambda x: _held(x, base)
    return attributes if dataclasses.is_dataclass(cls) or is_plain_class(cls) else _nothing


def _row(x: Any) -> tuple[Any, list[Any]]:
    return (getattr(x, "maxlen", None), list(x))


def _fixed_row(x: Any) -> tuple[Any, list[Any]]:
    return (None, list(x))


def _table(x: Any) -> tuple[Any, list[Any]]:
    return ((tuple(x), getattr(x, "default_factory", None)), list(x.values()))


def _slice(x: Any) -> tuple[Any, list[Any]]:
    return (None, [x.start, x.stop, x.step])


def _nothing(x: Any) -> None:
    return None


def attributes(x: Any) -> tuple[tuple[str, ...], list[Any]]:
    """The names and the values of an object's attributes."""
    held = _attributes(x)
    return tuple(held), list(held.values())


@dataclass(frozen=True)
class Held:
    """What an object of a user's own class of dict or list holds: its ``keys``, or how many items, and its attributes.

    ``names``: of the attributes, each with the number of the item of the same name that is the same object, else None.
    """

    keys: Any
    names: tuple[tuple[str, int | None], ...]


@functools.cache
def base_container(cls: type) -> type | None:
    """The dict or list that a user's class extends, None for other classes."""
    if not issubclass(cls, (dict, list)) or not cls.__flags__ & HEAP or _standard(cls):
        return None
    if cls.__module__.partition(".")[0] in _LIBRARIES or hasattr(cls, "__tograph_flatten__"):
        return None
    return next(c for c in cls.__mro__ if c in (dict, OrderedDict, defaultdict, list))


def blank(cls: type) -> Any:
    """An empty list or dict, or an object of a class before its ``__init__``."""
    base: Any = base_container(cls) or (cls if cls in _FILLED else object)
    return (SimpleNamespace if issubclass(cls, SimpleNamespace) else base).__new__(cls)


_FILLED = (list, dict)
# Made of their parts at once.
_WHOLE = (tuple, list, dict, deque, slice, types.FunctionType, types.MethodType, types.CellType, functools.partial)  # fmt: skip


def has_blank(cls: type) -> bool:
    """Whether ``fill`` completes a blank object of a class that has parts."""
    if cls in _FILLED or base_container(cls) is not None:
        return True
    return not issubclass(cls, _WHOLE) and not hasattr(cls, "__tograph_flatten__")


def fill(made: Any, aux: Any, parts: list[Any]) -> Any:
    """Give a blank object its parts."""
    if type(aux) is Held:
        return _held_by(made, aux, parts)
    if type(made) is list:
        made.extend(parts)
    elif type(made) is dict:
        made.update(_present(aux[0], parts))
    else:
        _set_attributes(made, _present(aux, parts))
    return made


def _held(x: Any, base: Any) -> tuple[Held, list[Any]]:
    """The items as the base keeps them, and the attributes: the class's own methods do not run."""
    own, keys = _attributes(x), None
    if base is defaultdict:
        own = {"default_factory": x.default_factory, **own}
    if base is list:
        items = list(list.__iter__(x))
    else:
        keys, items = tuple(base.keys(x)), list(base.values(x))
    at = {
        k: i
        for i, k in enumerate(keys or ())
        if isinstance(k, str) and own.get(k, MISSING) is items[i]
    }
    alone = [v for n, v in own.items() if n not in at]
    names = tuple((n, at.get(n)) for n in own)
    return Held(len(items) if keys is None else keys, names), [*items, *alone]


def _attributes(x: Any) -> dict[str, Any]:
    held, slots = dict(getattr(x, "__dict__", ())), slots_of(type(x))
    if slots:
        held |= {s: v for s in slots if (v := getattr(x, s, MISSING)) is not MISSING}
    return held


def _held_by(made: Any, aux: Held, parts: list[Any]) -> Any:
    base = base_container(type(made))
    count = aux.keys if base is list else len(aux.keys)
    if base is list:
        list.extend(made, parts[:count])
    else:
        for k, v in _present(aux.keys, parts[:count]):
            base.__setitem__(made, k, v)
    alone = iter(parts[count:])
    own = [next(alone) if i is None else parts[i] for _, i in aux.names]
    _set_attributes(made, _present([name for name, _ in aux.names], own))
    return made


@functools.cache
def slots_of(cls: type) -> tuple[str, ...]:
    """The attributes of a class's objects that are not in a ``__dict__``, by the names they have in the class."""
    found = []
    for c in cls.__mro__:
        names = vars(c).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else tuple(names):
            private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{c.__name__.lstrip('_')}{name}" if private else name)
    return tuple(n for n in dict.fromkeys(found) if n not in ("__dict__", "__weakref__"))


def has_identity(x: Any) -> bool:
    """Whether ``x`` is an object of a user's class that can change: who holds it sees the change."""
    return _can_change(type(x))


@functools.cache
def is_record_class(cls: type) -> bool:
    """Whether objects of a class are their attributes and nothing more, which no container holds in C."""
    if base_container(cls) is not None or issubclass(cls, (tuple, list, dict, deque, slice)):
        return False
    return is_frozen_dataclass(cls) or _can_change(cls)


@functools.cache
def _can_change(cls: type) -> bool:
    if base_container(cls) is not None:
        return True
    if issubclass(cls, (tuple, list, dict, deque, slice)) or hasattr(cls, "__tograph_flatten__"):
        return False
    return not is_value_class(cls) and (dataclasses.is_dataclass(cls) or is_plain_class(cls))


@functools.cache
def is_value_class(cls: type) -> bool:
    """Whether objects of a class cannot change and are rebuilt from their parts: tuples and frozen dataclasses."""
    return issubclass(cls, tuple) or is_frozen_dataclass(cls)


@functools.cache
def is_frozen_dataclass(cls: type) -> bool:
    """Whether a class is a frozen dataclass."""
    parameters = getattr(cls, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen and not issubclass(cls, tuple)


def _is_structseq(cls: type) -> bool:
    """Whether a class is one of torch's return types, such as that of ``torch.topk``."""
    return issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields")


@functools.cache
def is_plain_class(cls: type) -> bool:
    """Whether objects of a class are their attributes and nothing more: a class that users write for data."""
    return _is_attributes(cls) and not any(
        _is_special(c, n) for c in _classes(cls) for n in _SPECIAL
    )


def is_acting_class(cls: type) -> bool:
    """Whether a user's class has objects that are their attributes, and act by being used: context managers, iterators, descriptors."""
    return (
        _is_attributes(cls) and not is_plain_class(cls) and not any(map(_standard, _classes(cls)))
    )


def _is_attributes(cls: type) -> bool:
    library = cls.__module__.partition(".")[0] in _LIBRARIES and cls is not SimpleNamespace
    if (library and not cls.__module__.startswith(_DATA)) or issubclass(
        cls, (type, BaseException, torch.nn.Module)
    ):
        return False
    return all(c.__flags__ & (HEAP | _IN_C) == HEAP and _makes_plainly(c) for c in _classes(cls))


def _makes_plainly(cls: type) -> bool:
    """Whether objects that a class makes by itself are those of ``object.__new__``: a user's ``__new__`` chooses among these, or sets attributes."""
    return "__new__" not in vars(cls) or not (_standard(cls) or issubclass(cls, enum.Enum))


def _classes(cls: type) -> list[type]:
    """The classes whose methods an object has, without those of which every object is one."""
    return [c for c in cls.__mro__ if c not in (object, SimpleNamespace)]


def _is_special(cls: type, name: str) -> bool:
    """Whether a class defines a method that makes its objects more than data: not where it only asks for one (``abc.Callable``)."""
    method = vars(cls).get(name)
    if method is None or getattr(method, "__isabstractmethod__", False):
        return False
    return name in _BOUND or _standard(cls)


def _standard(cls: type) -> bool:
    """Whether a class is of the standard library."""
    root = cls.__module__.partition(".")[0]
    return root in sys.stdlib_module_names and root != "__main__"


_BOUND = (
    "__enter__",
    "__next__",
    "__get__",
    "get_concrete_function",
)  # act by being used, or stand for something else

_SPECIAL = ("__call__", *_BOUND)  # of the standard library: hold what is no value

HEAP = 1 << 9  # of the flags of a class: it was made by a class statement
# Of the flags of a class: it has no objects but those that C makes, or cannot be changed.
_IN_C = 1 << 7 | 1 << 8

_DATA = "torch.distributions."  # plain classes of a library

_LIBRARIES = frozenset(
    ("builtins", "torch", "numpy", "functools", "typing", "types", "enum", "tograph", "threading")
)


def rebuild(cls: Any, aux: Any, parts: list[Any]) -> Any:
    """The container or object of ``cls`` with these parts."""
    if type(aux) is Held:
        return fill(blank(cls), aux, parts)
    if cls is list or cls is tuple:
        return cls(parts)
    if cls is deque:
        return deque(parts, aux)
    if cls in (dict, OrderedDict):
        return cls(_present(aux[0], parts))
    if cls is defaultdict:
        return defaultdict(aux[1], _present(aux[0], parts))
    if issubclass(cls, torch.Size) or _is_structseq(cls):
        return cls(parts)
    if issubclass(cls, tuple):
        return cls._make(parts)
    if cls is slice:
        return slice(*parts)
    if hasattr(cls, "__tograph_flatten__"):
        return cls.__tograph_unflatten__(aux, parts)
    return fill(blank(cls), aux, parts)


def _set_attributes(made: Any, attributes: list[tuple[str, Any]]) -> None:
    held = getattr(made, "__dict__", None)
    in_c = slots_of(type(made))
    for name, value in attributes:
        if (
            held is None
            or name in in_c
            or (name == "default_factory" and isinstance(made, defaultdict))
        ):
            object.__setattr__(made, name, value)
        else:
            held[name] = value


def _present(keys: Any, parts: list[Any]) -> list[tuple[Any, Any]]:
    """The keys that have a part: one that some path did not set is missing there."""
    return [(k, p) for k, p in zip(keys, parts) if p is not MISSING]
