"""What raises: an exception that leaves a region becomes a ``tg.raise`` at its end.

When every path raises, what follows cannot be reached: ``Unreachable`` unwinds tracing to the next region.
"""

from __future__ import annotations

import builtins
import copy
import dis
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import (
    OF_THE_PROGRAM,
    Explained,
    Location,
    StagingError,
)
from ..diagnosis import explained
from ..graph import types
from ..graph.ir import Node
from ..graph.ops import OpaqueObject, bare_exception, plain
from ..graph.ordering import node_effects, op_effects
from ..guarding import reads
from ..inference.shapes import SYMBOLS
from ..symbols import journal, symbolic
from ..symbols.funcgraph import USER_CODE, FuncGraph, current_graph, user_location
from ..symbols.journal import MISSING
from ..values import pytrees, structure
from ..values.keyed_parts import keyed
from ..values.structure import (
    Handle,
)
from ..writes.mutation import LEAF_WRITTEN


class Unreachable(BaseException):
    """Unwinds tracing from a point that no execution reaches."""


class StagedException(Exception):
    """What a handler gets for an exception that happens when the graph runs;

    ``known_``: what a ``raise`` of a user's class told of it (``tell``); ``told_``: whether one would have.
    """

    def __init__(self, handle: Handle, known: Any = None, told: bool = False):
        super().__init__()
        self.handle_, self.known_, self.told_ = handle, known, told

    def __tograph_flatten__(self):
        return None, [self.handle_, self.known_, self.told_]

    @staticmethod
    def __tograph_unflatten__(aux, parts):
        return StagedException(*parts) if isinstance(parts[0], Handle) else parts[0]

    def __str__(self):
        raise self.unknown("text")

    def __getattribute__(self, name):
        if name == "args" or not (
            name.startswith("_")
            or name in ("handle_", "known_", "told_", "unknown", "with_traceback", "add_note")
        ):
            raise object.__getattribute__(self, "unknown")(f"attribute {name!r}")
        return super().__getattribute__(name)

    def unknown(self, what: str) -> StagingError:
        """The error for what only the run knows of it."""
        return StagingError(
            f"the {what} of an exception that happens when the graph runs is not known here; str(e), f-strings, print(e), "
            "isinstance(e, T) and raise work",
            user_location(),
        )


def may_stage(error: Exception) -> bool:
    return not isinstance(error, (RecursionError, MemoryError)) or _raised_by_user(error)


def ends(error: BaseException) -> bool:
    """Whether an exception that is no ``Exception`` is one of the program: ``sys.exit()``, or what a ``raise`` of the user gave."""
    return isinstance(error, SystemExit) or _raised_by_user(error)


def _raised_by_user(error: BaseException) -> bool:
    """Whether a ``raise`` in converted code gave an exception, and not Python, a signal or tracing itself."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code not in USER_CODE:
        return False
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE


_RAISE = dis.opmap["RAISE_VARARGS"]


def is_leaf_error(error: BaseException) -> bool:
    """Whether it is torch's for a write in place to a leaf that requires a gradient, or to a view of one."""
    return isinstance(error, RuntimeError) and LEAF_WRITTEN in f"{error}"


def emit_raise(error: BaseException) -> None:
    """Record that ``error`` is raised here."""
    graph = current_graph()
    tell(error)
    if isinstance(error, StagedException):
        graph.add("tg.reraise", (graph.resolve(error.handle_.ref),), _new_cause(error, graph))
        return
    if is_leaf_error(error):
        reads.leaf_written()
    location = raised_at(error)
    note = explained(error)
    error.__traceback__ = None
    fields = {**_cause(error, graph), **_fields(error, graph)}
    node = graph.add("tg.raise", exception_arguments(error, graph), fields)
    if location or node.location:
        node.location = Explained(location or node.location)
        node.location.note = note


