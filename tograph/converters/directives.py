"""``tg.set_loop_options(...)``: the first statement of a loop body says how the loop is staged."""

from __future__ import annotations

from typing import Any

from ..errors import DirectiveError
from ..runtime.control_flow import LoopOptions
from ..transpiler.syntax import gast
from .context import OPERATORS, Converter, own_nodes


def set_loop_options(
    shape_invariants=None,
    maximum_iterations=None,
    parallel_iterations=10,
    checkpoint=None,
    swap_memory=False,
):
    """Options of the loop whose body begins with this call.

    ``shape_invariants``: pairs (variable, shape) with None for a dimension that may change.
    ``maximum_iterations``: the loop ends after that many. ``parallel_iterations``: how many iterations may overlap.
    ``checkpoint``: bounds the memory of the gradient of a long loop: a number n keeps the state of every n-th iteration, "sqrt"
    that of fewer and fewer; what lies between is computed again. A body that draws random numbers, prints or writes
    variables is not run again: there all iterations are kept. Outside of a converted loop the call does nothing.

    Example::

        for i in tg.range(n):
            tg.set_loop_options(shape_invariants=[(v, [None])])
            v = torch.cat([v, v[-1:] + 1])
    """


def _is_directive(converter: Converter, statement: gast.stmt) -> bool:
    if not (isinstance(statement, gast.Expr) and isinstance(statement.value, gast.Call)):
        return False
    return converter.context.resolve(statement.value.func) is set_loop_options


class Directives(Converter):
    """Takes the directive out of loop bodies; anywhere else it is an error."""

    def visit_While(self, node):
        return self._loop(node)

    def visit_For(self, node):
        return self._loop(node)

    def _loop(self, node):
        if node.body and _is_directive(self, node.body[0]):
            node.directive = node.body.pop(0).value
            if not node.body:
                node.body = [gast.copy_location(gast.Pass(), node)]
        return self.generic_visit(node)

    def visit_Expr(self, node):
        if _is_directive(self, node):
            text = 'the loop options directive "set_loop_options" must be the first statement in the loop block'
            raise DirectiveError(text, (self.context.file, node.lineno))
        return node


def take(pass_: Converter, node: gast.stmt) -> gast.expr | None:
    """The directive of a loop as a function that gives its options."""
    call = getattr(node, "directive", None)
    if call is None:
        return None
    keywords = {k.arg: k.value for k in call.keywords}
    fields = (
        "shape_invariants",
        "maximum_iterations",
        "parallel_iterations",
        "checkpoint",
        "swap_memory",
    )
    keywords.update(zip(fields, call.args))
    made = gast.Call(
        gast.Name("dict", gast.Load(), None, None),
        [],
        [gast.keyword(k, v) for k, v in keywords.items()],
    )
    for child in own_nodes(made):
        if getattr(child, "lineno", None) is None:
            gast.copy_location(child, node)
    gast.copy_location(made, node)
    return pass_.expression(f"{OPERATORS}.options(lambda: made_)", node, made_=made)


def options(thunk: Any) -> Any:
    """Options are evaluated when the loop is met."""
    return thunk


def loop_options(thunk, places) -> LoopOptions | None:
    """The options of a loop over the variables at ``places``: shape invariants name a variable by its value."""
    if thunk is None:
        return None
    given = thunk()
    invariants: dict[Any, Any] = {}
    for value, shape in given.get("shape_invariants") or ():
        for place in places:
            if place.get() is value:
                invariants[place.key] = tuple(shape)
    return LoopOptions(
        invariants,
        given.get("maximum_iterations"),
        given.get("parallel_iterations", 10),
        _schedule(given),
    )


def _schedule(given: dict[str, Any]) -> Any:
    schedule = given.get("checkpoint")
    if schedule is not None and schedule != "sqrt" and not (type(schedule) is int and schedule > 0):
        raise DirectiveError(f'checkpoint is "sqrt" or a positive number, not {schedule!r}')
    return schedule
