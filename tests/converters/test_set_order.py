"""Sets of integers that only the run knows are gone over in the order of Python."""

import random

import pytest
import torch

import tograph as tg
from tograph.errors import StagingError


def items(x, n):
    found, seen = [], set(x.tolist())
    for v in seen:
        found.append(v)
    if n > 3:
        seen.add(int(n))
    return found, list(seen), [v * 2 for v in seen], sum(seen)


def numbers(kind, count):
    draw = random.Random(count)
    return torch.tensor([draw.choice(kind) for _ in range(count)])


def test_the_order_of_integers():
    staged = tg.function(items)
    for count in (0, 3, 7, 40, 300):
        for kind in (range(64), range(-40, 4000), range(-(2**63), 2**63, 2**30 + 7)):
            x = numbers(kind, count).long()
            for n in (2, 77):
                assert staged(x, torch.tensor(n)) == items(x, n)


def added(x, n):
    seen = set()
    for v in x:
        if v < n:
            seen.add(int(v))
    return list(seen)


def test_items_that_were_added_one_by_one():
    staged, x = tg.function(added), torch.tensor([33, 1, 9, 7, 100, 64, 8, 41])
    for n in (200, 50, 0):
        assert staged(x, torch.tensor(n)) == added(x, n)


def shown(x, n):
    seen, halves, named = {1, 6}, {v / 2 for v in x.tolist()}, set()
    for v in x.tolist():
        seen.add(v)
        named.add(f"n{v % 7}")
    print(seen, {int(n)}, [halves], {"k": named})
    return list(seen), list({int(n), 8, 0}), f"{seen} {set(x.tolist())}", str({"a", str(n)})


def test_texts_and_displays(capsys):
    staged = tg.function(shown)
    for count in (3, 4, 7):
        x = numbers(range(40), count)
        found = staged(x, torch.tensor(count)), capsys.readouterr().out
        assert found == (shown(x, torch.tensor(count)), capsys.readouterr().out)


def without(x, n):
    seen = set(x.tolist())
    seen.discard(int(n))
    return list(seen)


def shown_without(x, n):
    seen = set(x.tolist())
    seen.discard(int(n))
    print([seen])


def added_to_those_in_each_others_way(x, n):
    seen = {0, 8}
    seen.add(int(n))
    return list(seen)


def or_those_without(x, n):
    seen = set(x.tolist())
    if n > 3:
        seen.discard(int(n))
    return list(seen)


def updated(x, n):
    seen = set(x.tolist())
    seen.update({int(n), 70})
    return list(seen)


@pytest.mark.parametrize(
    "f",
    [
        without,
        or_those_without,
        lambda x, n: list(set(x.tolist()) | {int(n)}),
        lambda x, n: list(set(set(x.tolist()))),
        updated,
        lambda x, n: list({v / 2 for v in x.tolist()}),
        shown_without,
        added_to_those_in_each_others_way,
    ],
)
def test_other_orders_are_not_known(f):
    with pytest.raises(StagingError, match="so is their order"):
        tg.function(f)(torch.arange(4), torch.tensor(5))
