"""``a if test else b``  ->  ``ag__.if_exp(test, lambda: a, lambda: b)``: an ``If`` when the test is staged."""

from __future__ import annotations

from ..runtime import control_flow
from ..runtime.recording import creation
from ..runtime.symbols import decisions
from ..runtime.values.structure import is_union
from .context import OPERATORS, Converter
from .places import bound_by
from .staging import is_staged
from .thunks import thunk
from .union import distribute, truth


class ConditionalExpressions(Converter):
    def visit_IfExp(self, node):
        holes = {
            "test_": self.visit(node.test),
            "body_": thunk(self, node.body),
            "orelse_": thunk(self, node.orelse),
        }
        return self.expression(f"{OPERATORS}.if_exp(test_, body_, orelse_)", node, **holes)


def if_exp(test, body, orelse):
    if not is_union(test):
        test = truth(test, "conditional expression")
    if is_union(test):
        return distribute(lambda t: if_exp(t, body, orelse), test)
    if is_staged(test):
        decisions.staged("If", test)
        return control_flow.staged_if(
            control_flow.predicate(test, "conditional expression"),
            body,
            orelse,
            bound_by(body, orelse),
        )
    decisions.python("Python expression: its condition is {0}, known while tracing", test)
    with creation.condition():
        return body() if test else orelse()
