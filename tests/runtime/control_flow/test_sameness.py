"""``a is b`` of tensors that staged constructs bind."""

import pytest
import torch

import tograph as tg


def one_branch_changes_the_other_replaces(x):
    a = b = x.clone()
    if x.sum() > 0:
        a += 1
    else:
        b = b * 2
    return a is b, b is a, a is x, a is not b


def each_branch_binds_the_same(x):
    a = x * 2
    if x.sum() > 0:
        b = a
    else:
        b = a
    return a is b


def an_argument_or_a_new_one(x):
    y = x if x.sum() > 0 else x * 2
    z = y
    for _ in range(int(x.abs().sum())):
        z = z / 2
    return y is x, z is y, z is x, y is not x


def exchanged(x):
    a, b = x * 2, x * 3
    if x.sum() > 0:
        a, b = b, a
    c = a
    if x[0] > 1:
        c = b
    return c is a, c is b, a is b


def replaced_in_a_loop(x):
    a = old = x * 1
    while a.abs().sum() > 1:
        a = a / 2
    return a is old, 1 if a is old else 2


def none_or_a_tensor(x):
    y = None if x.sum() > 0 else x
    z = x if x[0] > 0 else y
    return y is x, z is x, z is y, x is y


def views(x):
    a, b = x[0], x[1]
    c = a if x.sum() > 0 else x
    return c is x, c is b, x[0] is x[0], a is not b


def without_a_construct(x):
    same = x.contiguous(), x.requires_grad_(False), x.to("cpu"), x.add_(0)
    other = x.detach(), x.data, x[:], x.clone(), x.view(-1)
    return [y is x for y in (*same, *other)]


def dicts(x):
    config = {"a": 1}
    c = config
    if x.sum() > 0:
        c = dict(config)
        c["a"] = 2
    return c is config, config is c, c is not config, c["a"]


def lists(x):
    s = t = []
    for r in x:
        if r > 0:
            t = [*t, r]
    return t is s, len(t)


class Point:
    def __init__(self, v):
        self.v = v


def objects(x):
    p = q = Point(1)
    if x.sum() > 0:
        q = Point(2)
    return p is q, q is None, q.v


PROGRAMS = [dicts, lists, objects, one_branch_changes_the_other_replaces, each_branch_binds_the_same, an_argument_or_a_new_one, exchanged, replaced_in_a_loop,
            none_or_a_tensor, views, without_a_construct]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_in_plain_python(program):
    converted = tg.function(program)
    for row in ([1.0, 2.0], [-1.0, -2.0], [0.1, 0.2], [3.0, -4.0]):
        x = torch.tensor(row)
        assert converted(x) == converted(x) == program(x)


class Holder:
    def __init__(self):
        self.kept = torch.ones(2)

    def step(self, x):
        y = self.kept if x.sum() > 0 else x
        return y is self.kept, y is x, self.kept is y


def test_a_captured_tensor():
    holder = Holder()
    step = tg.function(holder.step)
    for row in ([1.0, 2.0], [-1.0, -2.0]):
        assert step(torch.tensor(row)) == holder.step(torch.tensor(row))


def test_views_that_may_be_one_are_refused():
    @tg.function
    def f(x):
        a = x[0]
        b = x.clone()[0]
        if x.sum() > 0:
            b = a
        return b is x[0]

    with pytest.raises(tg.errors.StagingError, match="one view of a tensor or two"):
        f(torch.ones(2))
