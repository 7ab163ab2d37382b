"""Loops over iterators whose items are also taken elsewhere: in the body, by an inner loop, behind a ``break``."""

import itertools

import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()
LISTS = ([1, 2, 3, 4, 5],), ([3],), ([],)
NUMBERS = (1.0,), (3.0,), (0.5,), (5.0,)


@cases(*LISTS, kinds=("python",))
def rest_behind_a_break(xs):
    g, out = (x * 2 for x in xs), []
    for x in g:
        if x > 4:
            break
        out.append(x)
    return out, list(g)


@cases(*LISTS, kinds=("python",))
def next_in_loops_and_comprehensions(xs):
    g, h, out = (x * 2 for x in xs), (x * 3 for x in xs), []
    for a in g:
        out.append((a, next(g, None)))
    return out, [(a, next(h, None)) for a in h]


@cases(*LISTS, kinds=("python",))
def next_by_a_function(xs):
    g = (x * 2 for x in xs)

    def step():
        return next(g, 0)

    return [(a, step()) for a in g], list(g)


@cases(*LISTS, kinds=("python",))
def inner_loops(xs):
    class Holder:
        def __init__(self):
            self.g = filter(None, xs)

    holder, groups, out = Holder(), itertools.groupby(xs, lambda x: x % 2), []
    for a in holder.g:
        for b in holder.g:
            out.append((a, b))
            break
    for key, _ in groups:
        for other, _ in groups:
            out.append((key, other))
    return out


@cases(*LISTS, kinds=("python",))
def the_source_of_a_generator(xs):
    it = iter(xs)
    return [(a, next(it, None)) for a in (x for x in it)]


@cases(*LISTS, kinds=("python",))
def sent_and_closed(xs):
    def gen():
        try:
            for x in xs:
                got = yield x
                print("got", got)
            return 7
        finally:
            print("closed")

    g, out = gen(), []
    same = g
    for x in g:
        out.append(x)
        try:
            out.append(same.send("hi"))
        except StopIteration as end:
            out.append(end.value)
        if x > 2:
            same.close()
    return out


@cases.tensors(*NUMBERS)
def staged_break_and_rest(t):
    g, out = (t * i for i in range(5)), t * 0
    for x in g:
        if x > 2:
            break
        out = out + x
    rest = list(g)
    return out, len(rest)


@cases.tensors(*NUMBERS)
def staged_next(t):
    g, out = (t * i for i in range(5)), t * 0
    for x in g:
        if x > 2:
            out = out + 10 * next(g, 0)
        out = out + x
    return out


def multiples(t, end):
    i = 0
    while i * t < end:
        yield i * t
        i += 1


@cases.tensors(*NUMBERS)
def staged_inner_loops(t):
    g, out = multiples(t, t + 9), t * 0
    for a in g:
        for b in g:
            out = out * 2 + a * b
            if out > 20:
                break
    return out


@cases.tensors(*NUMBERS)
def iterator_of_a_list(t):
    it, s = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 0.0
    for a in it:
        if t > a:
            s = s + 100 * next(it)
        s = s + a
        if s > 400 * t:
            break
    return s


@cases.tensors(*NUMBERS)
def inner_loop_over_an_iterator_of_a_list(t):
    it, s = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), t * 0
    for a in it:
        s = s + a * t
        for b in it:
            s = s + b * 10
            if s > 40 * t:
                break
    return s, sum(it)


@cases.tensors(*NUMBERS)
def counters(t):
    it, s = itertools.count(2, 3), 0
    for a in it:
        if t > a:
            s = s + next(it)
        s = s + a
        if s > 20 * t:
            break
    for a in it:
        for b in it:
            if b > 40:
                break
        if a > 50:
            break
    return s, a, b, next(it)


test_same = cases.test()


def test_long_ranges():
    @tg.function
    def f(x):
        out = []
        for i in range(1, 10**30):
            out.append(i)
            if i > 2:
                break
        return out, 10**29 in range(10**30), x.item() in range(5, 1000, 3), x.item() in range(9)

    for x in (4, 8, 9, -1):
        found = f(torch.tensor(x))
        assert found == ([1, 2, 3], True, x in range(5, 1000, 3), x in range(9))


def test_one_trace():
    f = tg.function(staged_inner_loops)
    for (t,) in NUMBERS:
        f(torch.tensor(t))
    assert f.trace_count == 1


def test_attributes_of_what_a_loop_goes_over_are_not_asked_for():
    class Asked(list):
        def __getattr__(self, name):
            seen.append(name)
            raise AttributeError(name)

    def f(x):
        out, items = [], Asked([1, 2])
        for i in items:
            out.append((i, items[0]))
        return out, x

    for run in (f, tg.function(f)):
        seen = []
        assert run(1) == ([(1, 1), (2, 1)], 1)
        assert "position" not in seen
