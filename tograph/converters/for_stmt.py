"""``for``: over a tensor or a staged range it becomes a ``While`` with a counter; over anything else a Python loop.

::

    for x in xs:                    def for_body(x_item):
        s += x               ->         nonlocal s, x
                                        x = x_item
                                        s += x
                                    ag__.for_stmt(xs, for_body, ('s', 'x'))

A ``break`` or ``return`` in a Python loop that turns out to be staged: over a ``range`` with more than ``FEW`` items left, or
with a large body, the iteration is undone and the rest of the loop is staged from before it, with a staged number as item;
else, or where the body cannot be staged so, it guards the iterations that follow it.

A long one over a ``range`` (also a ``reversed`` one), or over numbers (``number_lists``), whose iterations repeat themselves is staged behind the first one (``long_loops``).

A loop over a tensor of known length, ``MANY`` at most, whose body does what a loop of the graph cannot (it fills a dict or a
deque, it makes a list of lists) is unrolled too; where that cannot be done either, the error is that of the staged loop.
"""

from __future__ import annotations

import itertools
import types

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.guarding import reads
from ..runtime.guarding.unconverted import check_keys
from ..runtime.library import debug
from ..runtime.symbols import decisions
from ..runtime.symbols.funcgraph import current_graph, is_tracing, user_location
from ..runtime.values.growing import StagedList
from ..runtime.values.structure import is_union
from ..transpiler.anno import Fact, get_fact
from ..transpiler.scope import names_read
from ..transpiler.syntax import gast
from ..transpiler.templates import name
from . import directives, text_options
from .context import OPERATORS
from .generators import Generator, consume, is_shared
from .iter_call import iterator_of
from .iterables import StagedRange, Steps, like_python, staged_source
from .iterators import Advancing, Counting, Outer, SequenceIterator, size
from .logical import and_
from .long_loops import LEAST, LongLoop
from .members import Listing
from .number_lists import rows_of
from .places import places_of
from .registry import PICKED
from .staged_for import FEW, MANY, Taking, guarded, nothing, staged_for, staged_loop, variables
from .staging import is_staged
from .steady import alike, asked, content, keeps_size, size_of, steady
from .union import distribute


def rewrite(pass_, node):
    names = pass_.state_of(node, Fact.LIVE_OUT, Fact.LIVE_IN_HEAD)
    options = directives.take(pass_, node)
    item = pass_.context.namer.fresh("item")
    target = gast.Assign([node.target], name(item), None)
    gast.copy_location(target, node.target)
    gast.copy_location(target.value, node.target)
    out = []
    extra = getattr(node, "extra_test", None)
    body = pass_.body_function("for_body", [target, *pass_.block(node.body)], node, params=(item,))
    holes = {
        "iter_": pass_.visit(node.iter),
        "body_": body.name,
        "names_": pass_.names_node(names, node),
    }
    text = "iter_, body_, names_"
    if isinstance(node.iter, gast.Name) and _is_shared(node, node.iter.id, extra is not None):
        text += ", shared=True"
    elif makers := _makers(node.iter):
        text, holes["makers_"] = text + ", makers=makers_", gast.Tuple(makers, gast.Load())
    if extra is not None:
        ret = gast.copy_location(gast.Return(extra), node)
        test = pass_.body_function("for_test", [ret], node)
        out.append(test)
        text, holes["test_"] = text + ", test=test_", test.name
    if options is not None:
        text, holes["options_"] = text + ", options=options_", options
    out += [body, *pass_.fill(f"{OPERATORS}.for_stmt({text})", node, **holes)]
    return out + (pass_.block(node.orelse) if node.orelse else [])


def _is_shared(node, name_: str, ends: bool) -> bool:
    """Whether what a loop goes over is read in its body, or after a ``break``: an iterator may give others of its items there."""
    return name_ in names_read(node.body) or (ends and name_ in get_fact(node, Fact.LIVE_OUT, ()))


_MAKERS = (reversed, enumerate, zip, itertools.repeat)
_NAMES = tuple(f.__name__ for f in _MAKERS)


