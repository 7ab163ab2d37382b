"""Functions that call themselves until a staged condition holds: a call that is the last thing they do becomes a loop.

A graph has no stack of calls. While a function calls itself on something that only tracing knows (another size, another object),
it is traced again at each call, as any function. Where the calls are alike, tracing would not come to an end: it begins again
(``Retrace``), and then the function runs its other form, in which its parameters are the state of a ``while``::

    def f(a, b):                          def f(a, b):
        if b == 0:                            if ag__.as_loop():
            return a                              depth = 0
        return f(b, a % b)                        while True:
                                                      if b == 0:
                                                          return a
                                                      again, value = ag__.tail_call(f, b, a % b)
                                                      if again:
                                                          depth = ag__.deeper(depth)
                                                          a, b = value
                                                          continue
                                                      return value
                                              if b == 0:
                                                  return a
                                              return f(b, a % b)

Calls in loops, ``try``, ``with`` and in other expressions stay calls, and functions that define others, or that take ``*rest``, are
left as they are: where these do not come to an end, they are calls of a graph by itself (``recursive_calls``).
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .. import stacks
from ..errors import TographError
from ..runtime import control_flow
from ..runtime.functions.function import Function
from ..runtime.functions.methods import BoundFunction
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.library.recursive_calls import TOO_DEEP
from ..runtime.symbols.funcgraph import FuncGraph, current_graph, is_tracing
from ..runtime.symbols.retrace import Retrace
from ..runtime.symbols.root import Root
from ..transpiler.syntax import gast
from .context import FUNCTIONS, OPERATORS, Converter, is_docstring, own_nodes
from .jumps import completes
from .recursive_calls import recursive_call, refused
from .rings import names_itself

# Calls of one function inside each other, each in a staged branch of the one before, after which it is traced as a loop: of those that are
# alike, and of those that differ in numbers and lists only. So is one that is called so often in all.
ALIKE, COUNTED, ALL = 8, 24, 256
# Calls inside each other that are alike, after which a function that is no loop is a graph that calls itself.
ENDLESS = 24
# The same of calls that are not in a staged branch: Python's own conditions may end them.
STRAIGHT = 150

# ---- the rewrite

# Functions with these in them are no loops.
_HOLDING = (*FUNCTIONS, gast.ClassDef, gast.Yield, gast.YieldFrom, gast.Await)


class TailCalls(Converter):
    """Gives functions that end with a call of themselves their form as a loop."""

    def visit_FunctionDef(self, node):
        node = self.generic_visit(node)
        names = _parameters(node.args)
        if names is None:
            return node
        inner = list(own_nodes(node))
        if any(isinstance(n, _HOLDING) for n in inner):
            return node
        at = int(is_docstring(node.body[0]))
        returned = [n.value for n in inner if isinstance(n, gast.Return)]
        rewrite = _Activation(self, node.name, names, silent=all(map(_is_none, returned)))
        called = [n.value for n in inner if isinstance(n, gast.Expr)] if rewrite.silent else returned  # fmt: skip
        if not any(value is not None and rewrite.calls(value) for value in called):
            return node  # most functions: a copy of the body takes longer than other passes
        body = rewrite.block(copy.deepcopy(node.body[at:]), last=True)
        if not rewrite.found:
            return node
        end = self.fill("return None", node.body[-1]) if completes(body) else []
        text = f"if {OPERATORS}.as_loop():\n    depth_ = 0\n    while True:\n        body_\n        end_"
        made = self.fill(text, node.body[at], depth_=rewrite.depth, body_=body, end_=end)
        node.body[at:at] = made
        return node


def _parameters(args: gast.arguments) -> list[str] | None:
    """The names of parameters; None where some take what is left."""
    if args.vararg is not None or args.kwarg is not None:
        return None
    return [a.id for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


def _is_none(value: gast.expr | None) -> bool:
    return value is None or (isinstance(value, gast.Constant) and value.value is None)


class _Activation:
    """The body of a function as that of a loop. ``found``: whether it has calls of the function itself.

    ``silent``: it gives None in any case, so that a call whose value is dropped may be the last thing that it does.
    """

    def __init__(self, converter: Converter, name: str, parameters: list[str], silent: bool):
        self.fill, self.namer = converter.fill, converter.context.namer
        self.name, self.parameters = name, parameters
        self.depth = self.namer.fresh("depth")
        self.found, self.silent = False, silent

    def block(self, statements: list[gast.stmt], last: bool) -> list[gast.stmt]:
        """``last``: the function ends behind the block."""
        made = []
        for s, after in zip(statements, [*statements[1:], None]):
            ends = last if after is None else isinstance(after, gast.Return) and _is_none(after.value)  # fmt: skip
            made += self.statement(s, ends)
        return made

    def statement(self, s: gast.stmt, ends: bool) -> list[gast.stmt]:
        if isinstance(s, gast.Return):
            return self.leaving(s.value, s) if s.value is not None else [s]
        if isinstance(s, gast.Expr) and self.silent and ends and isinstance(s.value, gast.Call):
            return self.leaving(s.value, s) if self.calls(s.value) else [s]
        if isinstance(s, gast.If):
            s.body, s.orelse = self.block(s.body, ends), self.block(s.orelse, ends)
        elif isinstance(s, gast.Match):
            for case in s.cases:
                case.body = self.block(case.body, ends)
        return [s]

    def leaving(self, value: gast.expr, origin: gast.stmt) -> list[gast.stmt]:
        """``return value``, or ``value`` where the function ends."""
        if isinstance(value, gast.IfExp) and self.calls(value):
            text = "if test_:\n    body_\nelse:\n    orelse_"
            body, orelse = (self.leaving(v, origin) for v in (value.body, value.orelse))
            return self.fill(text, origin, test_=value.test, body_=body, orelse_=orelse)
        if not self.calls(value):
            return self.fill("return value_", origin, value_=value)
        self.found = True
        again, result = self.namer.fresh("again"), self.namer.fresh("value")
        call = self.fill(f"again_, value_ = {OPERATORS}.tail_call(f_)", value, again_=again, value_=result, f_=value.func)  # fmt: skip
        call[0].value.args += value.args
        call[0].value.keywords = value.keywords
        text = f"if again_:\n    depth_ = {OPERATORS}.deeper(depth_)\n    take_\n    continue\nreturn {'None' if self.silent else 'value_'}"
        names = ", ".join(self.parameters)
        take = self.fill(f"{names}, = value_", value, value_=result) if self.parameters else []
        held = {} if self.silent else {"value_": result}
        return call + self.fill(text, value, again_=again, depth_=self.depth, take_=take, **held)

    def calls(self, value: gast.expr) -> bool:
        """Whether the last thing that an expression does may be a call of the function by its name."""
        if isinstance(value, gast.IfExp):
            return self.calls(value.body) or self.calls(value.orelse)
        if not isinstance(value, gast.Call):
            return False
        f = value.func
        named = (isinstance(f, gast.Name) and f.id == self.name) or (
            isinstance(f, gast.Attribute) and f.attr == self.name
        )
        spread = any(isinstance(a, gast.Starred) for a in value.args)
        return named and not spread and all(k.arg is not None for k in value.keywords)


# ---- while tracing


@dataclass(frozen=True)
class _Call:
    """A call that is being traced: of which function, with what, and in which graph."""

    function: types.FunctionType
    graph: FuncGraph
    kinds: Any
    counted: Any


class _Calls(threading.local):
    def __init__(self) -> None:
        self.open: list[_Call | None] = []


_calls = _Calls()


def enter(function: types.FunctionType, args: tuple, kwargs: dict[str, Any]) -> None:
    """A function that names itself is called; ``leave`` follows."""
    made = None
    if is_tracing():
        graph = _staged(current_graph())
        given = (*args, *kwargs.items())
        made = _Call(function, graph, _kinds(given), _kinds(given, counted=True))
        if graph.outer is not None:
            _count(made, graph.root)
        _count_straight(made, graph.root)
    _calls.open.append(made)


def _staged(graph: FuncGraph) -> FuncGraph:
    """The graph of the staged branch or loop around, or the outermost one."""
    while graph.outer is not None and graph.graph.name == "function":
        graph = graph.outer
    return graph


def leave() -> None:
    _calls.open.pop()


def _count(made: _Call, root: Root) -> None:
    """Let tracing begin again where calls of a function do not come to an end."""
    code = made.function.__code__
    total = root.calls[code] = root.calls.get(code, 0) + 1
    inside = [c for c in _calls.open if c is not None and c.graph is not made.graph]
    inside = [c for c in inside if c.function.__code__ is code and c.graph.root is root]
    counted = sum(c.counted == made.counted for c in inside)
    alike = sum(c.kinds == made.kinds for c in inside)
    if code not in root.looped:
        if alike >= ALIKE or counted >= COUNTED or (inside and total > ALL):
            raise Retrace(looped=frozenset([code]))
    elif alike >= ENDLESS or counted >= ENDLESS + COUNTED:
        raise Retrace(recursive=frozenset([code]))


def _count_straight(made: _Call, root: Root) -> None:
    """The same where each call stands in the graph of the one before, which a staged condition leaves by an exception only."""
    code = made.function.__code__
    here = [c for c in _calls.open if c is not None and c.graph is made.graph]
    if len(here) < STRAIGHT or code in root.recursive:
        return
    if sum(c.function.__code__ is code and c.kinds == made.kinds for c in here) >= STRAIGHT:
        raise Retrace(recursive=frozenset([code]))


def entered(
    run: Callable[..., Any], f: types.FunctionType, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """A call of a function that names itself."""
    if is_tracing() and f.__code__ in current_graph().root.recursive:
        return recursive_call(run, f, args, kwargs)
    enter(f, args, kwargs)
    try:
        return run(*args, **kwargs)
    except RecursionError as error:
        _explain(error)
        raise
    finally:
        leave()


def _explain(error: RecursionError) -> None:
    """RecursiveCallError where tracing a function that calls itself in staged branches did not come to an end."""
    made = _calls.open[-1]
    if made is None or isinstance(error, TographError):
        return
    same = [
        c for c in _calls.open if c is not None and c.function.__code__ is made.function.__code__
    ]
    if len(same) == 1 and getattr(error, "staged_", False):
        raise refused(made.function.__name__, "no two of its calls are alike to tracing (shapes, strings, numbers of arguments)") from None  # fmt: skip
    if made.graph.outer is not None:
        error.staged_ = True  # type: ignore[attr-defined]


def _kinds(x: Any, counted: bool = False) -> Any:
    """What tracing knows of arguments: where it is the same, tracing does the same. ``counted``: without numbers and the items of lists."""
    if isinstance(x, torch.Tensor):
        return x.dtype, tuple(n if type(n) is int else None for n in x.shape)
    if isinstance(x, SYMBOLS):
        return x.node.kind
    if isinstance(x, (int, float)):
        return type(x) if counted else (type(x), x)
    if isinstance(x, (str, type(None))):
        return x
    if counted and isinstance(x, list):
        return list
    return tuple(_kinds(part, counted) for part in x) if type(x) in (list, tuple) else id(x)


def as_loop() -> bool:
    """Whether the function that was called last is traced as a loop."""
    made = _calls.open[-1] if _calls.open and is_tracing() else None
    if made is None:
        return False
    root = current_graph().root
    if made.function.__code__ in root.recursive:
        return False
    return made.graph.root is root and made.function.__code__ in root.looped


def tail_call(f: Any, /, *args: Any, **kwargs: Any) -> tuple[bool, Any]:
    """(whether ``f`` is the function that runs, its next arguments), else (False, what ``f`` gives)."""
    function, given = _behind(f)
    made = _calls.open[-1]
    if made is None or made.function is not function:
        return False, CALL(f, *args, **kwargs)
    of = f._function if isinstance(f, BoundFunction) else f
    if isinstance(of, Function):
        bound = of._bound(args, kwargs)
    else:
        bound, given = inspect.signature(function).bind(*given, *args, **kwargs), ()
    bound.apply_defaults()
    return True, (*given, *bound.arguments.values())


def CALL(f: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A call in converted code. Set by ``calls``."""
    raise NotImplementedError


