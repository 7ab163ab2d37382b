"""Classes in a saved file, by name.

A class of the table is itself. A dataclass or namedtuple of the user is found among the modules that are loaded already,
never imported; where it is not there, or has other fields, a stand-in with the same name and fields takes its place.
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import functools
import keyword
import sys
from typing import Any

import torch

from ... import errors
from ...errors import CorruptFileError, UnsavableError
from ..library.staged_string import StagedString
from ..recording.variables import Variable
from ..traces.made_tensors import Computed, MadeLeaf, WithLeaves
from ..values.deques import StagedDeque, bounded
from ..values.growing import StagedList
from ..values.specs import TensorSpec
from ..values.staged_tuples import StagedTuple
from ..values.tables import (
    StagedDict,
    StagedItems,
    StagedKeys,
    StagedSet,
    StagedValues,
    kind_of,
)

_PLAIN = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice, object, type(None))  # fmt: skip
_KNOWN: dict[str, type] = {c.__name__: c for c in _PLAIN}
_KNOWN |= {
    n: c
    for n, c in vars(builtins).items()
    if isinstance(c, type) and issubclass(c, BaseException) and c.__name__ == n
}
_KNOWN |= {f"collections.{c.__name__}": c for c in (collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter)}  # fmt: skip
_KNOWN |= {f"torch.{c.__name__}": c for c in (torch.Tensor, torch.Size, torch.dtype, torch.device)}
_KNOWN |= {"torch.nn.Parameter": torch.nn.Parameter, "tograph.Variable": Variable, "tograph.TensorSpec": TensorSpec}  # fmt: skip
_KNOWN |= {
    "tograph.StagedList": StagedList,
    "tograph.StagedTuple": StagedTuple,
    "tograph.StagedString": StagedString,
    "tograph.StagedSet": StagedSet,
    "tograph.StagedKeys": StagedKeys,
    "tograph.StagedValues": StagedValues,
    "tograph.StagedItems": StagedItems,
    "tograph.MadeLeaf": MadeLeaf,
    "tograph.Computed": Computed,
    "tograph.WithLeaves": WithLeaves,
}
_KNOWN |= {
    f"tograph.errors.{n}": c
    for n, c in vars(errors).items()
    if isinstance(c, type) and issubclass(c, BaseException)
}
# What ops with several results give (``x.sort()``), by the name of the op.
_KNOWN |= {
    f"torch.return_types.{n}": c
    for n, c in vars(torch.return_types).items()
    if isinstance(c, type) and issubclass(c, tuple)
}
_NAMES = {c: n for n, c in _KNOWN.items()}


def name_of_class(cls: type) -> Any:
    """The JSON of a class; UnsavableError for a class that only the user's code can make."""
    if cls in _NAMES:
        return _NAMES[cls]
    if issubclass(cls, StagedDeque):
        return ["deque", cls.maxlen]
    if issubclass(cls, StagedDict):
        factory = None if cls.default_factory is None else name_of_class(cls.default_factory)
        return ["table", name_of_class(cls.python), factory]
    fields = _fields(cls)
    if fields is None:
        raise UnsavableError(
            f"the class {cls.__qualname__} of {cls.__module__} cannot be saved: a saved file holds built-in classes, dataclasses "
            "and namedtuples"
        )
    kind = "namedtuple" if issubclass(cls, tuple) else "dataclass"
    return [kind, cls.__module__, cls.__qualname__, *fields]


def _fields(cls: Any) -> list[str] | None:
    if isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return list(cls._fields)
    return [f.name for f in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else None


def class_of(name: Any) -> type:
    """The class of a name that ``name_of_class`` gave; CorruptFileError for any other."""
    if isinstance(name, str):
        if name not in _KNOWN:
            raise CorruptFileError(f"an unknown class: {name!r}")
        return _KNOWN[name]
    if name[0] == "deque":
        return bounded(name[1])
    if name[0] == "table":
        return kind_of(class_of(name[1]), None if name[2] is None else class_of(name[2]))
    kind, module, qualname, *fields = name
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = None if found is None else vars(found).get(part)
    same = isinstance(found, type) and _fields(found) == fields
    if same and issubclass(found, tuple) == (kind == "namedtuple"):
        return found
    return _stand_in(kind, module, qualname, tuple(fields))


@functools.cache
def _stand_in(kind: str, module: str, qualname: str, fields: tuple[str, ...]) -> type:
    name = qualname.rpartition(".")[2]
    words = [name, *fields]
    if not all(isinstance(w, str) and w.isidentifier() and not keyword.iskeyword(w) for w in words):
        raise CorruptFileError(f"not the name and fields of a class: {words}")
    if kind == "namedtuple":
        made: type = collections.namedtuple(name, fields)
    elif kind == "dataclass":
        made = dataclasses.make_dataclass(name, fields)
    else:
        raise CorruptFileError(f"an unknown kind of class: {kind!r}")
    made.__module__, made.__qualname__ = module, qualname
    return made
