"""``tg.set_loop_options(...)``: the first statement of a loop body says how the loop is staged."""

from __future__ import annotations

import inspect
from typing import Any

from ..errors import DirectiveError, SignatureError
from ..runtime.control_flow import LoopOptions
from ..runtime.symbols.funcgraph import user_location
from ..runtime.values.specs import dimensions
from ..transpiler.syntax import gast
from .context import OPERATORS, Converter


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
    call.func = pass_.expression(f"{OPERATORS}.given", call)
    return pass_.expression(f"{OPERATORS}.options(lambda: call_)", node, call_=call)


def options(thunk: Any) -> Any:
    """Options are evaluated when the loop is met."""
    return thunk


_PARAMETERS = inspect.signature(set_loop_options)


def given(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """The options by name; TypeError for one that there is not."""
    try:
        bound = _PARAMETERS.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"set_loop_options() {error}") from None
    bound.apply_defaults()
    return bound.arguments


def loop_options(thunk, places) -> LoopOptions | None:
    """The options of a loop over the variables at ``places``: shape invariants name a variable by its value."""
    if thunk is None:
        return None
    said = thunk()
    invariants: dict[Any, Any] = {}
    for value, shape in _pairs(said["shape_invariants"]):
        named = [place.key for place in places if place.get() is value]
        if not named:
            raise SignatureError(
                "a shape invariant of set_loop_options names a variable that the loop does not change: give the variable itself, which the loop's body assigns",
                user_location(),
            )
        invariants.update(dict.fromkeys(named, shape))
    return LoopOptions(
        invariants, said["maximum_iterations"], said["parallel_iterations"], _schedule(said)
    )


def _pairs(found: Any) -> list[tuple[Any, tuple[int | None, ...]]]:
    """The variables that have shape invariants, each with its shape."""
    pairs = [] if found is None else found
    if not isinstance(pairs, (list, tuple)) or not all(
        isinstance(p, (list, tuple)) and len(p) == 2 for p in pairs
    ):
        raise SignatureError(
            f"shape_invariants of set_loop_options is a list of pairs (variable, shape), not {found!r}",
            user_location(),
        )
    sizes = [dimensions(shape) for _, shape in pairs]
    return [(value, shape) for (value, _), shape in zip(pairs, sizes) if shape is not None]


def _schedule(said: dict[str, Any]) -> Any:
    schedule = said["checkpoint"]
    if schedule is not None and schedule != "sqrt" and not (type(schedule) is int and schedule > 0):
        raise DirectiveError(
            f'checkpoint is "sqrt" or a positive number, not {schedule!r}', user_location()
        )
    return schedule
