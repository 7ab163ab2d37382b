"""Generator functions: Python's own generators, or, in a ``for`` while tracing, loops that call the loop's body.

A generator whose loops are staged cannot stop at a ``yield``. A ``for`` over it runs it the other way round: ``yield v``
hands ``v`` to the body of the ``for`` and goes on, or returns when the body was left by ``break`` or ``return``::

    def gen(n):                           def gen(n):
        for i in tg.range(n):      ->         for i in tg.range(n):
            yield i                               if ag__.hand_over(channel__, i):
                                                      return

The variables that the body of the ``for`` assigns are then state of every staged construct in the generator. A ``for``
sends nothing back, so ``got = yield v`` gives None there. A generator that uses the value of ``yield`` otherwise, or what
``yield from`` gives, has no such form. What takes the items one by one (``next``, ``send``, ``zip``) gets them from the
function that ``resumable`` makes of it; where there is none, from Python's own generator.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..runtime import control_flow
from ..runtime.inference.shapes import SYMBOLS
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import current_graph, is_tracing
from ..runtime.symbols.retrace import Retrace
from ..transpiler.syntax import gast
from ..transpiler.templates import constant, name
from .call_rules import CONVERTED_CODE, MARK
from .context import OPERATORS, Converter, has_yield, own_nodes
from .iterators import DONE, LOST, lost, moved, place_now
from .logical import not_
from .resumable import Resumable, can_resume, own_end
from .staging import is_staged

CHANNEL = "channel__"


def can_hand_over(tree: gast.FunctionDef) -> bool:
    """Whether every ``yield`` is a statement, or all of what one assigns."""
    nodes = list(own_nodes(tree))
    found = [n for n in nodes if isinstance(n, (gast.Yield, gast.YieldFrom))]
    plain = [n.value for n in nodes if isinstance(n, gast.Expr) or _assigned_yield(n)]
    return bool(found) and all(any(n is p for p in plain) for n in found)


def _assigned_yield(node: Any) -> bool:
    """Whether this is ``got = yield v``."""
    return isinstance(node, (gast.Assign, gast.AnnAssign)) and isinstance(node.value, gast.Yield)


class HandOver(Converter):
    """Rewrites the yields of one generator function; functions nested in it are left."""

    def convert(self, tree):
        channel = gast.copy_location(gast.Name(CHANNEL, gast.Param(), None, None), tree)
        tree.args.posonlyargs.insert(0, channel)
        tree.body = self.block(tree.body)
        return tree

    def visit_FunctionDef(self, node):
        return node

    def visit_Lambda(self, node):
        return node

    def visit_Try(self, node):
        """What is raised in it may be caught in it."""
        return node if not has_yield(node) else self.generic_visit(node)

    def visit_Raise(self, node):
        return own_end(self, node)

    def visit_Expr(self, node):
        if isinstance(node.value, gast.Yield):
            return self._handed(node)
        if isinstance(node.value, gast.YieldFrom):
            item = self.context.namer.fresh("item")
            text = f"for item_ in source_:\n    if {OPERATORS}.hand_over({CHANNEL}, item_):\n        return"
            made = self.fill(text, node, item_=item, source_=node.value.value)
            return made
        return node

    def visit_Assign(self, node):
        if not _assigned_yield(node):
            return node
        handed = self._handed(node)
        node.value = gast.copy_location(gast.Constant(None, None), node)
        return [*handed, node]

    visit_AnnAssign = visit_Assign

    def _handed(self, node):
        value = node.value.value or gast.copy_location(gast.Constant(None, None), node)
        text = f"if {OPERATORS}.hand_over({CHANNEL}, value_):\n    return"
        return self.fill(text, node, value_=value)


def other_forms(
    context: Any, node: gast.FunctionDef, wish: str
) -> tuple[list[gast.stmt], list[gast.expr]]:
    """The definitions of the other forms of a generator function, and what names each of them, or None."""
    makers = ((can_hand_over, HandOver), (can_resume, Resumable))
    made: list[gast.stmt] = []
    names: list[gast.expr] = []
    for can, make in makers:
        if not can(node):
            names.append(gast.copy_location(constant(None), node))
            continue
        form: Any = make(context).convert(copy.deepcopy(node))
        form.name = context.namer.fresh(wish)
        made.append(form)
        names.append(gast.copy_location(name(form.name), node))
    return made, names


class NestedGenerators(Converter):
    """A generator function that is defined inside of the function gets its other forms beside it::

    def gen(n): ...    ->    def gen(n): ...
                             def gen_1(channel__, n): ...
                             def gen_2(n): ...
                             gen = ag__.with_forms(gen, gen_1, gen_2)

    Its decorators take what has all forms: ``gen = contextmanager(ag__.with_forms(gen, gen_1, gen_2))``.
    """

    def convert(self, tree):
        return self.generic_visit(tree)

    def visit_FunctionDef(self, node):
        node = self.generic_visit(node)
        if not any(can(node) for can in (can_hand_over, can_resume)):
            return node
        decorators, node.decorator_list = node.decorator_list, []
        made, (push, resume) = other_forms(self.context, node, node.name)
        text = f"name_ = {OPERATORS}.with_forms(name_, push_, resume_)"
        whole = self.fill(text, node, name_=node.name, push_=push, resume_=resume)
        for decorator in reversed(decorators):
            call = gast.Call(decorator, [whole[0].value], [])
            whole[0].value = gast.copy_location(call, decorator)
        return [node, *made, *whole]


def with_forms(native: Any, push: Any, resume: Any) -> Any:
    """A generator function that gives Python's generator, or in a trace one that may run in its other forms."""

    def generator(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return native(*args, **kwargs)
        return Generator(native, push, args, kwargs, lambda: resume)

    CONVERTED_CODE.update([generator.__code__])
    return functools.wraps(native)(generator)


# What else Python's generators have.
_OWN = frozenset(["gi_frame", "gi_running", "gi_code", "gi_yieldfrom", "gi_suspended"])


class _Ended(threading.local):
    """The last generator that has ended, and what was raised there."""

    last: tuple[Any, Any] = (None, None)


_ended = _Ended()


def end_of(generator: Any, value: Any) -> StopIteration:
    """How a generator ends, as what takes its items is told."""
    made = StopIteration() if value is None else StopIteration(value)
    _ended.last = generator, made
    return made


@contextmanager
def own_stop_is_error(generator: Any) -> Iterator[None]:
    """A step of a generator: a StopIteration that is not its end is an error (PEP 479)."""
    try:
        yield
    except StopIteration as error:
        if _ended.last[0] is generator and _ended.last[1] is error:
            raise
        raise RuntimeError("generator raised StopIteration") from error


class Pulled:
    """The variables of a generator that gives its items one by one, as the functions that ``resumable`` makes see them."""

    def __init__(self, resume: Any, begun: Any, ended: Any, current: Any, value: Any, end: Any, inner: Any):  # fmt: skip
        self.resume, self.begun, self.ended, self.current = resume, begun, ended, current
        self.value, self.end, self.inner = value, end, inner
        self.stepped = False  # whether its next item was taken already, by what was thrown into it

    def __tograph_holds__(self) -> list[Any]:
        return list(vars(self).values())


class Generator:
    """The call of a generator function in converted code: not begun until it is iterated."""

    def __init__(
        self,
        native: Any,
        push: Any,
        args: tuple,
        kwargs: dict,
        resume: Callable[[], Any] = lambda: None,
    ):
        self._native, self._push, self._args, self._kwargs = native, push, args, kwargs
        self._resume = resume
        self._begun: Any = None
        self._made = native(*args, **kwargs)  # a call that does not fit fails here
        self.pulled_: Pulled | None = None
        self._taken = self.position = 0
        self._consumer: types.CodeType | None = None  # the body that it was handed to
        self._running = False
        # Of the regions that it is made in: in a deeper one it may not advance.
        self.depth = journal.depth()

    def _begin(self):
        if self.pulled_ is not None:
            raise lost("a generator")
        at = self._place()
        if at == DONE:
            return iter(())
        if at == 0 and (self._begun is None or self._taken):
            # Also where a branch took from it, and what that branch did was put back.
            made, self._made = self._made, None
            self._begun = self._native(*self._args, **self._kwargs) if made is None else made
            self._taken = 0
            journal.begun(self._begun)
        if at != self._taken:
            raise lost("a generator")
        return self._begun

    def __iter__(self):
        return self

    def __next__(self):
        pulled = self.pulled_
        if pulled is None:
            item = next(self._begin())
            self._advance()
            return item
        if not pulled.ended():
            with own_stop_is_error(pulled):
                pulled.resume(None)
        if pulled.ended():
            raise end_of(pulled, pulled.value())
        return pulled.current()

    def send(self, value: Any) -> Any:
        item = self._begin().send(value)
        self._advance()
        return item

    def throw(self, *error: Any) -> Any:
        begun = self._begin()
        self._advance()
        return begun.throw(*error)

    def close(self) -> None:
        self._begin().close()
        self._advance()

    def _advance(self) -> None:
        self._taken += 1
        moved(self, self._taken)

    def __getattr__(self, name):
        if name in ("__name__", "__qualname__"):
            return getattr(self._native, name)
        if name not in _OWN:
            raise AttributeError(f"'generator' object has no attribute {name!r}")
        return getattr(self._begin(), name)

    def __tograph_anew__(self) -> Callable[[], Any] | None:
        """What makes the generator of a call that returns it; None where items were taken."""
        return functools.partial(self._native, *self._args, **self._kwargs) if self.fresh else None

    def __tograph_holds__(self) -> list[Any]:
        cells = [c.cell_contents for c in self._native.__closure__ or () if c != types.CellType()]
        return [*self._args, *self._kwargs.values(), *cells]

    @property
    def fresh(self) -> bool:
        """Whether nothing was taken from it yet, so that a ``for`` may run it the other way round."""
        begun = self.pulled_ is not None or self._place() != 0
        return not begun and self._push is not None and is_tracing()

    def pulled(self) -> Pulled | None:
        """The form of it that gives its items one by one; None where there is none, or another form has given some.

        It stays in that form, also where what took an item is undone: the place is in its variables.
        """
        if self.pulled_ is None and is_tracing() and self._place() == 0:
            form = self._resume()
            self.pulled_ = None if form is None else form(*self._args, **self._kwargs)
        return self.pulled_

    @property
    def is_pulled(self) -> bool:
        """Whether its items are to be asked for one by one: some were, or there is no form that hands them over."""
        if self._push is not None or not is_tracing():
            return self.pulled_ is not None
        return self.pulled() is not None

    def lose(self) -> None:
        """A ``break`` left it at a place that a generator which runs the other way round cannot go on from."""
        moved(self, LOST)

    def _place(self) -> int:
        """How many items were taken. Retrace where a ``for`` that it was handed to is to take them one by one."""
        at = self.position
        left = self._running or isinstance(at, SYMBOLS) or at == LOST
        if left and self._consumer is not None and is_tracing():
            raise Retrace(shared=frozenset([self._consumer]))
        return place_now(self)

    def run(self, channel: Any, consumer: types.CodeType | None = None) -> None:
        """Hand every value to ``channel`` until it says to stop; ``consumer``: the code that tells it from others."""
        moved(self, DONE)
        self._consumer, self._running = consumer, True
        try:
            self._push(channel, *self._args, **self._kwargs)
        finally:
            self._running = False


Generator.__name__ = "generator"  # in messages of Python


def is_generator_function(f: Any) -> bool:
    return (
        isinstance(f, types.FunctionType)
        and inspect.isgeneratorfunction(f)
        and not getattr(f, MARK, False)
    )


def hand_over(channel: Any, value: Any) -> Any:
    """Run the consumer's body; whether the generator has to end."""
    return channel(value)


def is_shared(body: Any) -> bool:
    """Whether the items of what a loop with this body goes over were found to be taken elsewhere too."""
    return is_tracing() and body.__code__ in current_graph().root.shared


def consume(generator: Generator, body: Any, places: list, test: Any) -> None:
    """``for x in generator: body(x)``."""

    def channel(value: Any) -> Any:
        body(value)
        return False if test is None else not_(test())

    with control_flow.ambient(places):
        generator.run(channel, body.__code__)
    going_on = test is None or test()
    if is_staged(going_on) or not going_on:
        generator.lose()
