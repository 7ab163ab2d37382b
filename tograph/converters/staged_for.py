"""A ``for`` as a loop of the graph: over a tensor, a staged range, lists of the graph or numbered items (``StagedSequence``), as a ``While`` with a counter.

One of few iterations, ``MANY`` at most, whose body does what a loop of the graph cannot (it fills a dict or a deque, it makes a list of lists) is unrolled, where that can be
done: each iteration behind a staged ``break`` is guarded. Where it cannot either, the error is that of the staged loop.
"""

from __future__ import annotations

import threading

from ..errors import StagingError
from ..runtime import control_flow
from ..runtime.symbols import decisions
from ..runtime.symbols.retrace import Retrace
from ..runtime.values import locations
from ..runtime.values.growing import StagedList
from . import directives
from .iterables import StagedRange, ViewItems
from .iterators import ENDED, moved, place_now
from .logical import and_
from .places import places_of
from .staging import is_staged
from .steady import keeps_size

FEW = 8  # so many iterations are worth no loop
MANY = 64  # more are not unrolled where the loop cannot be staged


class Taking:
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


def variables(names, test, body):
    """The places of ``names``, which the body of the user's code has."""
    return places_of(names, test, body.body if isinstance(body, Taking) else body)


def guarded(item, body, names, test):
    """An iteration, if no ``break`` was met; whether the loop may go on."""
    go = test()
    if is_staged(go):
        places = variables(names, test, body)
        control_flow.staged_if(
            control_flow.predicate(go, "for"), lambda: body(item), nothing, places
        )
    elif go:
        body(item)
    else:
        return False
    return is_staged(go := test()) or go


def nothing() -> None:
    return None


class _Unrolling(threading.local):
    copies = 1  # of what is traced now, made by loops around it


_unrolling = _Unrolling()


def staged_for(source, body, names, test, options) -> None:
    """The loop staged; one of few iterations whose body cannot be staged exactly is unrolled where that can."""
    length = source.length()
    known = type(length) is int and options is None
    if known and length == 0 and not isinstance(source, StagedRange):
        return
    if source.lists():
        _over_lists(source, body, names, test, options)
        return
    if not known or length > MANY or length * _unrolling.copies > MANY * FEW:
        staged_loop(source, length, body, names, test, options)
        return

    def one_by_one():
        _unrolled(source, length, body, names, test)

    places = variables(names, test, body)
    for form in (lambda: staged_loop(source, length, body, names, test, None), one_by_one):
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
    staged_loop(source, length, body, names, test, None)


def _over_lists(source, body, names, test, options) -> None:
    """Over lists as they are when the loop begins; where the body changes one, anew over the list itself.

    A deque is taken as it was: Python goes over no item after a change of it.
    """
    lists = [x for x in source.lists() if type(x.list) is StagedList or isinstance(x, ViewItems)]
    attempt = control_flow.Attempt(variables(names, test, body))
    try:
        staged_loop(source, source.length(), body, names, test, options)
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
    staged_loop(source, None, body, names, test, options)


def _unrolled(source, length: int, body, names, test) -> None:
    decisions.python("Python `for`, unrolled: a loop in the graph cannot do what its body does")
    copies = _unrolling.copies
    _unrolling.copies = copies * length
    try:
        for i in range(length):
            if test is None:
                body(source.item(i))
            elif not guarded(source.item(i), body, names, test):
                return
    finally:
        _unrolling.copies = copies


def staged_loop(source, length, body, names, test, options) -> None:
    """``length`` None: ask for it before each iteration."""
    if type(length) is int:
        length = min(length, ENDED)  # nobody sees the end of a longer one
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

    places = variables(names, test, body)
    decisions.staged("While: it iterates over a tensor or a staged range", None, places)
    limits = directives.loop_options(options, places)
    control_flow.staged_while(while_test, while_body, [counter, *places], limits, first=None)