def _makers(node) -> list:
    """What seems to make the iterator that a loop goes over (``reversed(..)``), and the one in that (``enumerate(zip(..))``): a name, or that of a module with one."""
    if not isinstance(node, gast.Call):
        return []
    called, found = node.func, []
    if isinstance(called, gast.Name) and called.id in _NAMES:
        found = [name(called.id)]
    elif isinstance(called, gast.Attribute) and isinstance(called.value, gast.Name) and called.attr in _NAMES:  # fmt: skip
        found = [gast.Tuple([name(called.value.id), gast.Constant(called.attr, None)], gast.Load())]
    return [*found, *(_makers(node.args[0])[:1] if found and node.args else ())]


def _fresh(makers) -> int:
    """Whether a loop goes over an iterator that nobody else has, as one of Python's makers gave it; 2: of one that nobody else has."""
    count = 0
    for made in makers:
        if type(made) is tuple:
            module, attribute = made
            made = getattr(module, attribute, None) if isinstance(module, types.ModuleType) else None  # fmt: skip
        if not any(made is f for f in _MAKERS):
            break
        count += 1
    return count


def _numbers_of(iterable):
    """The numbers of an iterator over a range that nobody else has."""
    if type(iterable) is not SequenceIterator or type(iterable.items) is not range or iterable.position != 0:  # fmt: skip
        return iterable
    return iterable.items


def _shared_source(x, found):
    """What gives the items of an iterator, of which others are taken elsewhere, as was ``found`` or may be; of Python's own forms that is the iterator itself."""
    if isinstance(x, Generator) and x.fresh:
        x.pulled()
        return iterator_of(x)
    if not isinstance(x, SequenceIterator) or not is_tracing():
        return iterator_of(x)
    ahead = found or isinstance(x, Counting) or is_staged(x.position)
    return PICKED[0](x) if ahead else iterator_of(x)


def for_stmt(iterable, body, names, test=None, options=None, shared=False, makers=()) -> None:
    """Run the loop, or stage it; ``test`` is False once a ``break`` or ``return`` was met. ``shared``: ``_is_shared``; ``makers``: ``_makers``."""
    iterable = text_options.as_text(iterable)
    fresh = _fresh(makers)
    if fresh:
        iterable = _numbers_of(iterable)
    if is_union(iterable):
        places = places_of(names, test, body)
        distribute(
            lambda chosen: for_stmt(chosen, body, names, test, options, shared, makers),
            iterable,
            places=places,
        )
        return
    given, found = iterable, is_shared(body)
    shared = shared or found
    iterable = _shared_source(given, found) if shared else iterator_of(given)
    whole = iterable is not given or not shared
    if isinstance(iterable, Generator) and whole and iterable.fresh:
        consume(iterable, body, places_of(names, test, body), test)
        return
    source = staged_source(iterable)
    if source is not None:
        staged_for(source, body, names, test, options)
    else:
        _python_for(iterable, body, names, test, given, fresh)


def _python_for(iterable, body, names, test, given, fresh=0) -> None:
    """``given``: what the program goes over, which ``explain`` names."""
    counting = iterable if isinstance(iterable, Counting) else None
    if counting is not None:
        iterable = counting.rest()
    reads.passed((iterable,))
    if isinstance(iterable, Listing):
        _for_listing(iterable, body, names, test)
        return
    check_keys(iterable)
    rows = (
        rows_of(iterable, fresh, LEAST)
        if is_tracing() and not current_graph().root.straight
        else None
    )
    if rows is not None:
        iterable = _over_rows(rows, body, names, test, given)
        if iterable is None:
            return
    iterable = steady(iterable)
    if type(iterable) is StagedList and is_tracing():
        iterable = Steps(iterable)
    if isinstance(iterable, Steps):
        iterable.loop = True
    if type(iterable) is SequenceIterator and is_tracing():
        body = Taking(iterable, body)
        iterable = body.places()
    if type(iterable) is range and is_tracing():
        _over_range(iterable, counting, body, names, test, given)
    elif _one_by_one(iterable, counting, body, names, test, given) and isinstance(iterable, Steps):
        _rest(iterable.left, body, names, test)


def _rest(left, body, names, test) -> None:
    """The items of a list that became one of the graph in the last iteration."""
    if left is not None:
        staged_loop(left, None, body, names, test, None)