def _behind(f: Any) -> tuple[Any, tuple]:
    """The function that a callable runs, and the arguments that it gives first."""
    if isinstance(f, types.MethodType):
        function, given = _behind(f.__func__)
        return function, (f.__self__, *given)
    if isinstance(f, BoundFunction):
        function, _ = _behind(f._unbound)
        return function, (f.__self__,)
    if isinstance(f, Function):
        return f.python_function, ()
    return f, ()


def deeper(depth: Any) -> Any:
    """One call more; Python's error for too many of them."""
    if not isinstance(depth, SYMBOLS):
        if depth >= stacks.LIMIT.now():
            raise RecursionError(TOO_DEEP)
        return depth + 1
    limit = control_flow.predicate(depth >= stacks.LIMIT.now(), "recursion")
    control_flow.staged_if(limit, _too_deep, lambda: None)
    return depth + 1


def _too_deep() -> None:
    control_flow.emit_raise(RecursionError(TOO_DEEP))
    raise control_flow.Unreachable


def entry(function: types.FunctionType, run: Callable[..., Any]) -> Callable[..., Any]:
    """What the decorated function runs."""
    if not names_itself(function):
        return run

    @functools.wraps(run)
    def begun(*args: Any, **kwargs: Any) -> Any:
        return entered(run, function, args, kwargs)

    return begun
