"""for: over tensors, staged ranges, Python iterables; targets; the iterated value afterwards."""

import itertools
from collections import defaultdict, deque

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()
ROWS = torch.arange(6.0).reshape(3, 2)


@cases.tensors((ROWS,), (torch.zeros(0, 2),))
def over_rows(x):
    s = torch.zeros(2)
    for row in x:
        s = s + row * row
    return s


@cases.tensors((ROWS,), (torch.zeros(0, 2),))
def target_keeps_the_last(x):
    row = torch.tensor([7.0, 7.0])
    for row in x:
        pass
    return row


@cases.tensors((ROWS,), (torch.zeros(0, 2),))
def target_undefined_when_empty(x):
    for row in x:
        pass
    return row


@cases.tensors((torch.tensor(3.0),))
def scalar_is_not_iterable(x):
    for v in x:
        print(v)


@cases.tensors((ROWS,))
def unpacked_rows(x):
    s = 0
    for a, b in x:
        s = s + a * b
    return s


@cases((4,), (0,), (-2,))
def over_range(n):
    s = 0
    for i in range(n):
        s += i
    return s


@cases((1, 9, 3), (9, 1, -2), (0, 0, 1), (5, 1, 1))
def range_with_step(a, b, c):
    s = 0
    last = -1
    for i in range(a, b, c):
        s = s * 2 + i
        last = i
    return s, last


@cases((1, 5, 0))
def range_with_step_zero(a, b, c):
    for i in range(a, b, c):
        pass


@cases((4,), (0,))
def range_target_after(n):
    i = 50
    for i in range(n):
        i = i * 10
    return i


@cases((3,), (0,))
def range_is_read_once(n):
    k = 0
    for i in range(n):
        n = 0
        k += 1
    return k, n


@cases(([1, 2, 3],), ([],))
def over_a_list(l):
    s = 0
    for v in l:
        if v > 1:
            s += v
    return s


@cases(({"a": 1, "b": 2},))
def over_a_dict(d):
    out = []
    for k, v in d.items():
        out.append((k, v + 1))
    for k in d:
        out.append(k)
    return out


@cases(("abc",), kinds=("python",))
def over_a_string(s):
    r = ""
    for c in s:
        r = c + r
    return r


@cases(([1, 2], [3, 4, 5]))
def over_zip_and_enumerate(a, b):
    s = []
    for i, (x, y) in enumerate(zip(a, b), 1):
        s.append(i * x + y)
    return s


@cases.tensors((ROWS, ROWS + 1), (ROWS[:0], ROWS))
def staged_zip_and_enumerate(a, b):
    s = torch.zeros(2)
    k = 0
    for i, (x, y) in enumerate(zip(a, b), start=2):
        s = s + i * x - y
        k += i
    return s, k


@cases.tensors((ROWS,))
def staged_reversed_and_map(x):
    s = torch.zeros(2)
    for row in reversed(x):
        s = s / 2 + row
    for v in map(lambda r: r.sum(), x):
        s = s + v
    return s


@cases.tensors((torch.tensor([3, -1, 2, -5]),))
def staged_filter_and_sorted(x):
    s = 0
    for v in filter(lambda e: e > 0, x):
        s = s * 10 + v
    for v in sorted(x):
        s = s * 10 + v
    return s


@cases((3,))
def generator_of_python_values(x):
    def numbers(k):
        for i in range(k):
            yield i * i

    s = x
    for v in numbers(4):
        s = s + v
    return s


@cases((3,))
def itertools_chain(x):
    s = x
    for a, b in itertools.product([1, 2], (3, 4)):
        s = s * 2 + a - b
    for v in itertools.islice(itertools.count(2), 3):
        s += v
    return s


@cases((3,), (0,))
def next_of_an_iterator(n):
    it = iter([1, 2, 4, 8, 16])
    s = 0
    for _ in range(n):
        s += next(it)
    return s


@cases((3,))
def iterator_exhausted(n):
    it = iter([1])
    s = 0
    for _ in range(n):
        s += next(it)
    return s


@cases((3,), (0,))
def lambdas_over_the_target(n):
    fs = [lambda: i for i in range(3)]
    out = []
    for k in range(3):
        out.append(lambda: k)
    return [f() for f in fs], [f() for f in out]


@cases((3,), (0,))
def list_of_results(n):
    out = []
    for i in range(n):
        out.append(i * 2)
    return out


@cases((3,), (0,))
def none_then_value(n):
    v = None
    for i in range(n):
        v = i + 10 if v is None else v + 1
    return v


@cases((2,))
def list_grows_while_iterated(n):
    l = [1, 2]
    s = 0
    for v in l:
        if len(l) < 5:
            l.append(v + 10)
        s += v
    return l, s


@cases((2, 3), (0, 3))
def nested_ranges(a, b):
    s = 0
    for i in range(a):
        for j in range(b):
            if (i + j) % 2 == 0:
                s += i * 10 + j
    return s


