"""``max``, ``min``, ``sorted``, ``any`` and ``all`` over ranges, ``enumerate`` and ``zip`` whose length only the run knows."""

import pytest
import torch

import tograph as tg
from tograph.errors import AliasError

X = torch.tensor([0.5, -1.0, 2.0, -0.25, 3.0, 1.5])


def positive(x):
    scores = []
    for row in x:
        if row > 0:
            scores.append(row.item())
    return scores


def positions(x):
    scores = positive(x)
    best = max(range(len(scores)), key=scores.__getitem__)
    return best, min(range(len(scores)), key=lambda i: scores[i]), max(range(len(scores)))


def ordered(x):
    scores = positive(x)
    by_score = sorted(range(len(scores)), key=lambda i: scores[i], reverse=True)
    return by_score, sorted(enumerate(scores), key=lambda pair: -pair[1])[0][0]


def pairs(x):
    scores = positive(x)
    last = max(enumerate(scores), key=lambda pair: pair[1])
    return last, max(zip(scores, range(len(scores)))), min(i - s for i, s in enumerate(scores))


def asked(x):
    scores = positive(x)
    count = range(len(scores))
    return any(count), all(count), any(s > 2.5 for s in scores), all(map(abs, scores))


def rows(x):
    return max(x[x > 0], key=lambda v: -v), max(x[x > 9].tolist(), default=-1.0)


@pytest.mark.parametrize("f", [positions, ordered, pairs, asked, rows])
def test_as_in_python(f):
    for x in (X, -X, X[:2]):
        torch.testing.assert_close(tg.function(f)(x), f(x))


def test_a_key_is_asked_once_of_each(capsys):
    def f(n):
        def key(i):
            print("key", i)
            return -i

        rows = []
        for i in range(n):
            rows.append(i * 2)
        return max(rows, key=key), min(range(n), key=key)

    n = torch.tensor(3)
    found = tg.function(f)(n)
    printed = capsys.readouterr().out
    assert (found, printed) == (f(3), capsys.readouterr().out)


def test_of_nothing():
    f = tg.function(lambda n: max(range(n), key=lambda i: -i))
    with pytest.raises(ValueError, match=r"max\(\) arg is an empty sequence"):
        f(torch.tensor(0))


@pytest.mark.parametrize("of", [max, min, lambda x: max(x, key=lambda v: -v), lambda x: min(x[0], x[1])])  # fmt: skip
def test_what_is_picked_is_a_view(of):
    def f(x):
        found = of(x)
        found += 1
        return found, x

    for values in ([1.0, -2.0, 3.0], [2.0, 2.0, float("nan")]):
        plain, staged = f(torch.tensor(values)), tg.function(f)(torch.tensor(values))
        torch.testing.assert_close(staged, plain, equal_nan=True)


def sorted_and_written(x):
    found = sorted(x)
    found[0] += 1
    return x


def sorted_rows_and_written(x):
    found = sorted([x * 2, x], key=lambda v: v.sum())[0]
    found += 1
    return x


def written_behind_sorted(x):
    found = sorted(x)
    x += 1
    return found


@pytest.mark.parametrize("f", [sorted_and_written, sorted_rows_and_written, written_behind_sorted])
def test_tensors_that_sorted_gave_are_not_written(f):
    with pytest.raises(AliasError, match=r"an item that sorted\(\) gave"):
        tg.function(f)(torch.ones(3))


def test_what_sorted_gave_is_used_before_a_write():
    def f(x):
        low, *_, high = sorted(x)
        width = high - low
        x += width
        return x, sorted(x, reverse=True)[0] + sorted([x, x * 2], key=lambda v: v.sum())[-1]

    x = torch.tensor([1.0, -2.0, 3.0])
    torch.testing.assert_close(tg.function(f)(x.clone()), f(x.clone()))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: max(x, x, other=3),
        lambda x: min([x, x], other=3),
        lambda x: max(x, 3, default=2),
        lambda x: min(x, 3, key=abs, default=2),
    ],
)
def test_keywords_that_min_and_max_do_not_take(f):
    with pytest.raises(TypeError) as expected:
        f(torch.tensor(1))
    with pytest.raises(TypeError) as found:
        tg.function(f)(torch.tensor(1))
    assert str(expected.value) in str(found.value)
