"""``if``: a staged condition becomes an ``If`` of both branches; any other runs one of them.

::

    if x > 0:                       def if_body():
        y = 1                           nonlocal y
    else:                    ->         y = 1
        y = 2                       def else_body():
                                        nonlocal y
                                        y = 2
                                    ag__.if_stmt(x > 0, if_body, else_body, ('y',))
"""

from __future__ import annotations

from ..runtime import control_flow
from ..runtime.recording import creation
from ..runtime.symbols import decisions
from ..transpiler.anno import Fact
from ..transpiler.templates import constant
from .context import OPERATORS
from .logical import tested
from .places import places_of
from .staging import is_staged
from .union import truth


def rewrite(pass_, node):
    names = pass_.state_of(node, Fact.LIVE_OUT)
    tested(node.test)
    test = pass_.visit(node.test)
    body = pass_.body_function("if_body", pass_.block(node.body), node)
    functions = [body]
    orelse = constant(None)
    if node.orelse:
        functions.append(pass_.body_function("else_body", pass_.block(node.orelse), node))
        orelse = functions[-1].name
    text = f"{OPERATORS}.if_stmt(test_, body_, orelse_, names_)"
    holes = {
        "test_": test,
        "body_": body.name,
        "orelse_": orelse,
        "names_": pass_.names_node(names, node),
    }
    return [*functions, *pass_.fill(text, node, **holes)]


def if_stmt(test, body, orelse, names) -> None:
    """Run a branch, or stage both; ``names`` are the variables that live on."""
    test = truth(test, "if")
    if is_staged(test):
        places = places_of(names, body, orelse)
        decisions.staged("If", test, places)
        control_flow.staged_if(control_flow.predicate(test, "if"), body, orelse or _nothing, places)
        return
    decisions.python("Python `if`: the condition is {0}, known while tracing", test)
    chosen = body if test else orelse
    if chosen is not None:
        with creation.condition(chosen):
            chosen()


def _nothing() -> None:
    return None
