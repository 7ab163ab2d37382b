"""``try``: exceptions that Python code raises while tracing are handled by Python; failures of staged ops by a ``Try``.

::

    try:                            def try_body(): ...
        y = a[i]                    def handler(): ...
    except IndexError:       ->     ag__.try_stmt(try_body, ((lambda: IndexError, handler),), None, None, ('y',))
        y = -1

The body is traced once apart. Where nothing in it can fail at run time, that is all; otherwise it becomes a ``Try`` node with a
graph for the body and one for each handler. ``finally`` runs on every way out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..errors import TographError, refused
from ..runtime import control_flow
from ..runtime.control_flow import StagedException
from ..runtime.recording import creation
from ..runtime.symbols.funcgraph import current_graph, is_tracing
from ..runtime.symbols.retrace import Retrace
from ..runtime.values import locations
from ..runtime.values.structure import Handle, is_union
from ..transpiler.anno import Fact, get_fact
from ..transpiler.syntax import gast, walk
from ..transpiler.templates import constant
from . import union
from .context import OPERATORS
from .handlers import SIGNALS, kinds_of, looks, never_caught, settled, taken_by
from .idle_finally import is_idle
from .places import places_of
from .staging import is_staged


def rewrite(pass_, node):
    functions = [pass_.body_function("try_body", pass_.block(node.body), node)]
    pairs = []
    for handler in node.handlers:
        functions.append(_handler(pass_, handler))
        kind = (
            constant(None)
            if handler.type is None
            else pass_.expression("lambda: kind_", handler, kind_=pass_.visit(handler.type))
        )
        pair = gast.Tuple(
            [kind, gast.Name(functions[-1].name, gast.Load(), None, None)], gast.Load()
        )
        pairs.append(pair)
    rest = []
    for wish, block in (("else_body", node.orelse), ("finally_body", node.finalbody)):
        if block:
            functions.append(pass_.body_function(wish, pass_.block(block), block[0]))
        rest.append(
            gast.Name(functions[-1].name, gast.Load(), None, None) if block else constant(None)
        )
    between = get_fact(node, Fact.BOUND, frozenset()) & _handler_names(node) & _outward(functions)
    names = pass_.state_of(node, Fact.LIVE_OUT) | between
    holes = {"body_": functions[0].name, "handlers_": gast.Tuple(pairs, gast.Load()), "orelse_": rest[0], "final_": rest[1],
             "names_": pass_.names_node(names, node)}  # fmt: skip
    return [
        *functions,
        *pass_.fill(
            f"{OPERATORS}.try_stmt(body_, handlers_, orelse_, final_, names_)", node, **holes
        ),
    ]


def _handler_names(node) -> frozenset[str]:
    """Names that handlers and later blocks read: what the body leaves in them counts."""
    blocks = list(node.handlers) + node.orelse + node.finalbody
    return frozenset(n.id for b in blocks for n in walk(b) if isinstance(n, gast.Name))


def _outward(functions) -> frozenset[str]:
    """The names that the functions of the blocks take from around them; others are a block's own."""
    heads = [d for f in functions for d in f.body if isinstance(d, (gast.Nonlocal, gast.Global))]
    return frozenset(n for d in heads for n in d.names)


def _handler(pass_, handler):
    caught = pass_.context.namer.fresh("caught")
    body = pass_.block(handler.body)
    name = handler.name.id if isinstance(handler.name, gast.Name) else handler.name
    if name:
        body = [*pass_.fill("name_ = caught_", handler, name_=name, caught_=caught), *body]
        body = pass_.fill(
            "try:\n    body_\nfinally:\n    name_ = None\n    del name_",
            handler,
            body_=body,
            name_=name,
        )
    return pass_.body_function(
        "handler", body, handler, params=(caught,), shared=frozenset([name] if name else [])
    )


# ---- the operators


_handled: list[StagedException] = []


def caught() -> BaseException:
    """The exception that a bare ``raise`` raises."""
    active = sys.exc_info()[1]
    if active is None and _handled:
        return _handled[-1]
    if active is None:
        return RuntimeError("No active exception to reraise")
    return active


