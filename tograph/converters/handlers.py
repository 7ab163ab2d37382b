"""What the handlers of a ``try`` take: the classes that an ``except`` names, and whether a body may fail with one of them."""

from __future__ import annotations

import builtins
import dis
from functools import partial
from typing import Any

from ..errors import ConditionError, TographError, refused
from ..runtime import control_flow
from ..runtime.guarding import reads
from ..runtime.symbols.retrace import Retrace
from .idle_finally import Looked

# What tracing itself raises: nothing of the program sees it.
SIGNALS = (control_flow.Unreachable, Retrace, Looked)


def kinds_of(kind: Any) -> tuple[type, ...]:
    """The classes that an ``except`` names."""
    found = BaseException if kind is None else kind()
    kinds = found if isinstance(found, tuple) else (found,)
    if not all(isinstance(k, type) and issubclass(k, BaseException) for k in kinds):
        raise TypeError("catching classes that do not inherit from BaseException is not allowed")
    return kinds


def settled(handlers) -> tuple:
    """The handlers with the classes that they name, which are known for all that may fail at once.

    Python asks one after the other, when something has failed: where an ``except`` names what is no class, or not there, that is the
    error of all that comes so far.
    """
    found: list[tuple[Any, Any]] = []
    for kind, handler in handlers:
        try:
            kinds = kinds_of(kind)
        except SIGNALS:
            raise
        except Exception as error:
            return (*found, (None, _raises(error)))
        found.append((partial(_same, kinds), handler))
    return tuple(found)


def _same(x: Any) -> Any:
    return x


def _raises(error: Exception) -> Any:
    def handler(caught: Any) -> None:
        raise error

    return handler


def looks(handler: tuple[Any, Any]) -> bool:
    """Whether a handler may ask for attributes of an exception of a user's class."""
    kind, run = handler
    code = run.__code__
    names = {i.argval for i in dis.get_instructions(code) if i.opname.startswith("LOAD")}
    asks = code.co_varnames[:1] and code.co_varnames[0] in names
    return bool(asks) and ("attr" in names or any(map(control_flow.is_users, kinds_of(kind))))


def taken_by(kind: Any, error: BaseException) -> BaseException | None:
    """The exception that an ``except`` takes, None where it does not take this one.

    What tograph refuses is no error of the program: only its own name catches it. A condition that is neither true nor false is torch's error.
    """
    wanted = kinds_of(kind)
    own = not isinstance(error, TographError) or _names_own(wanted)
    if not own and isinstance(error, ConditionError):
        error, own = RuntimeError(error.plain), True
    if not isinstance(error, wanted):
        return None
    if control_flow.is_leaf_error(error):
        reads.leaf_written()
    return error if own or not refused(error) else None


def _names_own(wanted: tuple[type, ...]) -> bool:
    return any(issubclass(k, TographError) for k in wanted)


# What ops do not raise when the graph runs: only a ``raise`` that was recorded, or code of the user's.
_PYTHONS_OWN = (TypeError, AttributeError, ImportError, NameError, KeyError, StopIteration, BaseExceptionGroup)  # fmt: skip


_OF_SIZES = (RuntimeError, IndexError)  # what they raise where sizes do not fit


def _may_be(raised, kinds) -> bool:
    return any(issubclass(r, k) or issubclass(k, r) for r in raised for k in kinds)


def never_caught(nodes, handlers) -> bool:
    """Whether nothing in a body fails, when the graph runs, with what the handlers are for."""
    kinds = tuple(t for kind, _ in handlers for t in kinds_of(kind))
    own = all(issubclass(t, _PYTHONS_OWN) for t in kinds)
    return bool(kinds) and not any(_may_raise(n, kinds, own) for n in nodes)


def _may_raise(node, kinds, own) -> bool:
    """``own``: whether all the kinds are what ops do not raise."""
    if node.regions:
        return any(_may_raise(n, kinds, own) for r in node.regions.values() for n in r.nodes)
    if not own:
        return control_flow.may_fail([node]) and not (
            control_flow.by_sizes(node) and not _may_be(_OF_SIZES, kinds)
        )
    if node.op == "tg.raise":
        raised = getattr(builtins, str(node.args[0]), None)
        return not isinstance(raised, type) or issubclass(raised, kinds)
    if node.op == "tg.print":
        return node.unsure
    return node.op.startswith("tg.py_") or not node.op.startswith(("aten.", "py.", "tg."))
