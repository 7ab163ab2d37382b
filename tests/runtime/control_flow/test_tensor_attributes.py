"""Attributes that code gives to tensors, behind branches and loops: native against `tg.function`."""

import pytest
import torch

import tograph as tg
from tograph.errors import StagingError


def set_in_a_branch(x, n):
    y = x * 2
    y.tag = "before"
    if n > 1:
        y.tag = "in"
    return y.tag


def made_on_one_path(x, n):
    if n > 5:
        raise ValueError("too large")
    else:
        y = x * 2
        y.tag, y.of = "made", {"n": 3}
    return y.tag, y.of["n"], hasattr(y, "other")


def the_same_on_both_paths(x, n):
    if n > 1:
        y = x * 2
        y.tag = 7
    else:
        y = x * 3
        y.tag = 7
    return [y][0].tag


def set_in_each_iteration(x, n):
    y = x * 2
    for _ in range(n):
        y = y + 1
        y.tag = "in"
        if y.tag == "in":
            y = y * 2
    return y


@pytest.mark.parametrize(
    "f",
    [set_in_a_branch, made_on_one_path, the_same_on_both_paths, set_in_each_iteration],
)
def test_program(f):
    staged = tg.function(f)
    for n in (2, 0, 1):
        x = torch.ones(3)
        assert str(f(x, torch.tensor(n))) == str(staged(x, torch.tensor(n)))


def one_of_two(x, n):
    if n > 1:
        y = x * 2
        y.tag = "two"
    else:
        y = x * 3
        y.tag = "three"
    return y.tag


def none_before_the_first_iteration(x, n):
    y = x * 2
    y.scale = x.sum()
    while n > 0:
        y = y * y.scale
        n = n - 1
    return y


@pytest.mark.parametrize("f", [one_of_two, none_before_the_first_iteration])
def test_what_depends_on_the_path_is_refused(f):
    with pytest.raises(StagingError, match="attribute '(tag|scale)' of a tensor"):
        tg.function(f)(torch.ones(3), torch.tensor(2))


def test_an_attribute_that_nothing_sets():
    def f(x, n):
        y = x * 2 if n > 1 else x * 3
        return getattr(y, "tag", 1), x.missing

    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'missing'"):
        tg.function(f)(torch.ones(3), torch.tensor(2))
