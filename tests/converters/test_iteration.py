"""``functools.reduce``, ``itertools`` and ``str.join`` over what is known only when the graph runs."""

import functools
import itertools
import operator

import pytest
import torch

import tograph as tg

from .both import Cases

cases = Cases()
NUMBERS = ((3,), (0,), (1,), (5,))
ROWS = (([1.0, 2.0, 3.0],), ([4.0],))


@cases(*NUMBERS)
def reduced(n):
    odd = [i for i in range(n) if i != 1]
    return functools.reduce(operator.add, range(n), 0), functools.reduce(lambda a, b: a * 10 + b, odd, 1)  # fmt: skip


@cases(*NUMBERS)
def reduced_without_a_first(n):
    return functools.reduce(lambda a, b: a if a > b else b, [i * 7 % 5 for i in range(n)])


@cases.tensors(*ROWS)
def reduced_rows(xs):
    x = torch.stack(xs)
    return functools.reduce(lambda a, b: a * b, [i + 1 for i in x], torch.ones(())), functools.reduce(max, x)  # fmt: skip


@cases(*NUMBERS)
def sliced_count(n):
    rows = []
    for i in itertools.islice(itertools.count(5), n):
        rows.append(i * 2)
    return rows, list(itertools.islice(itertools.count(3, -2), 1, n + 1)), sum(itertools.islice(itertools.count(), 0, n, 2))  # fmt: skip


def test_islice_of_an_iterator_without_an_end():
    @tg.function
    def f(n):
        return list(itertools.islice(itertools.repeat(4), n))

    with pytest.raises(tg.errors.StagingError, match="islice .* at most"):
        f(torch.tensor(2))


@cases.tensors(*ROWS)
def cycled(xs):
    total, n = xs[0] * 0, 0
    for v in itertools.cycle(xs):
        total = total + v
        n += 1
        if total > 9:
            break
    steps = itertools.cycle([1.0, 5.0])
    while total < 40:
        total = total + next(steps)
    return total, n, next(steps), [a for a, _ in zip(itertools.cycle(xs), range(5))]


@cases(*NUMBERS)
def cycled_of_some(n):
    kept = (i for i in range(n) if i != 1)
    found = []
    for i in itertools.cycle(kept):
        found.append(i)
        if len(found) > 4:
            break
    return found, list(itertools.islice(itertools.cycle([7, 8, 9]), n))


@cases(*NUMBERS)
def from_several(n):
    rows = [[i, -i] for i in range(n) if i != 2]
    first, second = itertools.tee([i for i in range(n) if i != 2])
    next(second, None)
    pairs = [(a, b) for a, b in zip(first, second)]
    return sum(itertools.chain.from_iterable(rows)), pairs


@cases(*NUMBERS)
def accumulated(n):
    doubled = itertools.accumulate(range(n), lambda a, b: a * 2 + b, initial=1)
    return list(itertools.accumulate(range(n))), list(doubled)


@cases(*NUMBERS)
def accumulated_until(n):
    s = 0
    for v in itertools.accumulate(range(n)):
        if v > 2:
            break
        s += v
    return s


@cases(*NUMBERS)
def chained(n):
    s = 0
    for v in itertools.chain(range(n), [10, 11]):
        s = s * 2 + v
    return s, list(itertools.chain(range(n), range(n)))


@cases(*NUMBERS)
def by_a_condition(n):
    below = list(itertools.takewhile(lambda i: i < n, range(10)))
    above = list(itertools.dropwhile(lambda i: i < n, range(6)))
    odd = list(itertools.filterfalse(lambda i: i % 2 == 0, range(n)))
    return below, above, odd, sum(itertools.takewhile(lambda i: i < n, [0, 1, 2, 3]))


@cases(*NUMBERS)
def in_tuples(n):
    products = list(itertools.starmap(lambda a, b: a * b, zip(range(n), range(n), strict=True)))
    chosen = list(itertools.compress(range(n), [True, False, True]))
    chosen += itertools.compress([5, 6, 7], [n > 0, 0, n * 2])
    filled = list(itertools.zip_longest(range(n), range(2), fillvalue=-1))
    return products, chosen, filled, list(itertools.pairwise(range(n)))


@cases(*NUMBERS)
def crossed(n):
    s = 0
    for a, b in itertools.product(range(n), repeat=2):
        s += a * b
    for a, b in itertools.combinations(range(n), 2):
        s += a - b
    return (
        s,
        list(itertools.product(range(n), [1, 2])),
        list(itertools.combinations([1, 2], 2)),
        list(itertools.permutations(range(n), 2)),
    )


@cases(*NUMBERS)
def parts(n):
    first, later = list(itertools.islice(range(10), n)), list(itertools.islice(range(n), 1, None))
    return first, later, list(itertools.islice(range(n), 0, 4, 2)), list(itertools.repeat(7, n))


@cases(*NUMBERS)
def counted(n):
    s = 0
    for i in itertools.count():
        if i >= n:
            break
        s += i
    for i, j in zip(itertools.count(5), range(n)):  # noqa: B905  the shorter one decides
        s += i * j
    return s, i


