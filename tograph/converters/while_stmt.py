"""``while``: a staged test becomes a ``While``; any other runs as Python, until the test becomes staged.

::

    while i < n:                    def while_test():
        i += 1               ->         return i < n
                                    def while_body():
                                        nonlocal i
                                        i += 1
                                    ag__.while_stmt(while_test, while_body, ('i',))

A Python test whose value becomes staged after an iteration (``while True:`` left by a staged ``break``): that iteration is
undone and the loop is staged from before it; iterations before it stay unrolled.
"""

from __future__ import annotations

from ..runtime import control_flow
from ..runtime.library import debug
from ..runtime.symbols import decisions
from ..runtime.symbols.funcgraph import is_tracing
from ..transpiler.anno import Fact
from ..transpiler.syntax import gast
from . import directives
from .context import OPERATORS
from .logical import tested
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
    text = f"{OPERATORS}.while_stmt(test_, body_, names_)"
    if options is not None:
        text, holes["options_"] = f"{OPERATORS}.while_stmt(test_, body_, names_, options_)", options
    out = [test, body, *pass_.fill(text, node, **holes)]
    return out + (pass_.block(node.orelse) if node.orelse else [])


def while_stmt(test, body, names, options=None) -> None:
    """Run the loop, or stage it; ``names`` are the variables that a next iteration or what follows reads."""
    unrolled = debug.Unrolling()
    ask, test = test, lambda: truth(ask(), "while")
    value = test()
    while not is_staged(value):
        if not value:
            decisions.python(
                "Python `while`, unrolled {0} times: the condition is known while tracing",
                unrolled.count,
            )
            return
        unrolled.step()
        if not is_tracing():
            body()
            value = test()
            continue
        places = places_of(names, ask, body)
        attempt = control_flow.Attempt(places)
        after = attempt.run(lambda: (body(), test())[1])
        if is_staged(after):
            attempt.undo()
            break
        attempt.commit()
        value = after
    places = places_of(names, ask, body)
    many = "" if unrolled.count == 1 else "s"
    before = f" after {unrolled.count} unrolled iteration{many}" if unrolled.count else ""
    decisions.staged(f"While{before}", value, places)
    control_flow.staged_while(
        test, body, places, directives.loop_options(options, places), first=value
    )
