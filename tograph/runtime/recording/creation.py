"""Variables and modules that traced code makes: real objects, made once, while tracing.

Plain Python makes them on the first call, under some condition (``if self.w is None``), and finds them on later ones. So does a
trace, and once is enough: the object is made for good while tracing, an initial value that needs the graph is
computed there and then, and the guards of the trace compare with the state *after* the creation. Where the same
branch does anything else that later calls would not do (prints, other values), the trace keeps the guards of the
state before and serves one call only.

What an object draws at random when it is made, it draws at its place among the draws of the graph (``now``).

Invariant: an object made on every call, or in a staged branch or loop, is an error; a module without tensors is none of these.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch

from ...errors import CreationError
from ..graph.ordering import node_effects
from ..symbols import journal
from ..symbols.funcgraph import FuncGraph, current_graph, is_tracing, user_location
from ..symbols.journal import MISSING, Location
from ..symbols.symbolic import SymTensor
from ..values import structure
from ..values.code_names import writes
from . import now
from .tracing import suspended


class _Depth:
    """How many conditions of plain Python surround the code that runs."""

    count = 0


@contextmanager
def condition(chosen: types.FunctionType | None = None):
    """Code that a condition of plain Python chose; ``chosen``: the function that has it, whose variables live on after it."""
    if not is_tracing():
        yield
        return
    root = current_graph().root
    graph, made = current_graph().graph, len(root.created)
    nodes = len(graph.nodes)
    logs = journal.open_journals()
    noted = len(logs[-1].noted) if logs else 0
    held = None if chosen is None else _variables(chosen)
    _Depth.count += 1
    try:
        yield
    finally:
        _Depth.count -= 1
    if len(root.created) == made:
        return
    fresh = {id(x) for x, _ in root.created[made:]}
    effects = any(not node_effects(n).removable for n in graph.nodes[nodes:])
    moved = held is not None and any(map(operator.is_not, held, _variables(chosen)))
    before: dict[Any, tuple[Location, Any]] = {}
    for p, old in logs[-1].noted[noted:]:
        before.setdefault(p.key, (p, old))
    changed = [p for p, old in before.values() if p.get() is not old]
    real = all(id(p.get()) in fresh or not _holds_symbol(p.get()) for p in changed)
    if effects or moved or not real or journal.is_nested():
        return
    root.settled.update(p.key for p in changed)


def _variables(function: types.FunctionType) -> list[Any]:
    """What a body's variables outside of it are now: those that it shares, and the globals that it assigns."""
    found = []
    for c in function.__closure__ or ():
        try:
            found.append(c.cell_contents)
        except ValueError:
            found.append(MISSING)
    own = function.__globals__
    return found + [own.get(n, MISSING) for n in writes(function.__code__)[1]]


def _holds_symbol(x: Any) -> bool:
    if isinstance(x, structure.STAGED.lists) and x.handle is not None:
        return True
    if isinstance(x, (list, tuple, set)):
        return any(map(_holds_symbol, x))
    if isinstance(x, dict):
        return any(map(_holds_symbol, x.values()))
    return isinstance(x, (SymTensor, torch.SymInt, torch.SymFloat, torch.SymBool))


def conditional() -> bool:
    """Whether a condition of plain Python surrounds the code that runs."""
    return _Depth.count > 0


def staged() -> bool:
    """Whether a staged branch or loop surrounds the code that runs."""
    graph: FuncGraph | None = current_graph()
    while graph is not None and graph.outer is not None:
        if graph.graph.name != "function":
            return True
        graph = graph.outer
    return False


def check(what: str) -> None:
    """CreationError where every call would make another object."""
    if staged():
        raise CreationError(
            f"{what} is made in a staged branch or loop: how many there are would be known only when the graph runs. "
            "Make it before, outside of the construct.",
            user_location(),
        )
    if not conditional():
        raise CreationError(
            f"{what} is made on every call: a function may make one only on the first call for an object, under a condition such "
            "as `if self.w is None`. tg.function only supports singleton variables created on the first call.",
            user_location(),
        )


def make(build: Callable[[], Any], lasting: Callable[[Any], bool] = lambda made: True) -> Any:
    """Make an object for good, which something has to keep where it is ``lasting``."""
    with now.in_order(current_graph()), suspended():
        made = build()
    if lasting(made):
        current_graph().root.created.append((made, user_location()))
    return made


def check_reached(created: Sequence[tuple[Any, Any]], contents: Sequence[Any]) -> None:
    """CreationError for an object that nothing which outlives the call holds: the next call would make another one."""
    seen: set[int] = set()
    todo = list(contents)
    while todo:
        x = todo.pop()
        if id(x) in seen or isinstance(x, (int, float, str, bytes, type(None))):
            continue
        seen.add(id(x))
        if issubclass(type(x), dict):
            todo += [*x.keys(), *x.values()]
        elif isinstance(x, (list, tuple, set, frozenset)):
            todo += list(x)
        elif hasattr(x, "__dict__") and not isinstance(x, (type, torch.Tensor)):
            todo += list(vars(x).values())
    for made, location in created:
        if id(made) not in seen and not _is_bare(made):
            raise CreationError(
                f"a {type(made).__name__} made here is not kept by anything that outlives the call, so every call would make another "
                "one. tg.function only supports singleton variables created on the first call: keep it in an attribute.",
                location,
            )


def _is_bare(x: Any) -> bool:
    """Whether an object is a module without tensors, such as a loss: each call may have its own."""
    return isinstance(x, torch.nn.Module) and next(chain(x.parameters(), x.buffers()), None) is None


def without_symbols(args: Any) -> bool:
    """Whether nothing among arguments is known only when the graph runs."""
    return not any(map(_holds_symbol, args))
