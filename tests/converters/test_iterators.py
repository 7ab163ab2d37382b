"""Iterators that a staged branch or loop advances."""

import csv
import io
import itertools
import re

import pytest
import torch

import tograph as tg
from tograph.errors import StagingError

XS = [torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0)]


def added(xs, n):
    it, s = iter(xs), torch.zeros(())
    if n > 1:
        for v in it:
            s = s + v
    return s, list(it)


def summed(xs, n):
    it, s = iter(xs), torch.zeros(())
    if n > 1:
        s = sum(it)
    return s, next(it, torch.tensor(9.0))


def unpacked(xs, n):
    it, s = iter(xs), torch.zeros(())
    if n > 1:
        s, *_ = it
    return s, next(it, torch.tensor(9.0))


def of_a_list_made_inside(xs, n):
    it = iter([x * 2 for x in xs])
    if n > 1:
        for _ in it:
            pass
    return list(it)


def taken_in_pairs(xs, n):
    it, s = iter(xs), torch.zeros(())
    if n > 1:
        for a, b in zip(it, it):
            s = s + a * b
    return s, list(it)


def one_and_the_rest(xs, n):
    it = iter(xs)
    first = next(it) if n > 1 else torch.zeros(())
    return first, list(it)


def each_branch(xs, n):
    pairs, doubled, numbered, back = zip(xs, xs), map(lambda v: v * 2, xs), enumerate(xs), reversed(xs)  # fmt: skip
    if n > 1:
        s = sum(a * b for a, b in pairs) + sum(doubled) + sum(i * v for i, v in numbered)
        s = s + next(back)
    else:
        s = sum(a + b for a, b in pairs) - sum(doubled) - sum(i * v for i, v in numbered)
        s = s - next(back)
    return s, list(pairs), list(doubled), list(numbered), next(back)


def generators_in_each_branch(xs, n):
    squares = (v * v for v in xs)
    if n > 1:
        s = sum(squares)
    else:
        s = torch.stack(list(squares)).prod()
    return s, list(squares)


def made_in_a_loop(xs, n):
    s = torch.zeros(())
    for _ in range(n):
        pairs, doubled = zip(xs, xs), map(lambda v: v * 2, xs)
        s = s + next(pairs)[1] + next(doubled)
        for i, v in enumerate(itertools.chain(xs, doubled)):
            if s > 5:
                s = s + i * v
    return (s,)


FOLLOWED = (
    added, summed, unpacked, of_a_list_made_inside, taken_in_pairs, one_and_the_rest, each_branch,
    generators_in_each_branch, made_in_a_loop,
)  # fmt: skip


def flat(x):
    return [v for part in x for v in flat(part)] if isinstance(x, (list, tuple)) else [x]


@pytest.mark.parametrize("f", FOLLOWED)
def test_followed(f):
    staged = tg.function(f)
    for n in (0, 2, 0, 3):
        expected, got = flat(f(XS, n)), flat(staged(XS, torch.tensor(n)))
        assert len(expected) == len(got)
        for a, b in zip(expected, got):
            torch.testing.assert_close(torch.as_tensor(b), torch.as_tensor(a), check_dtype=False)


def left_by_break(make):
    def f(xs, n):
        it = make(xs)
        for v in it:
            if torch.as_tensor(v).sum() > n:
                break
        return list(it)

    return f


def taken_in_a_branch(make):
    def f(xs, n):
        it = make(xs)
        if n > 1:
            for _ in it:
                pass
        return list(it)

    return f


def replaced_in_a_loop(make):
    def f(xs, n):
        it = make(xs)
        for _ in range(n):
            it = [v * 2 for v in it]
        return list(it)

    return f


def generated(xs):
    for x in xs:
        yield x * 2


MAKERS = {
    "map": lambda xs: map(lambda v: v * 2, xs),
    "reversed": lambda xs: reversed(xs),
    "generator": generated,
    "chain": lambda xs: itertools.chain(xs, xs),
    "dict": lambda xs: iter(dict(enumerate(xs)).values()),
}


FORMS = (left_by_break, taken_in_a_branch, replaced_in_a_loop)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("maker", ["map", "reversed", "generator"])
def test_taken_at_a_place_that_the_run_knows(form, maker):
    f = form(MAKERS[maker])
    staged = tg.function(f)
    for n in (0, 1, 2, 5):
        torch.testing.assert_close(list(staged(XS, torch.tensor(n))), f(XS, n))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("maker", ["chain", "dict"])
def test_refused(form, maker):
    with pytest.raises(StagingError, match="at a place that only the run knows"):
        tg.function(form(MAKERS[maker]))(XS, torch.tensor(2))


