"""Attributes of an exception that happens when the graph runs: a handler knows those that a ``raise`` in the body of its ``try`` gave (``control_flow.tell``)."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.control_flow import StagedException
from ..runtime.graph.ops import OpaqueObject
from ..runtime.graph.types import OBJECT
from ..runtime.library.staged_string import made_string
from ..runtime.symbols.funcgraph import current_graph, user_location
from ..runtime.symbols.journal import MISSING
from ..runtime.symbols.scalars import new_scalar
from .calls import call
from .union import apply


def read(error: StagedException, name: str) -> Any:
    """An attribute of an exception that happens when the graph runs, where a ``raise`` gave one of a user's class."""
    if name == "add_note":
        return lambda note: refuse_change(error, "__notes__")
    if name == "with_traceback":
        return getattr(error, name)
    if name == "args":
        return apply(lambda known: _arguments_of(error, known), error.known_)
    return apply(lambda known: _of_known(error, known, name), error.known_)


def refuse_change(owner: Any, name: str) -> None:
    """StagingError for a change of an exception that happens when the graph runs, which would be lost; its traceback is not shown."""
    if isinstance(owner, StagedException) and name not in ("__traceback__", "__context__"):
        raise StagingError(
            f"{name!r} of an exception that happens when the graph runs cannot be set or changed in its handler: raise a new exception that has it",
            user_location(),
        )


def _of_known(error: StagedException, known: Any, name: str) -> Any:
    if known is None:
        if not error.told_:
            raise error.unknown(f"attribute {name!r}")
        control_flow.refuse(error.unknown(f"attribute {name!r}").message)
    cls, _, fields = known
    if name in fields:
        return _own(fields[name], name)
    return apply(lambda kind: _of_class_of(error, kind, name), cls)


def _own(found: Any, name: str) -> Any:
    if found is control_flow.Outer:
        raise StagingError(
            f"{name!r} of an exception that happens when the graph runs holds a list, dict or set from outside of the function: use that by its own name in the handler",
            user_location(),
        )
    return found


def _of_class_of(error: StagedException, cls: type, name: str) -> Any:
    """What the class of an exception has under a name."""
    found = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), MISSING)
    if isinstance(found, property):
        return call(found.fget, error)
    if isinstance(found, types.FunctionType):
        return types.MethodType(found, error)
    if found is MISSING:
        raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")
    return getattr(cls, name)


def _arguments_of(error: StagedException, known: Any) -> Any:
    """``e.args``: of an exception that no ``raise`` of a user's class gave one text, or the graph raises."""
    if known is not None:
        return _own(known[1], "args")
    graph = current_graph()
    value = control_flow.outside_value(error, graph)
    return (made_string(graph.emit("py.error_text", value, type=OBJECT), graph),)


def has(error: StagedException, name: str) -> Any:
    """``hasattr(e, name)``, which the exception itself tells."""
    graph = current_graph()
    value = control_flow.outside_value(error, graph)
    asked = OpaqueObject(_Has(name), "hasattr")
    return new_scalar("py.apply_opaque", (asked, value), bool, graph)


@dataclass(frozen=True)
class _Has:
    name: str

    def __call__(self, x: Any) -> bool:
        return hasattr(x, self.name)
