"""Results that come out of lists which hold an argument: the argument itself, a view of it, or a new tensor."""

import pytest
import torch

import tograph as tg


def last(x, n):
    rows = [x]
    for _ in range(n):
        rows.append(rows[-1].sin())
    return rows[-1]


def first_again(x, n):
    rows = [x]
    for _ in range(n):
        rows.append(rows[0])
    return rows[-1]


def inserted(x, n):
    rows = [x]
    for _ in range(n):
        rows.insert(0, rows[-1] + 1)
    return rows[-1], rows[0]


def in_branches(x, n):
    rows = [x, x + 1]
    for _ in range(n):
        if rows[-1].sum() > 1:
            rows.append(rows[-1].sin())
        else:
            rows[0] = rows[-1]
    return rows[0]


def popped(x, n):
    rows = [x]
    while len(rows) < n:
        rows = rows + [rows[-1] * 2]
    return rows.pop()


def sliced(x, n):
    rows = [x]
    for _ in range(n):
        rows.append(sum(rows[-2:]) / 2)
    return rows[-1]


def views(x, n):
    rows = [x]
    for _ in range(n):
        rows.append(rows[-1][:])
    return rows[-1]


def detached(x, n):
    rows = [x]
    for _ in range(n):
        rows.append(rows[-1].detach())
    return rows[-1]


@pytest.mark.parametrize(
    "f, native",
    [(last, True), (first_again, True), (inserted, True), (in_branches, True), (popped, True), (sliced, True), (views, False), (detached, False)],
)  # fmt: skip
def test_an_item_is_the_argument_or_new_or_a_view(f, native):
    found = tg.function(f)
    for n in (4, 0, 1, 4):
        x = torch.tensor([0.3, -0.7])
        given, expected = found(x, torch.tensor(n)), f(x, torch.tensor(n))
        torch.testing.assert_close(given, expected)
        for a, b in zip(given, expected) if isinstance(given, tuple) else [(given, expected)]:
            assert (a is x) == (b is x)
            assert (a.data_ptr() == x.data_ptr()) == (b.data_ptr() == x.data_ptr())
    scheduled = found.get_concrete_function(x, torch.tensor(4)).scheduled
    assert scheduled.declined == 0 if native else scheduled.declined > 0
