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

A loop over a tensor of known length, ``MANY`` at most, whose body does what a loop of the graph cannot (it fills a dict or a
deque, it makes a list of lists) is unrolled too; where that cannot be done either, the error is that of the staged loop.
"""

from __future__ import annotations

import threading

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.guarding import reads
from ..runtime.guarding.unconverted import check_keys
from ..runtime.library import debug
from ..runtime.symbols import decisions
from ..runtime.symbols.funcgraph import is_tracing
from ..runtime.symbols.retrace import Retrace
from ..runtime.values import locations
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
from .iterables import StagedRange, Steps, ViewItems, like_python, staged_source
from .iterators import ENDED, Advancing, Counting, Outer, SequenceIterator, moved, place_now
from .logical import and_
from .members import Listing
from .places import places_of
from .registry import PICKED
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


def _shared_source(x, found):
    """What gives the items of an iterator, of which others are taken elsewhere, as was ``found`` or may be; of Python's own forms that is the iterator itself."""
    if isinstance(x, Generator) and x.fresh:
        x.pulled()
        return iterator_of(x)
    if not isinstance(x, SequenceIterator) or not is_tracing():
        return iterator_of(x)
    ahead = found or isinstance(x, Counting) or is_staged(x.position)
    return PICKED[0](x) if ahead else iterator_of(x)