def is_handling() -> bool:
    """Whether the code stands in a handler of an exception that happens when the graph runs."""
    return bool(_handled)


def raised(error: Any) -> Any:
    """What ``raise error`` raises: where ``error`` is one thing or another, a branch for each raises it."""
    if is_union(error):
        union.distribute(_raise, error)
    return error


def _raise(error: Any) -> None:
    raise error


def try_stmt(body, handlers, orelse, final, names, places=None) -> None:
    """``places``: the variables that the bodies assign, where the bodies do not tell."""
    if places is None:
        places = places_of(names, body, *(h for _, h in handlers), orelse, final)
    if not is_tracing():
        _python_try(body, handlers, orelse, final)
    elif (again := _tried(body, handlers, orelse, final, places)) is not None:
        _handled_by_python(again, handlers, orelse, final, places)


def _handled_by_python(body, handlers, orelse, final, places) -> None:
    """The body raises while it is traced; what handles that may fail when the graph runs, and ``finally`` follows then too."""
    if final is None or not handlers:
        _python_try(body, handlers, orelse, final)
    else:
        _then(lambda: _python_try(body, handlers, orelse, None), final, places)


def _then(body, final, places) -> None:
    """``try: body() finally: final()``."""
    if (again := _tried(body, (), None, final, places)) is not None:
        _python_try(again, (), None, final)


def _python_try(body, handlers, orelse, final) -> None:
    try:
        _without_final(body, handlers, orelse)
    except BaseException as error:  # all that Python's own ``finally`` sees
        if final is not None:
            _finally(final, error)
        raise
    if final is not None:
        final()


def _finally(final: Callable[[], None], error: BaseException) -> None:
    """What ``finally`` raises takes the place of an exception of the program, not of what tograph refuses or wants to trace anew."""
    try:
        final()
    except (Exception, control_flow.Unreachable):  # of the user's program, or its graph raises
        if not (is_tracing() and (refused(error) or isinstance(error, Retrace))):
            raise


def _without_final(body, handlers, orelse) -> None:
    try:
        body()
    except SIGNALS:
        raise
    except BaseException as error:  # the handlers say which
        for kind, handler in handlers:
            caught = taken_by(kind, error)
            if caught is not None:
                with creation.condition():
                    handler(caught)
                break
        else:
            raise
    else:
        if orelse is not None:
            orelse()


def attempted(body, places) -> tuple[control_flow.Attempt, bool, bool]:
    """Trace a body apart: what was done, whether something in it may fail when the graph runs, and whether it came to its end."""
    attempt, ended = control_flow.Attempt(places), False
    graph = current_graph().graph
    before = len(graph.nodes)
    try:
        body()
        ended = True
    except control_flow.Unreachable:
        return attempt, True, False
    except SIGNALS:
        attempt.undo()
        raise
    except BaseException as error:
        # An interrupt may be the user's, at the keyboard: it does not wait for the graph.
        if isinstance(error, KeyboardInterrupt) and control_flow.may_fail(graph.nodes[before:]):
            attempt.undo()
            raise
        attempt.error = error  # what the graph did before it counts here
    return attempt, control_flow.may_fail(graph.nodes[before:]), ended


def _tried(body, handlers, orelse, final, places) -> Callable[[], None] | None:
    """Trace a ``try``; the body again where it is all Python's: tograph refuses something in one that cannot fail when the graph runs.

    The body is traced apart. It stays where nothing in it may fail when the graph runs, or where all that follows a failure is
    a ``finally`` that does nothing then, such as one that turns gradients on again. Else it is traced anew as a region.
    """
    if _staged_again(body, handlers, orelse, final, places):
        return None
    attempt, failing, ended = attempted(body, places)
    if failing:
        handlers = settled(handlers)
    if ended and failing and never_caught(current_graph().graph.nodes[attempt.mark :], handlers):
        handlers = ()
    if ended and failing and not handlers and orelse is None and is_idle(final, attempt, places):
        attempt.commit()
        return None
    if ended and not failing:
        attempt.commit()
        if orelse is not None and final is not None:
            _then(orelse, final, places)
        else:
            _python_try(lambda: None, (), orelse, final)
        return None
    if not failing and attempt.keep_failed():
        _handled_by_python(attempt.fail, handlers, None, final, places)
        return None
    attempt.undo()
    if not failing:
        return partial(_unfailing, body, handlers, attempt.error)
    current_graph().root.tries.add(getattr(body, "__code__", None))
    _staged_try(body, handlers, orelse, final, places)
    return None


