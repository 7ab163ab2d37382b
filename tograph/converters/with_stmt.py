"""``with``: what a manager does at its end, also when an op in the body fails as the graph runs.

::

    with cm as v:                   def with_body(entered):
        y = a[i]             ->         v = entered
                                        y = a[i]
                                    ag__.with_stmt(cm, with_body, ('y',))

A manager that ``contextlib.contextmanager`` made of a user's generator runs that generator with the body in the place of its ``yield``.
For an object of a user's class, a body that can fail when the graph runs is a ``Try``: its handler calls ``__exit__`` with
the exception, and goes on where that gives a true value. Managers of torch concern tracing only and stay Python's own.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

from ..errors import StagingError, TographError, refused
from ..runtime import control_flow
from ..runtime.control_flow import StagedException
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import is_tracing, user_location
from ..runtime.symbols.journal import Location
from ..runtime.values import locations
from ..runtime.values.structure import is_union
from ..transpiler.anno import Fact
from ..transpiler.syntax import gast
from . import union
from .call_rules import is_user_function
from .calls import call
from .context import OPERATORS
from .context_managers import context
from .generators import Generator
from .handlers import SIGNALS
from .if_stmt import if_stmt
from .places import places_of
from .staged_class import StagedClass
from .try_stmt import attempted, handling, try_stmt

# Takes the class, the exception and its traceback; a true result ends the exception.
Exit = Callable[..., Any]
# Classes of the standard library whose ``__exit__`` is a function here, and what empties their objects behind a ``with``.
EXITS: dict[type, tuple[Exit, Callable[[Any], None]]] = {}


def rewrite(pass_, node):
    if all(_of_torch(pass_, item.context_expr) for item in node.items):
        return pass_.generic_visit(node)
    names = pass_.state_of(node, Fact.LIVE_OUT)
    body = pass_.block(node.body)
    for item in reversed(node.items):
        entered = pass_.context.namer.fresh("entered")
        if item.optional_vars is not None:
            first = pass_.fill("x_ = entered_", node, x_="x", entered_=entered)
            first[0].targets = [item.optional_vars]
            body = [*first, *body]
        function = pass_.body_function("with_body", body, node, params=(entered,))
        text = f"{OPERATORS}.with_stmt(manager_, body_, names_)"
        holes = {"manager_": pass_.visit(item.context_expr), "body_": function.name}
        body = [function, *pass_.fill(text, node, names_=pass_.names_node(names, node), **holes)]
    return body


def _of_torch(pass_, expression: gast.expr) -> bool:
    """Whether a manager is known to be torch's, and runs as plain Python: ``torch.no_grad()``, not those of torch's optimisers."""
    made = expression.func if isinstance(expression, gast.Call) else expression
    found = pass_.context.resolve(made)
    if isinstance(found, type) and _user(found):
        return False
    return found is not None and str(getattr(found, "__module__", "")).startswith("torch")


# ---- the operator


def with_stmt(manager: Any, body: Callable[[Any], None], names: tuple[str, ...]) -> None:
    kind = type(manager)
    if is_union(manager):
        with control_flow.ambient(places_of(names, body)):
            union.apply(with_stmt, manager, body, names)
        return
    for name, missed in (("__enter__", ""), ("__exit__", " (missed __exit__ method)")):
        if not hasattr(kind, name):
            raise TypeError(_NO_MANAGER.format(kind.__name__) + missed)
    if not is_tracing() or (kind.__module__.startswith("torch") and not _user(kind)):
        with context(manager) as entered:
            body(entered)
    elif isinstance(manager, contextlib.suppress):
        kinds = _flat(vars(manager)["_exceptions"])
        try_stmt(lambda: body(None), ((lambda: kinds, _nothing),), None, None, names, places_of(names, body))  # fmt: skip
    elif (generator := _generator_of(manager)) is not None:
        _through_generator(generator, body, places_of(names, body))
    elif kind in EXITS:
        try:
            _with_exit(manager, body, names)
        finally:
            EXITS[kind][1](manager)
    elif _user(kind):
        _with_exit(manager, body, names)
    elif kind is contextlib.nullcontext or type(kind.__exit__) is not types.FunctionType:
        with manager as entered:  # of C code, such as a lock: it ends no exception
            body(entered)
    else:
        with context(manager) as entered:
            body(entered)


def _flat(kinds: Any) -> tuple[Any, ...]:
    """The classes of a ``suppress``, which takes tuples in tuples, as ``issubclass`` does and no ``except``."""
    return sum(map(_flat, kinds), ()) if isinstance(kinds, tuple) else (kinds,)


_NO_MANAGER = "{0!r} object does not support the context manager protocol"


def _nothing(error: Any) -> None:
    return None


def _generator_of(manager: Any) -> Generator | None:
    """The generator that a manager of ``contextlib.contextmanager`` runs, where it may be run the other way round."""
    found = getattr(manager, "generator__", None) or getattr(manager, "gen", None)
    return found if isinstance(found, Generator) and found.fresh else None


def _user(kind: type) -> bool:
    return any(is_user_function(getattr(kind, n, None)) for n in ("__enter__", "__exit__"))


def _through_generator(generator: Generator, body: Any, places: list[Location]) -> None:
    """Run a generator function with ``body`` in the place of its ``yield``."""
    place = locations.cell(types.CellType(False), "yielded")

    def again() -> None:
        raise RuntimeError("generator didn't stop")

    def never() -> None:
        raise RuntimeError("generator didn't yield")

    def channel(value: Any) -> bool:
        if_stmt(place.get(), again, None, ())
        place.set(True)
        body(value)
        return False

    with control_flow.ambient([place, *places]):
        generator.run(channel)
    if_stmt(place.get(), _done, never, ())


def _done() -> None:
    return None


def _with_exit(manager: Any, body: Any, names: tuple[str, ...]) -> None:
    entered, leave = enter(manager), exit_of(manager)
    places = places_of(names, body)
    attempt, failing, ended = attempted(lambda: body(entered), places)
    if ended and not failing:
        attempt.commit()
        leave(None, None, None)
        return
    if not failing and attempt.keep_failed():
        with _Python(leave):
            attempt.fail()
        return
    attempt.undo()
    if not failing:
        with _Python(leave):
            body(entered)
        return
    place = locations.cell(types.CellType(False), "ended")

    def failed(handle: Any) -> None:
        error = control_flow.caught(handle)

        def go_on() -> None:
            raise error

        with handling(error):
            if_stmt(leave(StagedClass(error), error, StagedTraceback()), _done, go_on, ())
        place.set(True)

    control_flow.staged_try(
        lambda: body(entered), [((BaseException, TographError), failed)], [*places, place]
    )
    if_stmt(place.get(), _done, lambda: leave(None, None, None), ())


class _Python:
    """Python's own ``with`` around a body that only fails while tracing, if at all."""

    def __init__(self, leave: Exit):
        self.leave = leave

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: Any) -> Any:
        if error[0] in SIGNALS or refused(error[1]):
            return False
        return self.leave(*error)