def tell(error: BaseException | None) -> None:
    """Let the handlers around know what is raised: its class, its arguments and attributes, for an exception of a user's class."""
    for place in current_graph().root.raised:
        known = getattr(error, "known_", None) if isinstance(error, StagedException) else None
        if error is not None and not isinstance(error, StagedException) and is_users(type(error)):
            args = Outer if any(map(_is_outer, error.args)) else error.args
            fields = {k: Outer if _is_outer(v) else v for k, v in vars(error).items()}
            known = (type(error), args, fields)
        journal.record(place)
        place.set(known)


class Outer:
    """Stands for a list, dict or set from outside that an exception holds: a handler would see a copy."""


def _is_outer(x: Any) -> bool:
    return isinstance(x, (list, dict, set)) and structure.OUTSIDE[0](x)


def caught(handle: Handle) -> StagedException:
    """The exception that a ``with`` or ``finally`` sees, with what a handler around knows of it; that is not raised any more."""
    raised = current_graph().root.raised
    error = StagedException(handle, raised[-1].get() if raised else None, told=bool(raised))
    tell(None)
    return error


def is_users(kind: Any) -> bool:
    """Whether a class of exceptions is neither Python's nor of tograph."""
    return (
        isinstance(kind, type)
        and kind.__module__ != "builtins"
        and not issubclass(kind, OF_THE_PROGRAM)
    )


def fail_assertion(values: dict[str, Any]) -> None:
    """Record a failed assertion that shows what the names in its test hold."""
    graph = current_graph()
    found = tuple((name, outside_value(x, graph)) for name, x in values.items())
    graph.add("tg.raise", ("AssertionError", (), *([found] if found else [])))
    raise Unreachable


def refuse(message: str) -> None:
    """Record that a call which gets here is refused, by a StagingError that no handler of the program takes."""
    current_graph().add("tg.raise", ("tg.StagingError", (message,)))
    raise Unreachable