@cases((4,), (0,))
def starred_target(n):
    s = 0
    for a, *rest in [(1, 2, 3), (4, 5)]:
        s += a * n + len(rest)
    return s


@cases((4,))
def attribute_target(n):
    class Box:
        pass

    b = Box()
    d = {}
    for b.x in range(n):
        pass
    for d["k"] in range(n):
        pass
    return b.x, d


@cases((4,))
def wrong_target(n):
    for a, b in [(1, 2, 3)]:
        n += a
    return n


@cases.tensors((ROWS,))
def loop_variable_changed_in_place(x):
    for row in x:
        row.add_(1)
    return x


@cases((3,), (0,))
def prints(n):
    for i in range(n):
        print("i", i)
    print("end")


@cases((5,), kinds=("python",))
def tuple_modified_in_loop(n):
    d = {"a": 1}
    for k in d:
        d[k + "x"] = 1
    return d


def rows_that_are_even(xs):
    for e in xs:
        if e % 2 == 0:
            yield e


@cases.tensors((torch.tensor([2, 3, 4, 6, 8]),), (torch.tensor([1, 3]),))
def enumerate_and_map_of_a_generator(x):
    total, last = torch.tensor(0), 0
    for i, e in enumerate(map(lambda v: v + 1, rows_that_are_even(x)), 1):
        if i == 3:
            break
        total, last = total + e * i, i
    return (
        total,
        last,
        list(enumerate(rows_that_are_even(x))),
        sum(map(lambda v: v * 2, rows_that_are_even(x))),
    )


@cases.tensors((torch.tensor([2, 3, 4, 6, 8]),), (torch.tensor([2, -3, 4, 6, 8]),))
def generator_defined_inside(x):
    seen = 0

    def walk(rows, least, *, step=1):
        nonlocal seen
        for e in rows:
            seen = seen + step
            if e > least:
                yield e
            elif e < 0:
                return
        yield torch.tensor(-7)

    total, kept = torch.tensor(0), []
    for e in walk(x, 2):
        if e == 4:
            continue
        total = total + e
        kept.append(e)
    return total, kept, seen, list(walk(x, 100, step=2)), seen


def doubled_until(x, limit):
    """What is sent may raise the limit; a ``for`` sends nothing."""
    while x < limit:
        x = x * 2
        more = yield x
        if more is not None:
            limit = limit + more
    last: int | None = yield -x
    yield 7 if last is None else last


@cases.tensors((torch.tensor(3), torch.tensor(20)), (torch.tensor(9), torch.tensor(2)))
def generator_that_may_be_sent_values(x, limit):
    seen = []
    for v in doubled_until(x, limit):
        if v == 7:
            break
        seen.append(v)
    sent = doubled_until(1, 2)
    first = next(sent)
    return seen, list(doubled_until(x, limit)), first, sent.send(1), sent.send(2), sent.send(3)


@cases.tensors((torch.tensor([2, 3, 4, 6]),))
def recursive_generator_defined_inside(x):
    def leaves(low, high):
        if high - low <= 1:
            yield x[low]
            return
        middle = (low + high) // 2
        yield from leaves(low, middle)
        yield from leaves(middle, high)

    total = torch.tensor(0)
    for v in leaves(0, 4):
        if v > 3:
            total = total + v
    return total


@cases((2,), (0,), (-1,))
def a_range_or_a_number_after_a_loop(n):
    k = 1
    for i in range(n):
        if i > 0:
            k = range(3)
    return k if n < 2 else list(k)


@cases.tensors((torch.tensor(300.0),), (torch.tensor(2.0),), (torch.tensor(0.0),))
def newton_until_small(x):
    old = None
    y = x
    for i in range(1000):
        y = (y + x / y) / 2
        if old is not None and (y - old).abs() < 1e-4:
            print(f"done after {i}")
            return y, i
        if torch.isnan(y):
            break
        old = y
    else:
        print("never")
    return y, -i


@cases.tensors((torch.tensor(3.0),), (torch.tensor(100.0),))
def counts_down(x):
    seen = []
    for k in range(20, 0, -2):
        seen.append(x * k)
        if k % 4 == 0:
            continue
        x = x - k
        if x < 0:
            break
    return x, k, len(seen), seen[-1]


@cases.tensors((torch.tensor(3.0),), (torch.tensor(100.0),))
def items_that_index_a_python_list(x):
    names = [f"layer{i}" for i in range(12)]
    used = {}
    for i in range(12):
        used[names[i]] = i
        x = x - i
        if x < 0:
            break
    return x, i


@cases.tensors((torch.tensor(3.0),), (torch.tensor(100.0),))
def items_that_are_new_keys(x):
    found = {}
    for i in range(10):
        found[i] = x
        x = x - i
        if x < 0:
            break
    return x, found[0], found[1]


