"""``dataclasses.asdict`` and ``astuple``: their recursion through lists, dicts and tuples, written in plain Python and converted.

The library's own code would go over lists of the graph by itself.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from ...runtime.symbols.funcgraph import is_tracing
from .. import union
from ..call_rules import DECIDING
from ..calls import call
from ..registry import handles


def _is_record(x: Any) -> bool:
    return not isinstance(x, type) and dataclasses.is_dataclass(x)


def _fields(x: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(x)]


def _as_dict(x, factory):
    if _is_record(x):
        return factory([(name, _as_dict(getattr(x, name), factory)) for name in _fields(x)])
    return _copied(x, _as_dict, factory)


def _as_tuple(x, factory):
    if _is_record(x):
        return factory([_as_tuple(getattr(x, name), factory) for name in _fields(x)])
    return _copied(x, _as_tuple, factory)


def _copied(x, inner, factory):
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*[inner(v, factory) for v in x])
    if isinstance(x, list):
        made = [inner(v, factory) for v in x]
        return made if type(x) is list else type(x)(made)
    if isinstance(x, tuple):
        return type(x)([inner(v, factory) for v in x])
    if isinstance(x, dict):
        pairs = [(inner(k, factory), inner(v, factory)) for k, v in x.items()]
        if hasattr(type(x), "default_factory"):
            made = type(x)(x.default_factory)
            for k, v in pairs:
                made[k] = v
            return made
        return type(x)(pairs)
    return copy.deepcopy(x)


DECIDING.update((_as_dict, _as_tuple, _copied))


def _register(library: Any, form: Any, plain: Any, name: str) -> None:
    @handles(library)
    @union.each
    def run(x, **factory):
        if not (is_tracing() and _is_record(x) and factory.keys() <= {name}):
            return library(x, **factory)
        return call(form, x, factory.get(name, plain))


_register(dataclasses.asdict, _as_dict, dict, "dict_factory")
_register(dataclasses.astuple, _as_tuple, tuple, "tuple_factory")