def raised_at(error: BaseException) -> Location | None:
    """The user's line that an exception comes from: the innermost frame of converted code."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in USER_CODE:
            found = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return found


def exception_arguments(error: BaseException, graph: FuncGraph) -> tuple[Any, tuple]:
    """(kind, arguments) of an exception for ``tg.raise`` and ``tg.assert``."""
    kind = type(error)
    if isinstance(error, OF_THE_PROGRAM) and kind in OF_THE_PROGRAM:
        return f"tg.{kind.__name__}", (error.message,)
    args = tuple(outside_value(a, graph) for a in error.args)
    simple = (
        getattr(builtins, kind.__name__, None) is kind
        and not vars(error)
        and (error.__cause__ is None or isinstance(error.__cause__, StagedException))
    )
    return (kind.__name__ if simple else OpaqueObject(_template(error), f"exception {kind.__name__}")), args  # fmt: skip


def _template(error: BaseException) -> BaseException:
    """An exception as far as it is known now."""
    known = {name: x for name, x in vars(error).items() if not _is_staged(x, set())}
    if len(known) == len(vars(error)):
        return error
    made = bare_exception(type(error), error.args)
    made.__dict__.update(known)
    made.__cause__, made.__suppress_context__ = error.__cause__, error.__suppress_context__
    return made


def _new_cause(error: StagedException, graph: FuncGraph) -> dict[str, Any]:
    """What follows ``from`` where an exception that happens when the graph runs is raised."""
    if error.__cause__ is None and not error.__suppress_context__:
        return {}
    return {"cause": outside_value(error.__cause__, graph)}


def _cause(error: BaseException, graph: FuncGraph) -> dict[str, Any]:
    """``raise error from``: an exception that happens, or holds what is known, when the graph runs, or None."""
    cause = error.__cause__
    if isinstance(cause, StagedException):
        return {"cause": graph.resolve(cause.handle_.ref)}
    if cause is not None and any(_is_staged(x, set()) for x in shown_by(cause)[1]):
        return {"cause": outside_value(cause, graph)}
    return {"cause": None} if error.__suppress_context__ and error.__cause__ is None else {}


def _fields(error: BaseException, graph: FuncGraph) -> dict[str, Any]:
    """The attributes of an exception that only the run knows, as a dict."""
    found = {name: x for name, x in vars(error).items() if _is_staged(x, set())}
    if not found:
        return {}
    parts = [outside_value(x, graph) for x in found.values()]
    made = graph.emit("py.apply_opaque", OpaqueObject(_Fields(tuple(found)), "make dict"), *parts, type=types.OBJECT)  # fmt: skip
    return {"fields": made}


def _is_staged(x: Any, seen: set[int]) -> bool:
    """Whether a value, or a part of it, is known only when the graph runs."""
    if isinstance(x, (symbolic.SymTensor, *SYMBOLS, Handle)) or structure.is_union(x):
        return True
    if isinstance(getattr(x, "handle_", None), Handle):
        return True
    found = (keyed(x) or pytrees.parts_of(x)) if id(x) not in seen else None
    seen.add(id(x))
    return found is not None and any(_is_staged(part, seen) for part in found[1])


def outside_value(x: Any, graph: FuncGraph, seen: frozenset[int] = frozenset()) -> Any:
    """An argument of an effect: a value, a plain constant, or an opaque Python object; a container with what it holds now."""
    if isinstance(x, torch.Tensor):
        return symbolic.value_of(x, graph)
    if isinstance(x, SYMBOLS):
        return x.node.value(graph)
    if isinstance(x, Handle):
        return graph.resolve(x.ref)
    if structure.is_union(x):
        options = [outside_value(option, graph) for option in x.options_]
        return graph.emit("tg.choose", x.tag_.node.value(graph), options, type=types.OBJECT)
    handle = getattr(x, "handle_", None)
    if isinstance(handle, Handle):
        return graph.resolve(handle.ref)
    if x is None or type(x) in (bool, int, float, str, complex):
        return x
    by_key = keyed(x) if id(x) not in seen else None
    if by_key is not None:
        parts = [outside_value(p, graph, seen | {id(x)}) for p in by_key[1]]
        maker = OpaqueObject(_Keyed(by_key[0]), f"make {type(x).__name__}")
        return graph.emit("py.apply_opaque", maker, *parts, type=types.OBJECT)
    found = shown_by(x) if isinstance(x, BaseException) else pytrees.parts_of(x)
    if found is not None and found[1] and id(x) not in seen:
        seen |= {id(x)}
        parts = [outside_value(p, graph, seen) for p in found[1]]
        maker = OpaqueObject(Rebuild(type(x), found[0]), f"make {type(x).__name__}")
        return graph.emit("py.apply_opaque", maker, *parts, type=types.OBJECT)
    return OpaqueObject(copy.copy(x) if issubclass(type(x), _CHANGING) else x, type(x).__name__)


_CHANGING = (list, dict, set, deque, bytearray)


def shown_by(error: BaseException) -> tuple[tuple[str, ...], list[Any]]:
    """The names of an exception's attributes, and its arguments before what these hold."""
    return tuple(vars(error)), [*error.args, *vars(error).values()]


@dataclass
class _Keyed:
    make: Any

    def __call__(self, *parts):
        return self.make([plain(p) for p in parts])


@dataclass
class _Fields:
    """Attributes by name, without those that the run has not set."""

    names: tuple[str, ...]

    def __call__(self, *parts):
        found = zip(self.names, map(plain, parts))
        return {name: part for name, part in found if part is not MISSING}


@dataclass
class Rebuild:
    cls: type
    aux: Any

    def __call__(self, *parts):
        if issubclass(self.cls, BaseException):
            count = len(parts) - len(self.aux)
            made = bare_exception(self.cls, tuple(map(plain, parts[:count])))
            made.__dict__.update(_Fields(self.aux)(*parts[count:]))
            return made
        return pytrees.rebuild(self.cls, self.aux, [plain(p) for p in parts])


def by_sizes(node: Node) -> bool:
    """Whether all by which a node may fail are sizes that only the run knows."""
    return node.unsure and node.op != "tg.print" and not op_effects(node.op, node.args).may_fail


def may_fail(nodes: Sequence[Node]) -> bool:
    """Whether one of the nodes can raise when the graph runs."""
    return any(node_effects(n).may_fail for n in nodes)
