"""``assert test, message``  ->  ``ag__.assert_stmt(test, lambda: message)``: checked when the graph runs if staged.

The message is evaluated only when the assertion fails, as in Python: it is traced in the failing branch. Under ``python -O`` there
are no assertions.
"""

from __future__ import annotations

import functools

from ..runtime import control_flow
from ..runtime.values.structure import is_union
from ..transpiler.syntax import gast
from ..transpiler.templates import name, names_tuple
from .class_scopes import is_of_class
from .context import OPERATORS, Converter, own_nodes
from .staging import is_staged
from .thunks import thunk
from .union import distribute, truth

KEPT = __debug__


class Asserts(Converter):
    def visit_Assert(self, node):
        if not KEPT:
            return gast.copy_location(gast.Pass(), node)
        if node.msg:
            holes = {"test_": self.visit(node.test), "msg_": thunk(self, node.msg)}
            return self.fill(f"{OPERATORS}.assert_stmt(test_, msg_)", node, **holes)
        seen = [] if is_of_class(self.context, node.test) else own_nodes(node)
        names = sorted({n.id for n in seen if isinstance(n, gast.Name)})
        holes = {"test_": self.visit(node.test), "names_": names_tuple(names)}
        values = gast.Tuple([name(n) for n in names], gast.Load())
        holes["values_"] = self.expression("lambda: items_", node, items_=values)
        return self.fill(f"{OPERATORS}.assert_stmt(test_, None, names_, values_)", node, **holes)


def assert_stmt(test, msg, names=(), values=tuple) -> None:
    """``names`` of the test and, in a function, their ``values``: shown when an assertion without message fails."""
    if not is_union(test):
        test = truth(test, "assert")
    if is_union(test):
        distribute(lambda t: assert_stmt(t, msg, names, values), test)
    elif is_staged(test):
        fail = functools.partial(_fail, msg)
        if msg is None:
            found = {n: x for n, x in zip(names, values()) if is_staged(x)}
            fail = functools.partial(control_flow.fail_assertion, found)
        control_flow.staged_if(control_flow.predicate(test, "assert"), _nothing, fail)
    elif not test:
        _fail(msg)


def _nothing() -> None:
    return None


def _fail(msg):
    raise AssertionError() if msg is None else AssertionError(msg())
