"""Generator functions: Python's own generators, or, in a ``for`` while tracing, loops that call the loop's body.

A generator whose loops are staged cannot stop at a ``yield``. A ``for`` over it runs it the other way round: ``yield v``
hands ``v`` to the body of the ``for`` and goes on, or returns when the body was left by ``break`` or ``return``::

    def gen(n):                           def gen(n):
        for i in tg.range(n):      ->         for i in tg.range(n):
            yield i                               if ag__.hand_over(channel__, i):
                                                      return

The variables that the body of the ``for`` assigns are then state of every staged construct in the generator. A ``for``
sends nothing back, so ``got = yield v`` gives None there. A generator that uses the value of ``yield`` otherwise, or what
``yield from`` gives, stays Python's own.
"""

from __future__ import annotations

import copy
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from ..runtime import control_flow
from ..runtime.symbols import journal
from ..runtime.symbols.funcgraph import is_tracing
from ..transpiler.syntax import gast
from .call_rules import CONVERTED_CODE, MARK
from .context import OPERATORS, Converter, own_nodes
from .iterators import DONE, LOST, lost, moved, place_now
from .logical import not_
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


class NestedGenerators(Converter):
    """A generator function that is defined inside of the function gets its second form beside it::

    def gen(n): ...    ->    def gen(n): ...
                             def gen_1(channel__, n): ...
                             gen = ag__.two_forms(gen, gen_1)

    Its decorators take what has both forms: ``gen = contextmanager(ag__.two_forms(gen, gen_1))``.
    """

    def convert(self, tree):
        return self.generic_visit(tree)

    def visit_FunctionDef(self, node):
        node = self.generic_visit(node)
        if not can_hand_over(node):
            return node
        decorators, node.decorator_list = node.decorator_list, []
        pushing = HandOver(self.context).convert(copy.deepcopy(node))
        pushing.name = self.context.namer.fresh(node.name)
        both = self.fill(
            f"name_ = {OPERATORS}.two_forms(name_, push_)",
            node,
            name_=node.name,
            push_=pushing.name,
        )
        for decorator in reversed(decorators):
            made = gast.Call(decorator, [both[0].value], [])
            both[0].value = gast.copy_location(made, decorator)
        return [node, pushing, *both]


def two_forms(native: Any, push: Any) -> Any:
    """A generator function that gives Python's generator, or in a trace one that a ``for`` may run the other way round."""

    def generator(*args: Any, **kwargs: Any) -> Any:
        return Generator(native, push, args, kwargs) if is_tracing() else native(*args, **kwargs)

    CONVERTED_CODE.update([generator.__code__])
    return functools.wraps(native)(generator)


class Generator:
    """The call of a generator function in converted code: not begun until it is iterated."""

    def __init__(self, native: Any, push: Any, args: tuple, kwargs: dict):
        self._native, self._push, self._args, self._kwargs = native, push, args, kwargs
        self._begun: Any = None
        self._taken = self.position = 0
        # Of the regions that it is made in: in a deeper one it may not advance.
        self.depth = journal.depth()

    def _begin(self):
        at = place_now(self)
        if at == DONE:
            return iter(())
        if at == 0 and (self._begun is None or self._taken):
            # Also where a branch took from it, and what that branch did was put back.
            self._begun, self._taken = self._native(*self._args, **self._kwargs), 0
        if at != self._taken:
            raise lost("a generator")
        return self._begun

    def __iter__(self):
        return self

    def __next__(self):
        item = next(self._begin())
        self._advance()
        return item

    def _advance(self) -> None:
        self._taken += 1
        moved(self, self._taken)

    def __getattr__(self, name):
        begun = self._begin()
        if name in ("send", "throw", "close"):
            self._advance()
        return getattr(begun, name)

    def __tograph_anew__(self) -> Callable[[], Any] | None:
        """What makes the generator of a call that returns it; None where items were taken."""
        return functools.partial(self._native, *self._args, **self._kwargs) if self.fresh else None

    def __tograph_holds__(self) -> list[Any]:
        cells = [c.cell_contents for c in self._native.__closure__ or () if c != types.CellType()]
        return [*self._args, *self._kwargs.values(), *cells]

    @property
    def fresh(self) -> bool:
        """Whether nothing was taken from it yet, so that a ``for`` may run it the other way round."""
        return place_now(self) == 0 and self._push is not None and is_tracing()

    def lose(self) -> None:
        """A ``break`` left it at a place that a generator which runs the other way round cannot go on from."""
        moved(self, LOST)

    def run(self, channel: Any) -> None:
        """Hand every value to ``channel`` until it says to stop."""
        moved(self, DONE)
        self._push(channel, *self._args, **self._kwargs)


class Through(Generator):
    """A generator of what ``form`` makes of each item of another one: ``enumerate(gen)``, ``map(f, gen)``.

    ``form`` calls what it is given with each value to hand over and returns what that returns. ``places``: state of ``form``.
    """

    def __init__(self, source: Generator, form: Any, native: Any, places: Any = ()):
        super().__init__(lambda: native(source), source._push, (), {})
        self._source, self._form, self._places = source, form, list(places)

    @property
    def fresh(self) -> bool:
        return place_now(self) == 0 and self._source.fresh

    def run(self, channel: Any) -> None:
        moved(self, DONE)
        with control_flow.ambient(self._places):
            self._source.run(lambda value: self._form(channel, value))


def enumerated(source: Generator, start: Any) -> Through:
    """``enumerate`` of a generator that is not begun."""
    box = [start]
    place = control_flow.Place(
        ("enumerate", id(box)), "the count", lambda: box[0], lambda n: box.__setitem__(0, n), box
    )

    def form(channel: Any, value: Any) -> Any:
        count = box[0]
        place.set(count + 1)
        return channel((count, value))

    return Through(source, form, lambda items: enumerate(items, start), [place])


def is_generator_function(f: Any) -> bool:
    return (
        isinstance(f, types.FunctionType)
        and inspect.isgeneratorfunction(f)
        and not getattr(f, MARK, False)
    )


def hand_over(channel: Any, value: Any) -> Any:
    """Run the consumer's body; whether the generator has to end."""
    return channel(value)


def consume(generator: Generator, body: Any, places: list, test: Any) -> None:
    """``for x in generator: body(x)``."""

    def channel(value: Any) -> Any:
        body(value)
        return False if test is None else not_(test())

    with control_flow.ambient(places):
        generator.run(channel)
    going_on = test is None or test()
    if is_staged(going_on) or not going_on:
        generator.lose()