@cases(*NUMBERS)
def counted_by_next(n):
    ids = itertools.count(1)
    s = 0
    while n > 0:
        s += next(ids)
        n = n - 1
    return s, next(ids)


@cases(*NUMBERS)
def counted_in_python(n):
    ids = itertools.count(0, 2)
    for i in ids:
        if i > 6:
            break
        n = n + i
    return n, next(ids)


@cases(*NUMBERS)
def joined(n):
    return ",".join(str(i) for i in range(n)), "".join(["a" if i > 1 else "b" for i in range(n)])


@cases(*NUMBERS)
def items_of_ranges(n):
    r = range(1, n + 2)
    try:
        third = r[2]
    except IndexError:
        third = -1
    return r[0], r[-1], third, range(0, 40, 2)[n], range(9)[-1 - n]


@cases((3,), (12,))
def item_outside_of_a_range(n):
    return range(10)[n]


@cases(*NUMBERS)
def lists_of_strings(n):
    words = ["start"]
    for i in range(n):
        words.append("even" if i % 2 == 0 else f"odd {i}")
    return words, words[-1] == "even", "even" in words, len(words)


@cases(*NUMBERS)
def lists_of_records_with_strings(n):
    found = []
    for i in range(n):
        if i == 0:
            found.append(("first", i))
        else:
            found.append(("later" if i > 1 else "second", i))
    for word, i in found:
        print(word, i)
    return found


@cases((3,))
def what_is_not_iterable(n):
    said = []
    for wrong in (lambda: list(tg.TensorArray(torch.float32, 2)), lambda: list(5), lambda: max()):
        try:
            wrong()
        except TypeError as error:
            said.append(str(error))
    return said


def numbers():
    n = 0
    while True:
        yield n
        n += 1


def told():
    for n in numbers():
        print(n)
        yield n


@cases((1,), (3,))
def of_generators_without_an_end(x):
    sums, pairs = x, []
    for total in itertools.accumulate(numbers()):
        if total > 9:
            break
        sums = sums + total
    for a, b in itertools.pairwise(numbers()):
        if b > 3:
            break
        pairs.append(a * b * x)
    none = list(itertools.islice(told(), 3, 2))  # takes three
    return sums, pairs, none, list(itertools.islice(numbers(), 3)), [x * k for k in itertools.islice(numbers(), 1, 6, 2)]  # fmt: skip


def down_from(x):
    while x > 0:
        x = x - 1
        yield x


@cases.tensors((2,), (0,), (5,))
def of_staged_generators(x):
    first, later = list(itertools.islice(down_from(x), 2)), list(itertools.islice(down_from(x), 1, 9, 2))  # fmt: skip
    return first, later, list(itertools.accumulate(down_from(x))), list(itertools.pairwise(down_from(x)))  # fmt: skip


@cases.tensors((torch.tensor([1.0, 2.0, -3.0]),), (torch.tensor([-1.0, 2.0, 0.5]),))
def grouped(x):
    sums = [(k, sum(g)) for k, g in itertools.groupby(x, key=lambda v: bool(v > 0))]
    return sums, [(k, len(list(g))) for k, g in itertools.groupby((x > 0).tolist())]


@cases.tensors((torch.tensor([1.0, 2.0, -3.0]),), (torch.tensor([-1.0, 2.0, 0.5]),))
def sorted_either_way(x):
    names = ["b", "a", "c"]
    names.sort(reverse=bool(x[0] > 0))
    kept = [v for v in x if v > -2]
    kept.sort(reverse=x[0] > 0)
    return names, sorted(x, reverse=bool(x.sum() > 0)), sorted([3, 1], reverse=x[0] > 0), kept


test_same = cases.test()


def test_a_counter_after_a_staged_loop():
    @tg.function
    def f(n):
        ids = itertools.count()
        for i in ids:
            if i >= n:
                break
        return next(ids)

    assert f(torch.tensor(100)) == 101
    assert f(torch.tensor(3)) == 4
    assert f.trace_count == 1


def test_errors_are_at_the_line_of_the_user():
    def f(n):
        return functools.reduce(operator.add, range(n))

    with pytest.raises(TypeError, match="reduce\\(\\) of empty iterable with no initial value") as caught:  # fmt: skip
        tg.function(f)(torch.tensor(0))
    notes = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert f'File "{__file__}", line {f.__code__.co_firstlineno + 1}' in notes
    assert "builtin" not in notes


def test_a_generator_that_a_break_left_is_not_taken_for_ended():
    @tg.function
    def f(x):
        source = (x * i for i in range(5))
        for _ in source:
            break
        return list(source)

    torch.testing.assert_close(f(torch.ones(1)), [torch.full((1,), float(i)) for i in range(1, 5)])


def test_islice_takes_no_float():
    def f(x):
        return list(itertools.islice(range(5), x.sum().item()))

    x = torch.ones(2)
    for run in (f, tg.function(f)):
        with pytest.raises(ValueError, match="Stop argument for islice\\(\\) must be None or an integer"):  # fmt: skip
            run(x)