class StagedTraceback:
    """The traceback of an exception that happens when the graph runs: there is one, and that is all."""

    def __getattr__(self, name: str) -> Any:
        raise StagingError(
            f"the traceback (its {name}) of an exception that happens when the graph runs is not known here",
            user_location(),
        )


def enter(manager: Any) -> Any:
    """``manager.__enter__()``, converted where it is a user's."""
    found = getattr(type(manager), "__enter__", None)
    if is_user_function(found):
        return call(found, manager)
    if isinstance(manager, contextlib.AbstractContextManager) and hasattr(manager, "gen"):
        journal.begun(manager.gen)
    return manager.__enter__()


def exit_of(manager: Any) -> Exit:
    """``manager.__exit__``, converted where it is a user's."""
    found = getattr(type(manager), "__exit__", None)
    if type(manager) in EXITS:
        leave = EXITS[type(manager)][0]
        return lambda *error: leave(manager, *error)
    if is_user_function(found):
        return lambda *error: call(found, manager, *error)
    return _from_outside(manager)


def _from_outside(manager: Any) -> Exit:
    """``manager.__exit__`` of one that runs as plain Python, so it cannot see what happens when the graph runs."""

    def leave(*error: Any) -> Any:
        if isinstance(error[1], StagedException):
            name = type(manager).__name__.lstrip("_")
            raise StagingError(
                f"the body of this `with` can fail when the graph runs, and {name}.__exit__ cannot see that: it runs while tracing. Use "
                "try/except/finally in its place, or a `with` statement for each manager",
                user_location(),
            )
        return manager.__exit__(*error)

    return leave
