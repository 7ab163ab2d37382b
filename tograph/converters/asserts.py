"""``assert test, message``  ->  ``ag__.assert_stmt(test, lambda: message)``: checked when the graph runs if staged.

The message is evaluated only when the assertion fails, as in Python: it is traced in the failing branch.
"""

from __future__ import annotations

from ..runtime import control_flow
from ..runtime.structure import is_union
from ..transpiler.templates import constant
from .context import OPERATORS, Converter
from .staging import is_staged
from .thunks import thunk
from .union import distribute


class Asserts(Converter):
    def visit_Assert(self, node):
        holes = {
            "test_": self.visit(node.test),
            "msg_": thunk(self, node.msg) if node.msg else constant(None),
        }
        return self.fill(f"{OPERATORS}.assert_stmt(test_, msg_)", node, **holes)


def assert_stmt(test, msg) -> None:
    if is_union(test):
        distribute(lambda t: assert_stmt(t, msg), test)
    elif is_staged(test):
        control_flow.staged_if(control_flow.predicate(test, "assert"), _nothing, lambda: _fail(msg))
    elif not test:
        _fail(msg)


def _nothing() -> None:
    return None


def _fail(msg):
    raise AssertionError() if msg is None else AssertionError(msg())