class Upto:
    """An iterator whose end may be staged, with a position to look at."""

    def __init__(self, n):
        self.n, self.i = n, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.i >= self.n:
            raise StopIteration
        self.i += 1
        return self.i


class Indexed:
    def __init__(self, *items):
        self.items, self.seen = items, 0

    def __getitem__(self, i):
        self.seen += 1
        if i >= len(self.items):
            raise IndexError(i)
        return self.items[i]


def of_a_class(n):
    it, total = Upto(n + 2), n * 0
    for v in it:
        total = total + v
    return total, it.i, next(it, -1), list(Upto(n))


def of_a_class_left_by_break(n):
    it, total = Upto(5), n * 0
    for v in it:
        if total > n:
            break
        total = total + v
    else:
        total = total * 100
    return total, it.i, iter(it) is it, next(it, -1), list(it)


def of_indices_left_by_break(n):
    xs, total = Indexed(1, 2, 3), n * 0
    for v in xs:
        if total > n:
            break
        total = total + v
    return total, xs.seen, list(xs)


def of_a_map_left_by_break(n):
    taken, total = [0], n * 0

    def shown(v):
        taken[0] += 1
        return v

    for v in map(shown, (1, 2, 3)):
        if total > n:
            break
        total = total + v
    return total, taken[0]


def of_a_list_left_by_break(n):
    it = iter([1, 2, 3])
    for v in it:
        if v > n:
            break
    return list(it)


def names_bound_before_a_break(n):
    total = v = 0
    for v in iter([1, 2, 3, 4]):
        total += v
        if v > n:
            break
    else:
        total = -total
    for k, w in zip(range(5), reversed([1, 2, 3, 4])):
        total += k * w
        if w * k > n:
            break
    return total, v, k


def under_a_map_left_by_break(n):
    it, total = iter([1, 2, 3, 4]), n * 0
    for v in map(abs, it):
        total = total + v
        if total > n:
            break
    return total, list(it)


def test_an_iterator_under_one_that_a_staged_break_left_is_refused():
    with pytest.raises(StagingError, match="at a place that only the run knows"):
        tg.function(under_a_map_left_by_break)(torch.tensor(2))


@pytest.mark.parametrize(
    "f", [names_bound_before_a_break, of_a_class, of_a_class_left_by_break, of_indices_left_by_break, of_a_map_left_by_break, of_a_list_left_by_break],
)  # fmt: skip
def test_takes_no_more_than_python(f):
    staged = tg.function(f)
    for n in (0, 2, 1, 9):
        assert [int(v) for v in flat(staged(torch.tensor(n)))] == [int(v) for v in flat(f(n))]


def test_effects_of_map_come_when_its_items_are_taken(capsys):
    def f(xs):
        def shown(v):
            print("item", v)
            return v

        items = map(shown, xs)
        print("before")
        total = sum(items)
        print("after", list(items))
        return total

    for run in (f, tg.function(f)):
        run([1, 2])
        assert capsys.readouterr().out.splitlines() == ["before", "item 1", "item 2", "after []"]


# ---- iterators from outside of the function

TAKES = {
    "list": list,
    "sum": sum,
    "star": lambda it: [*it],
    "call": lambda it: max(*it),
    "in": lambda it: 2 in it,
    "unpack": lambda it: _three(it),
    "extend": lambda it: [].extend(it),
    "update": lambda it: {}.update((k, k) for k in it),
    "zip": lambda it: list(zip(it, [1, 2, 3])),
    "generator": lambda it: list(_each(it)),
    "next": next,
    "alone": lambda it: torch.Size(it),
}


def _three(it):
    a, _, c = it
    return a + c


def _each(it):
    yield from it


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
def test_one_from_outside_is_advanced_at_every_call_and_by_no_staged_condition(take):
    it = iter([1, 2, 3])

    def plain(x):
        return take(it)

    def branch(c):
        if c:
            take(it)
        return c

    want = [_result(plain) for _ in range(2)]
    it = iter([1, 2, 3])
    assert [_result(tg.function(plain)) for _ in range(2)] == want
    it = iter([1, 2, 3])
    with pytest.raises(StagingError, match="an iterator from outside of the function"):
        tg.function(branch)(torch.tensor(False))
    assert list(it) == [1, 2, 3]


def _result(f):
    try:
        return f(torch.tensor(1))
    except (StopIteration, TypeError, ValueError) as error:
        return type(error)


OVER = (
    iter,
    enumerate,
    lambda it: zip(it, [4, 5, 6]),
    lambda it: itertools.islice(it, 2),
    lambda it: map(str, it),
)


