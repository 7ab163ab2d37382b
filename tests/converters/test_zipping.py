"""``zip`` and ``enumerate`` of generators with staged conditions, beside sequences, and of sets that depend on a condition."""

import itertools

import torch

from tests.converters.both import Cases

cases = Cases()
ROWS = [(torch.tensor(v),) for v in ([1.0, -2.0, 3.0], [-1.0, 5.0, 0.0], [-1.0, -5.0], [])]


def positive(x):
    for v in x:
        print("at", v)
        if v > 0:
            yield v * 2
    print("end")


def without_end(x):
    i = 0
    while True:
        print("asked", i)
        yield i if x.sum() > 0 else -i
        i += 1


@cases(*ROWS)
def what_stands_before_and_behind(x):
    pairs = list(zip([1, 2], positive(x), "abc"))  # noqa: B905  the shortest one decides
    return pairs, dict(zip("abc", positive(x))), [a * b for a, b in zip(positive(x), range(1))]  # noqa: B905


@cases(*ROWS)
def left_early(x):
    total = 0
    for i, v in zip(range(4), without_end(x)):  # noqa: B905
        total += i * v
        if total > 3:
            break
    else:
        print("no break")
    return total, list(zip(without_end(x), (1, 2)))  # noqa: B905


@cases(*ROWS)
def with_tensors_lists_and_numbers(x):
    kept = [v for v in x if v > 0]
    numbered = [(i, k, v) for i, (k, v) in enumerate(zip(itertools.count(3), positive(x)))]  # noqa: B905
    return list(zip(x, positive(x))), list(zip(kept, positive(x))), numbered  # noqa: B905


@cases(*ROWS)
def of_sets(x):
    s = {5}
    if x.sum() > 0:
        s.add(7)
    return list(enumerate(s, 1)), list(zip(s, "ab"))  # noqa: B905


def shown(v):
    print("shown", v)
    return v


@cases(*ROWS)
def of_other_lengths_strictly(x):
    kept, first, seen = [v for v in x if v > 0], x.new_tensor([1.0, 2.0]), []
    for arguments in ((x, kept), (kept, x), (kept, first, x), (x, kept, [3, 4])):
        try:
            for row in zip(*arguments, strict=True):
                seen.append(row[0] + row[1])
        except ValueError as error:
            print(error, len(seen))
    for v, w in zip(x, kept, strict=True):
        seen.append(v + w)
        if v < 0:
            break
    return seen


@cases(*ROWS)
def of_calls_with_effects_beside_fewer_items(x):
    kept = [v for v in x if v > 0]
    pairs = [(v, w) for v, w in zip(map(shown, x), kept)]  # noqa: B905
    for v, (i, w) in zip([1, 2], enumerate(map(shown, x))):  # noqa: B905
        print(i, v + w)
    return pairs, list(zip(enumerate(map(shown, x)), [1]))  # noqa: B905


@cases((4,), (5,), (0,), (1,))
def of_one_iterator_with_itself(n):
    it = iter([i * 2 for i in range(n)])
    total = 0
    for a, b in zip(it, it):  # noqa: B905
        total += a * b
        if total > 20:
            break
    return total, list(zip(*[iter([i for i in range(n)])] * 3)), dict(zip(*[iter(range(n))] * 2))  # noqa: B905


@cases((4,), (5,), (0,), (1,))
def of_one_iterator_of_which_one_was_taken(n):
    it = iter([(i, -i) for i in range(n)])
    return next(it, None), [(a, d) for (a, _), (_, d) in zip(it, it)]  # noqa: B905


test_same = cases.test()