def _staged_again(body, handlers, orelse, final, places) -> bool:
    """Stage a ``try`` that was staged before in this trace, without its body traced apart first: one in another would be traced twice as often at each depth.

    False, with nothing done, where it was not, or this is another case: a body that does not fail now, or something that is refused, raised while tracing, or
    asks for another trace. The way with all questions comes to that again, or does not.
    """
    code, graph = getattr(body, "__code__", None), current_graph()
    if code is None or code not in graph.root.tries:
        return False
    attempt = control_flow.Attempt(places)
    nodes = graph.graph.nodes
    try:
        _staged_try(body, handlers, orelse, final, places)
    except control_flow.Unreachable:
        attempt.commit()
        raise
    except BaseException as error:
        attempt.undo()
        graph.root.tries.discard(code)
        if isinstance(error, KeyboardInterrupt):  # it may be the user's
            raise
        return False
    tried = next((n.regions["body"].nodes for n in nodes[attempt.mark :] if n.op == "Try"), [])
    if control_flow.may_fail(tried) and not never_caught(tried, settled(handlers)):
        attempt.commit()
        return True
    attempt.undo()
    graph.root.tries.discard(code)
    return False


def _unfailing(body, handlers, refusal: BaseException) -> None:
    """A body that was refused where what it did might have to be undone. If nothing is refused now, it can go on, and fail when the graph runs: no handler would see that."""
    graph = current_graph().graph
    before = len(graph.nodes)
    body()
    recorded = graph.nodes[before:]
    if control_flow.may_fail(recorded) and not never_caught(recorded, settled(handlers)):
        raise refusal


def _staged_try(body, handlers, orelse, final, places) -> None:
    kinds = [kinds_of(kind) for kind, _ in handlers]

    noted = locations.item([None], "raised", "the exception")

    def staged(run, runners) -> None:
        if not any(map(looks, handlers)):
            control_flow.staged_try(run, runners, places)
            return
        raised = current_graph().root.raised
        raised.append(noted)
        try:
            control_flow.staged_try(run, runners, [*places, noted])
        finally:
            raised.remove(noted)

    def without_final() -> None:
        if not runners:
            body()
            if orelse is not None:
                orelse()
        elif orelse is None:
            staged(body, runners)
        else:
            _with_else(body, runners, orelse, places)

    runners = [(k, _runner(handler, noted)) for k, (_, handler) in zip(kinds, handlers)]
    if final is None:
        without_final()
        return

    def finish(handle: Handle) -> None:
        error = control_flow.caught(handle)
        final()
        raise error

    staged(without_final, [((BaseException, TographError), finish)])
    final()


def _with_else(body, runners, orelse, places) -> None:
    """``else`` runs where the body came to its end; what it raises is not for the handlers."""
    cell = [False]
    ended = locations.item(cell, "ended", "the end of try")

    def whole() -> None:
        body()
        ended.set(True)

    control_flow.staged_try(whole, runners, [*places, ended])
    if is_staged(cell[0]):
        control_flow.staged_if(cell[0], orelse, lambda: None, places)
    elif cell[0]:
        orelse()


def _runner(handler, noted):
    def run(handle: Handle) -> None:
        error = StagedException(handle, noted.get(), told=True)
        control_flow.tell(None)
        with handling(error):
            handler(error)

    return run


@contextmanager
def handling(error: StagedException) -> Iterator[None]:
    """Inside, ``raise`` without an exception raises ``error``."""
    _handled.append(error)
    try:
        yield
    finally:
        _handled.pop()