def _over_range(items, counting, body, names, test, given) -> None:
    """The items of a range while tracing: one by one, and what is left of them staged where a test becomes so, or where there are many alike."""
    unrolled = debug.Unrolling()
    if test is None:
        _tell_unrolled(given)

    def staged(at) -> None:
        staged_loop(_staged_range(items[at:]), count - at, body, names, test, None)

    count = size(items)
    long = LongLoop(count, body.__code__, lambda: variables(names, test, body), staged)
    at = 0
    try:
        while at < count:
            unrolled.step()
            if not _counted(items[at:], body, names, test):
                if counting is not None and not is_staged(test()):
                    counting.give_back(items[at + 1 :])
                return
            if counting is not None or (test is not None and is_staged(test())):
                long.close()
            at = long.ended()
            if long.over:
                return
    finally:
        long.close()


def _over_rows(rows, body, names, test, given):
    """Rows of numbers while tracing, one by one for as long as they may turn out to repeat themselves; what is left for Python then, None where the loop has ended."""
    unrolled = debug.Unrolling()
    _tell_unrolled(given)

    def staged(at) -> None:
        staged_loop(rows.source(at), rows.count - at, body, names, test, None)
        if not rows.unchanged():
            raise StagingError("the list that a loop goes over is changed in it", user_location())

    long = LongLoop(rows.count, body.__code__, lambda: variables(names, test, body), staged)
    at = 0
    try:
        while long.watched and at < rows.count and rows.unchanged():
            unrolled.step()
            if test is None:
                body(rows.item(at))
            elif not guarded(rows.item(at), body, names, test):
                return None
            elif is_staged(test()):
                long.close()
            at = long.ended()
            if long.over:
                return None
    finally:
        long.close()
    return rows.left(at)


def _counted(left, body, names, test) -> bool:
    """The first iteration of those left of a range; whether the loop goes on."""
    if test is None:
        body(left[0])
        return True
    if left[2:] and not is_staged(test()):
        return _iterated(left, body, names, test)
    return guarded(left[0], body, names, test)


def _staged_range(items: range) -> StagedRange:
    return StagedRange(items.start, items.stop, items.step)


def _tell_unrolled(given) -> None:
    decisions.python("Python `for`, unrolled: it iterates over a Python {0}", like_python(given))


def _one_by_one(iterable, counting, body, names, test, given) -> bool:
    """What Python does; whether no ``break`` was met for sure."""
    unrolled = debug.Unrolling() if is_tracing() else None
    held = test is not None and isinstance(iterable, (Advancing, Outer, Steps))
    lost = False
    _tell_unrolled(given)
    for item in asked(iter(iterable), test):
        if unrolled is not None:
            unrolled.step()
        if test is None:
            body(item)
            continue
        goes_on = guarded(item, body, names, test)
        lost = lost or (held and is_staged(test()))
        if not goes_on:
            if counting is not None and not is_staged(test()):
                counting.give_back(iterable[iterable.index(item) + 1 :])
            break
    else:
        goes_on = True
    if lost and getattr(iterable, "left", None) is None:
        iterable.lose()
    return goes_on


def _for_listing(iterable, body, names, test):
    """The items of a set or dict that are there, one by one."""
    places = variables(names, test, body)
    holder, size = iterable.x, size_of(iterable.x)
    held = content(holder)
    for there, item in iterable.entries():
        go = there if test is None else and_(test(), lambda there=there: there)
        if is_staged(go):
            taken = control_flow.predicate(go, "for")
            control_flow.staged_if(taken, lambda item=item: body(item()), nothing, places)
        elif go:
            body(item())
        if not alike(content(holder), held):
            keeps_size(size_of(holder) == size, type(holder), test)


LARGE = 100  # unless each has as many nodes


def _iterated(left, body, names, test):
    """The first iteration of those left, or all of them staged where it makes the test so, behind the first one where that makes state;
    whether the loop goes on.
    """
    places = variables(names, test, body)
    attempt = control_flow.Attempt(places)
    go = attempt.run(lambda: (body(left[0]), test())[1])
    if not is_staged(go) or (not left[FEW:] and attempt.size() < LARGE):
        attempt.commit()
        return is_staged(go) or go
    begun = attempt.lasts() or (control_flow.outermost() and attempt.makes_state())
    if begun:
        attempt.commit()
        left = left[1:]
    else:
        attempt.undo()
    attempt = control_flow.Attempt(places)
    try:
        with control_flow.alternative():
            staged_for(_staged_range(left), body, names, test, None)
    except StagingError as error:
        if left[MANY:] or error.in_any_form:
            attempt.commit()
            raise
        attempt.undo()
        return begun or guarded(left[0], body, names, test)
    attempt.commit()
    return False