def for_stmt(iterable, body, names, test=None, options=None, shared=False) -> None:
    """Run the loop, or stage it; ``test`` is False once a ``break`` or ``return`` was met. ``shared``: ``_is_shared``."""
    iterable = text_options.as_text(iterable)
    if is_union(iterable):
        places = places_of(names, test, body)
        distribute(
            lambda chosen: for_stmt(chosen, body, names, test, options, shared),
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
        _staged_for(source, body, names, test, options)
    else:
        _python_for(iterable, body, names, test, given)


def _python_for(iterable, body, names, test, given) -> None:
    """``given``: what the program goes over, which ``explain`` names."""
    counting = iterable if isinstance(iterable, Counting) else None
    if counting is not None:
        iterable = counting.rest()
    reads.passed((iterable,))
    if isinstance(iterable, Listing):
        _for_listing(iterable, body, names, test)
        return
    check_keys(iterable)
    iterable = steady(iterable)
    if type(iterable) is StagedList and is_tracing():
        iterable = Steps(iterable)
    if isinstance(iterable, Steps):
        iterable.loop = True
    if type(iterable) is SequenceIterator and is_tracing():
        body = _Taking(iterable, body)
        iterable = body.places()
    if _one_by_one(iterable, counting, body, names, test, given) and isinstance(iterable, Steps):
        _rest(iterable.left, body, names, test)


class _Taking:
    """``body`` of the item at a position: an iteration that is not done after a staged ``break`` takes none.

    ``took``: whether a body took items itself, in an iteration that a staged condition decides about.
    """

    def __init__(self, iterator, body):
        self.iterator, self.body, self.took = iterator, body, False

    def __call__(self, at):
        moved(self.iterator, at + 1)
        self.body(self.iterator.items[at])
        now = self.iterator.position
        self.took = self.took or is_staged(now) or now != at + 1

    def places(self):
        """The positions of the items that are left, each asked for when the one before was taken."""
        at = place_now(self.iterator)
        while self.iterator.has(at):
            yield at
            now = self.iterator.position
            if self.took and is_staged(now):
                raise Retrace(shared=frozenset([self.body.__code__]))
            at = at + 1 if is_staged(now) else max(now, at + 1)
        if not is_staged(self.iterator.position):
            moved(self.iterator, ENDED)


def _variables(names, test, body):
    """The places of ``names``, which the body of the user's code has."""
    return places_of(names, test, body.body if isinstance(body, _Taking) else body)


def _rest(left, body, names, test) -> None:
    """The items of a list that became one of the graph in the last iteration."""
    if left is not None:
        _while(left, None, body, names, test, None)


def _one_by_one(iterable, counting, body, names, test, given) -> bool:
    """What Python does; whether no ``break`` was met for sure."""
    unrolled = debug.Unrolling() if is_tracing() else None
    rolls = test is not None and unrolled is not None and isinstance(iterable, range)
    held = test is not None and isinstance(iterable, (Advancing, Outer, Steps))
    lost = False
    if not rolls:
        decisions.python(
            "Python `for`, unrolled: it iterates over a Python {0}", like_python(given)
        )
    for item in asked(iter(iterable), test):
        if unrolled is not None:
            unrolled.step()
        if test is None:
            body(item)
            continue
        rolls = rolls and not is_staged(test())
        left = range(item, iterable.stop, iterable.step) if rolls else ()
        if left[2:]:
            goes_on = _iterated(left, body, names, test)
        else:
            goes_on = _guarded(item, body, names, test)
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
    places = _variables(names, test, body)
    holder, size = iterable.x, size_of(iterable.x)
    held = content(holder)
    for there, item in iterable.entries():
        go = there if test is None else and_(test(), lambda there=there: there)
        if is_staged(go):
            taken = control_flow.predicate(go, "for")
            control_flow.staged_if(taken, lambda item=item: body(item()), _nothing, places)
        elif go:
            body(item())
        if not alike(content(holder), held):
            keeps_size(size_of(holder) == size, type(holder), test)


def _guarded(item, body, names, test):
    """An iteration, if no ``break`` was met; whether the loop may go on."""
    go = test()
    if is_staged(go):
        places = _variables(names, test, body)
        control_flow.staged_if(
            control_flow.predicate(go, "for"), lambda: body(item), _nothing, places
        )
    elif go:
        body(item)
    else:
        return False
    return is_staged(go := test()) or go


FEW = 8  # so many iterations are worth no loop
LARGE = 100  # unless each has as many nodes
MANY = 64  # more are not unrolled where the loop cannot be staged


def _iterated(left, body, names, test):
    """The first iteration of those left, or all of them staged where it makes the test so, behind the first one where that makes state;
    whether the loop goes on.
    """
    places = _variables(names, test, body)
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
            _staged_for(StagedRange(left.start, left.stop, left.step), body, names, test, None)
    except StagingError as error:
        if left[MANY:] or error.in_any_form:
            attempt.commit()
            raise
        attempt.undo()
        return begun or _guarded(left[0], body, names, test)
    attempt.commit()
    return False


def _nothing() -> None:
    return None


class _Unrolling(threading.local):
    copies = 1  # of what is traced now, made by loops around it


_unrolling = _Unrolling()


def _staged_for(source, body, names, test, options) -> None:
    """The loop staged; one of few iterations whose body cannot be staged exactly is unrolled where that can."""
    length = source.length()
    known = type(length) is int and options is None
    if known and length == 0 and not isinstance(source, StagedRange):
        return
    if source.lists():
        _over_lists(source, body, names, test, options)
        return
    if not known or length > MANY or length * _unrolling.copies > MANY * FEW:
        _while(source, length, body, names, test, options)
        return

    def one_by_one():
        _unrolled(source, length, body, names, test)

    places = _variables(names, test, body)
    for form in (lambda: _while(source, length, body, names, test, None), one_by_one):
        attempt = control_flow.Attempt(places)
        try:
            with control_flow.alternative():
                form()
        except BaseException as error:
            if not isinstance(error, StagingError) or error.in_any_form:
                attempt.commit()
                raise
            attempt.undo()
        else:
            attempt.commit()
            return
    _while(source, length, body, names, test, None)


def _over_lists(source, body, names, test, options) -> None:
    """Over lists as they are when the loop begins; where the body changes one, anew over the list itself.

    A deque is taken as it was: Python goes over no item after a change of it.
    """
    lists = [x for x in source.lists() if type(x.list) is StagedList or isinstance(x, ViewItems)]
    attempt = control_flow.Attempt(_variables(names, test, body))
    try:
        _while(source, source.length(), body, names, test, options)
    except BaseException as error:
        if not (isinstance(error, StagingError) and any(x.changed for x in lists)):
            attempt.commit()
            raise
    if not any(x.changed for x in lists):
        attempt.commit()
        return
    attempt.undo()
    for x in lists:
        x.follow()
    _while(source, None, body, names, test, options)


def _unrolled(source, length: int, body, names, test) -> None:
    decisions.python("Python `for`, unrolled: a loop in the graph cannot do what its body does")
    copies = _unrolling.copies
    _unrolling.copies = copies * length
    try:
        for i in range(length):
            if test is None:
                body(source.item(i))
            elif not _guarded(source.item(i), body, names, test):
                return
    finally:
        _unrolling.copies = copies


def _while(source, length, body, names, test, options) -> None:
    """``length`` None: ask for it before each iteration."""
    cell = [0]
    counter = locations.item(cell, "counter", "the loop counter")

    def while_test():
        inside = cell[0] < (source.length() if length is None else length)
        return inside if test is None else and_(test(), lambda: inside)

    def while_body():
        index = cell[0]
        item = source.item(index)
        body(item)
        for x in source.lists():
            x.notice()
            if isinstance(x, ViewItems):
                keeps_size(x.same_size(), dict, test)
        counter.set(index + 1)

    places = _variables(names, test, body)
    decisions.staged("While: it iterates over a tensor or a staged range", None, places)
    limits = directives.loop_options(options, places)
    control_flow.staged_while(while_test, while_body, [counter, *places], limits, first=None)
