"""``while``: a staged test becomes a ``While``; any other runs as Python, until the test becomes staged.

::

    while i < n:                    def while_test():
        i += 1               ->         return i < n
                                    def while_body():
                                        nonlocal i
                                        i += 1
                                    ag__.while_stmt(while_test, while_body, ('i',))

A Python test whose value becomes staged after an iteration (``while True:`` left by a staged ``break``): that iteration is
undone and the loop is staged from before it; iterations before it stay unrolled. So it is with a loop of a literal true test that only
an exception leaves (``while True`` without ``break`` and ``return``), where one of the run may do so: such a loop has no end while tracing.
Where it cannot be staged it is unrolled, and ends by an exception of Python (``next(it)``).
"""

from __future__ import annotations

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.library import debug
from ..runtime.symbols import decisions
from ..runtime.symbols.funcgraph import is_tracing
from ..transpiler.anno import Fact
from ..transpiler.syntax import gast
from . import directives
from .context import OPERATORS
from .logical import tested
from .long_loops import LongLoop
from .places import places_of
from .staging import is_staged
from .union import truth


def rewrite(pass_, node):
    names = pass_.state_of(node, Fact.LIVE_OUT, Fact.LIVE_IN_HEAD)
    options = directives.take(pass_, node)
    tested(node.test)
    ret = gast.copy_location(gast.Return(pass_.visit(node.test)), node.test)
    test = pass_.body_function("while_test", [ret], node)
    body = pass_.body_function("while_body", pass_.block(node.body), node)
    holes = {"test_": test.name, "body_": body.name, "names_": pass_.names_node(names, node)}
    endless = isinstance(node.test, gast.Constant) and bool(node.test.value)
    arguments = ["test_", "body_", "names_", *["options_"] * (options is not None)]
    text = f"{OPERATORS}.while_stmt({', '.join(arguments + ['endless=True'] * endless)})"
    if options is not None:
        holes["options_"] = options
    out = [test, body, *pass_.fill(text, node, **holes)]
    return out + (pass_.block(node.orelse) if node.orelse else [])


def while_stmt(test, body, names, options=None, endless=False) -> None:
    """Run the loop, or stage it; ``names`` are the variables that a next iteration or what follows reads.

    ``endless``: whether only an exception leaves the loop.
    """
    unrolled = debug.Unrolling()
    ask, test = test, lambda: truth(ask(), "while")
    value = test()
    if not is_tracing():
        while value:
            unrolled.step()
            body()
            value = test()
        return

    def places():
        return places_of(names, ask, body)

    def stage(first, done):
        state = places()
        before = f" after {done} unrolled iteration{'' if done == 1 else 's'}" if done else ""
        decisions.staged(f"While{before}", first, state)
        limits = directives.loop_options(options, state)
        control_flow.staged_while(test, body, state, limits, first=first)

    if not is_staged(value):
        value = _as_python(value, test, body, places, stage, options, endless, unrolled)
    if value is not None:
        stage(value, unrolled.count)


def _as_python(value, test, body, places, stage, options, endless, unrolled):
    """The iterations before which the test is known; what it is before the first of those to be staged, None where none is left."""
    long = LongLoop(None, body.__code__, places, lambda done: stage(True, done))
    try:
        while value:
            unrolled.step()
            attempt = control_flow.Attempt(places())
            after = attempt.run(lambda: (body(), test())[1])
            if is_staged(after):
                if not attempt.lasts():
                    attempt.undo()
                    return value
                attempt.commit()
                return after
            if endless and attempt.may_fail():
                endless = False
                attempt.undo()
                if _until_it_fails(test, body, places(), options):
                    return None
                body()
            else:
                attempt.commit()
            value = after
            if value:
                unrolled.count = long.ended()
            if long.over:
                return None
    finally:
        long.close()
    decisions.python(
        "Python `while`, unrolled {0} times: the condition is known while tracing", unrolled.count
    )
    return None


def _until_it_fails(test, body, places, options) -> bool:
    """Stage a loop that an exception of the run leaves; whether that can be done."""
    attempt = control_flow.Attempt(places)
    try:
        control_flow.staged_while(test, body, places, directives.loop_options(options, places), first=True)  # fmt: skip
    except StagingError:
        attempt.undo()
        return False
    attempt.commit()
    return True
