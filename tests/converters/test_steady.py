"""Dicts and sets that a loop goes over while a staged branch in its body changes them."""

import pytest
import torch

import tograph as tg

from .both import Cases

cases = Cases()
NUMBERS = ((0,), (1,), (2,), (3,), (4,))


@cases(*NUMBERS)
def a_key_is_deleted_and_the_loop_left(n):
    d = {1: 1, 2: 2, 3: 3}
    for k in d:
        if k == n:
            del d[k]
            return d
    return d


@cases(*NUMBERS)
def a_key_is_added_and_the_loop_left(n):
    d = {1: 1, 2: 2, 3: 3}
    for k, v in d.items():
        if k == n:
            d[k + 10] = v
            break
    return d


@cases(*NUMBERS)
def a_key_is_deleted(n):
    d = {1: 1, 2: 2, 3: 3}
    for k in d:
        if k == n:
            d.pop(k)
    return d


@cases(*NUMBERS)
def a_key_is_added(n):
    d = {1: 1, 2: 2, 3: 3}
    total = 0
    for v in d.values():
        total += v
        if v == n:
            d.setdefault(9, 0)
    return d, total


@cases(*NUMBERS)
def an_item_of_a_set(n):
    s, total = {1, 2, 3}, 0
    for k in s:
        total += k
        if k == n:
            s.discard(k)
    return s, total


@cases(*NUMBERS)
def a_dict_that_had_a_key_by_a_condition(n):
    d = {1: 1, 2: 2, 3: 3}
    if n > 1:
        d[4] = 4
    for k in d:
        if k == n:
            d[5] = 1
    return d


@cases(*NUMBERS)
def numbered(n):
    d = {1: 1, 2: 2, 3: 3}
    total = 0
    for i, k in enumerate(d):
        total += i
        if k == n:
            d.pop(k)
            break
    return total, d


@cases(*NUMBERS)
def beside_another(n):
    d, total = {1: 1, 2: 2, 3: 3}, 0
    for k, v in zip(d, (5, 6, 7)):
        total += k * v
        if k == n:
            del d[k]
            return total, d
    return total, d


@cases(*NUMBERS)
def backwards(n):
    d = {1: 1, 2: 2, 3: 3}
    for k in reversed(d):
        if k == n:
            d[k + 1] = 0
    return d


@cases(*NUMBERS)
def by_an_iterator(n):
    d = {1: 1, 2: 2, 3: 3}
    rest = iter(d)
    next(rest)
    for k in rest:
        if k == n:
            d[9] = 1
            break
    return d


@cases(*NUMBERS)
def in_a_comprehension(n):
    d = {1: 1, 2: 2, 3: 3}
    return [d.pop(k) if k == n else k for k in d]


@cases(*NUMBERS)
def in_a_staged_loop(n):
    d = {1: 1, 2: 2, 3: 3}
    while n > 0:
        for k in d:
            if k == n:
                d[k] = d[k] + 1
        n = n - 1
    return d


test_same = cases.test()


def test_a_key_that_takes_the_place_of_another():
    @tg.function
    def f(n):
        d, total = {1: 1, 2: 2, 3: 3}, 0
        for k in d:
            total += k
            if k == n:
                d.pop(2)
                d[7] = 1
        return total

    assert f(torch.tensor(0)) == 6
    with pytest.raises(RuntimeError, match="dictionary keys changed during iteration"):
        f(torch.tensor(1))


def test_a_key_that_takes_the_place_of_one_that_was_given():
    def f(n):
        d, total = {1: 1, 2: 2, 3: 3}, 0
        for k in d:
            total += k
            if k == n:
                d.pop(k)
                d[7] = 1
        return total

    assert tg.function(f)(torch.tensor(0)) == f(0)
    for function in (f, tg.function(f)):
        with pytest.raises(RuntimeError, match="dictionary keys changed during iteration"):
            function(torch.tensor(1))
