"""What ``functools.reduce`` and the iterators of ``itertools`` mean, in plain Python that is converted like a user's function.

``one_by_one`` forms take items as they are asked for, as of a generator that may have no end; the others index what has a length.
"""

from __future__ import annotations

from ..call_rules import DECIDING


def reduced(function, items, total):
    for item in items:
        total = function(total, item)
    return total


def reduced_from_first(function, items):
    count = len(items)
    if count == 0:
        raise TypeError("reduce() of empty iterable with no initial value")
    total = items[0]
    for i in range(1, count):
        total = function(total, items[i])
    return total


def accumulated(items, function):
    if len(items) > 0:
        total = items[0]
        yield total
        for i in range(1, len(items)):
            total = function(total, items[i])
            yield total


def accumulated_one_by_one(items, function):
    begun = False
    for item in items:
        if not begun:
            total, begun = item, True
        else:
            total = function(total, item)
        yield total


def accumulated_from(items, function, total):
    yield total
    for item in items:
        total = function(total, item)
        yield total


def chained(sources):
    for source in sources:
        yield from source


def cycled(items):
    i = 0
    while len(items) > 0:
        yield items[i]
        i = i + 1
        if i == len(items):
            i = 0


def cycled_one_by_one(items):
    held = []
    for item in items:
        held.append(item)
        yield item
    yield from cycled(held)


def taken(function, items):
    for item in items:
        if not function(item):
            return
        yield item


def dropped(function, items):
    dropping = True
    for item in items:
        if dropping:
            dropping = function(item)
        if not dropping:
            yield item


def refused(function, items):
    for item in items:
        if not (item if function is None else function(item)):
            yield item


def spread(function, items):
    for arguments in items:
        yield function(*arguments)


def pairs(items):
    for i in range(1, len(items)):
        yield items[i - 1], items[i]


def pairs_one_by_one(items):
    begun = False
    for item in items:
        if not begun:
            last, begun = item, True
            continue
        yield last, item
        last = item


def grouped(items, key):
    held, current = [], None
    begun = False
    for item in items:
        found = item if key is None else key(item)
        if begun and found != current:
            yield current, each_once(held)
            held.clear()
        current, begun = found, True
        held.append(item)
    if begun:
        yield current, each_once(held)
        held.clear()


def each_once(held):
    """The items of a group: none are left as the next group begins."""
    while held:
        yield held.pop(0)


def sliced_one_by_one(items, start, stop, step):
    at, wanted = 0, start
    end = None if stop is None else max(start, stop)  # what stands before the start is taken too
    if end is not None and end == 0:
        return
    for item in items:
        if at == wanted and (stop is None or at < stop):
            wanted += step
            yield item
        at = at + 1
        if end is not None and at >= end:
            return


def sliced(items, start, stop, step):
    for i in range(start, len(items) if stop is None else min(stop, len(items)), step):
        yield items[i]


def counted(first, by, start, stop, step):
    """``islice`` of an ``itertools.count``."""
    for i in range(start, stop, step):
        yield first + by * i


def chosen(items, selectors):
    for item, chosen in zip(items, selectors):
        if chosen:
            yield item


def repeated(item, times):
    for _ in range(times):
        yield item


def product(first, second):
    for x in first:
        for y in second:
            yield x, y


def combined(items):
    for i in range(len(items)):
        for j in range(i + 1, len(items)):
            yield items[i], items[j]


def permuted(items):
    for i in range(len(items)):
        for j in range(i):
            yield items[i], items[j]
        for j in range(i + 1, len(items)):
            yield items[i], items[j]


def longest(first, second, fill):
    for i in range(max(len(first), len(second))):
        yield (first[i] if i < len(first) else fill), (second[i] if i < len(second) else fill)


def text(separator, items):
    text = ""
    for i in range(len(items)):
        if i > 0:
            text = text + separator
        text = text + items[i]
    return text


FORMS = (longest, text, reduced, reduced_from_first, accumulated, accumulated_from, chained, cycled, taken, dropped, refused,
         spread, pairs, sliced, counted, chosen, repeated, product, combined, permuted,
         accumulated_one_by_one, pairs_one_by_one, sliced_one_by_one, cycled_one_by_one, grouped, each_once)  # fmt: skip
DECIDING.update(FORMS)