@pytest.mark.parametrize("over", OVER)
def test_one_from_outside_that_a_staged_break_leaves_is_refused(over):
    it = iter([1, 2, 3])

    def f(c):
        n = 0
        for _ in over(it):
            n += 1
            if c:
                break
        return n

    with pytest.raises(StagingError, match="'it' is an iterator from outside of the function"):
        tg.function(f)(torch.tensor(True))


def test_one_from_outside_in_loops_that_are_undone_and_traced_again():
    def with_break(x):
        for _ in range(20):
            v = next(it)
            x = x + v
            if v > 2:
                break
        return x

    def unrolled(x):
        d = {}
        for row in x:
            d[next(it)] = row
        return d

    for f, x in ((with_break, torch.tensor(1)), (unrolled, torch.tensor([4, 5]))):
        it = iter(range(30))
        want = [f(x), f(x), next(it)]
        it, staged = iter(range(30)), tg.function(f)
        assert [staged(x), staged(x), next(it)] == want


def test_one_from_outside_in_a_function_that_another_one_calls():
    it = iter(range(20))
    inner = tg.function(lambda x: x + next(it))

    @tg.function
    def outer(x):
        a, b = inner(x), inner(x)
        for v in it:
            if v > 3:
                break
        return a, b, v

    @tg.function
    def branch(c):
        return inner(c.long()) if c else c

    zero = torch.tensor(0)
    assert [[int(v) for v in outer(zero)] for _ in range(2)] == [[0, 1, 4], [5, 6, 7]]
    with pytest.raises(StagingError, match="in a staged branch or loop"):
        branch(torch.tensor(False))
    assert next(it) == 8


def of_a_range(n, x):
    it = iter(range(n))
    taken = [next(it)]
    for row in x:
        if row > 0:
            at = next(it, None)
            if at is None:
                break
            taken.append(at)
    return sum(taken), len(taken)


@pytest.mark.parametrize("n", [1, 3, 9])
def test_next_of_a_range_that_the_run_knows(n):
    x = torch.tensor([1.0, -1.0, 2.0, 3.0])
    assert tg.function(of_a_range)(torch.tensor(n), x) == of_a_range(n, x)


def matches():
    return re.finditer("[ab]", "abc")


def rows():
    return csv.reader(["a,b", "c"])


def lines():
    return io.StringIO("a\nb\n")


def texts(items):
    return [x.group() if isinstance(x, re.Match) else x for x in items]


def taken_in_a_body_that_may_fail(make, n):
    items = make()
    try:
        found = texts(items)
        y = 7 // n.item()
    except ZeroDivisionError:
        y = -1
    return found, y


def taken_in_both_branches(make, n):
    items, first = make(), None
    if n > 1:
        found = texts(items)
    else:
        found = [None, *texts(items)]
    return len(found), first, list(items)


def taken_before_a_change(make, n):
    items = make()
    try:
        found = texts(items)
        getattr(items, "tell", int)()
        return found, n
    finally:
        print("end")


@pytest.mark.parametrize("make", [matches, rows, lines])
@pytest.mark.parametrize(
    "function", [taken_in_a_body_that_may_fail, taken_in_both_branches, taken_before_a_change]
)
def test_items_of_other_iterators_are_taken_again(function, make):
    staged = tg.function(function)
    for n in (2, 0, 1):
        assert staged(make, torch.tensor(n)) == function(make, torch.tensor(n))


def taken_in_one_branch(make, n):
    items = make()
    if n > 1:
        next(items)
    return list(items)


@pytest.mark.parametrize("make", [matches, rows, lines])
def test_place_that_only_the_run_knows(make):
    with pytest.raises(StagingError, match="at a place that only the run knows"):
        tg.function(taken_in_one_branch)(make, torch.tensor(1))


class Reversed(list):
    def __getitem__(self, i):
        return "item"


class Stops:
    def __getitem__(self, i):
        if i == 2:
            raise StopIteration
        return i


def of_classes(n):
    ended = iter([1, 2])
    found = [*ended]
    return found, list(ended), next(iter(Reversed([n]))), list(Stops()), [x for x in Stops()]


def test_items_of_classes():
    assert tg.function(of_classes)(3) == of_classes(3)


def appended_at_the_end(n):
    xs = [n]
    items = iter(xs)
    first, none = next(items), next(items, None)
    xs.append(n)
    return first, none, list(items)


def test_list_iterator_that_has_ended():
    assert tg.function(appended_at_the_end)(3) == (3, None, [])