@cases.tensors((torch.tensor(2.0),), (torch.tensor(9.0),))
def a_break_that_is_staged_late(x):
    total = torch.zeros(())
    for i in range(30):
        if i > 3 and total > 20:
            break
        total = total + x * i
    return total, i


class Kept:
    def __init__(self, x):
        self.items = []
        for v in x:
            if v > 0:
                self.items.append(v)

    def __iter__(self):
        return iter(self.items)


@cases(([1.0, -2.0, 3.0],), ([-1.0, -2.0],))
def an_object_that_gives_the_iterator_of_a_list_of_the_graph(x):
    first, others = x[0], []
    for v in Kept(x):
        if v > 2:
            break
        first = v
    for i, v in enumerate(Kept(x)):
        others.append(v * i)
    return (
        first,
        others,
        list(Kept(x)),
        [(a, b) for a, b in zip(Kept(x), Kept(x))],
        [*map(abs, Kept(x))],
    )


test_same = cases.test()


def test_a_range_with_a_staged_break_is_one_while():
    text = str(tg.function(newton_until_small).get_concrete_function(torch.tensor(2.0)).graph)
    assert text.count("While") == 1 and text.count("aten.div.Tensor") < 10


def test_a_short_range_stays_unrolled():
    @tg.function
    def f(x):
        for i in range(3):
            x = x * i
            if x < 0:
                break
        return x

    assert "While" not in str(f.get_concrete_function(torch.tensor(2.0)).graph)


def test_a_long_range_that_cannot_be_staged_says_why():
    @tg.function
    def f(x, found):
        for i in range(500):
            found[i] = x
            x = x - i
            if x < 0:
                break
        return found

    with pytest.raises(tg.errors.StagingError, match="key"):
        f(torch.tensor(2.0), {-1: torch.zeros(())})


def test_a_long_range_fills_a_dict_of_the_caller():
    def f(x, found):
        for i in range(500):
            found[i] = x * 2
            x = x - i
            if x < 0:
                break
        return found

    staged, expected = {}, {}
    assert tg.function(f)(torch.tensor(2.0), staged) is staged
    assert staged == f(torch.tensor(2.0), expected)


def test_one_while_for_a_staged_range():
    f = tg.function(over_range)
    text = str(f.get_concrete_function(torch.tensor(3)).graph)
    assert "While" in text and "arange" not in text


def test_rows_with_a_dynamic_length():
    f = tg.function(over_rows, input_signature=[tg.TensorSpec([None, 2], torch.float32)])
    for n in (0, 1, 5):
        x = torch.randn(n, 2)
        assert torch.allclose(f(x), over_rows(x))
    assert f.trace_count == 1
    assert "While" in str(f.concrete_functions[0].graph)


@pytest.mark.parametrize("n", [0, 3])
def test_tg_range(n):
    @tg.function
    def f(n):
        s = 0
        for i in tg.range(n):
            s += i
        return s

    assert f(n) == sum(range(n))
    assert "While" in str(f.concrete_functions[0].graph)


# ---- loops of few iterations that a loop of the graph cannot do

few = Cases()


@few.tensors((ROWS,), (ROWS - 4,))
def fills_a_dict(x):
    kept = {}
    for i, row in enumerate(x):
        if row.sum() > 6:
            break
        kept[i] = [row]
    return x


@few((ROWS,), (torch.zeros(0, 2),))
def keeps_the_last_two(x):
    last = deque(maxlen=2)
    by_parity = defaultdict(list)
    for i, row in enumerate(x):
        last.append(row)
        by_parity[i % 2].append(row * 2)
    return list(last), dict(by_parity)


@few((ROWS,), (ROWS - 3,))
def lists_of_lists(x):
    return [[v * 2 for v in row if v > 1] for row in x], {i: r.sum() for i, r in enumerate(x)}


test_unrolled = few.test()


def test_unrolled_only_where_it_must_be():
    def kept_by_row(x):
        found = {}
        for i, row in enumerate(x):
            found[i] = row.sum()
        return found

    unrolled = tg.function(kept_by_row).get_concrete_function(ROWS)
    assert "While" not in str(unrolled.graph)
    assert "While" in str(tg.function(over_rows).get_concrete_function(ROWS).graph)
    found = tg.function(kept_by_row, input_signature=[tg.TensorSpec([None, 2], torch.float32)])(
        ROWS
    )
    assert list(found) == [0, 1, 2]


def test_a_function_of_the_user_with_the_name_of_a_maker_of_iterators():
    shared = iter(range(100))

    def repeat(items):
        return shared

    class Source:
        zip = staticmethod(repeat)

    def f(x):
        s = x * 0
        for i in repeat(x):
            s = s + i
            if i == 40:
                break
        for i in Source.zip(x):
            s = s + i
            if i == 60:
                break
        return s, next(shared)

    x = torch.ones(2)
    s, after = tg.function(f)(x)
    assert after == 61
    assert s.tolist() == [sum(range(61))] * 2
