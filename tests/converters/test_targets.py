"""Assignments to several targets, or to tuples with attributes and items in them: stored one after the other, from left to right."""

import torch

from tests.converters.both import Cases

cases = Cases()


class Node:
    def __init__(self, value, following=None):
        self.value, self.following = value, following


class Told:
    """Tells of each write."""

    def __init__(self):
        self.__dict__["told"] = []

    def __setattr__(self, name, value):
        self.told.append(name)
        self.__dict__[name] = value


@cases((torch.tensor(1.0),))
def a_linked_list_turned_around(x):
    at = Node(x, Node(x + 1, Node(x + 2)))
    before = None
    while at is not None:
        at.following, before, at = before, at, at.following
    return before.value, before.following.value, before.following.following.value


@cases((0,), (1,))
def an_item_before_its_index(x):
    items, i = [0, 0, 0], 0
    items[i], i = x, i + 1
    i, items[i] = i + 1, x + 5
    return items, i


@cases((2,), (-2,))
def an_attribute_that_an_item_names(x):
    o, items = Node(0), [0, 0]
    if x > 0:
        o.value, items[o.value] = 1, x
    else:
        items[o.value], o.value = x, 1
    return items, o.value


@cases((3,), (-3,))
def nested_tuples_and_the_rest(x):
    o, items = Node(0), [1, 2, 3]
    (o.value, [items[o.value], *o.following]), last = ((1, (x, 4, 5)), 6)
    *items[:1], o.last = x, 7, 8
    return items, o.value, o.following, o.last, last


@cases((3,), (-3,))
def in_the_order_of_the_text(x):
    o = Told()
    o.a, (o.b, o.c), o.d = x, (1, 2), 3
    o.e = o.f = y = x + 1
    return o.told, o.a, o.d, o.f, y


@cases((1,), (-1,))
def what_is_stored_before_an_error(x):
    o = Node(0)
    try:
        o.value, (a, b) = x, (1, 2, 3)
    except ValueError:
        return o.value
    return a, b


@cases.tensors((torch.arange(3.0), torch.tensor(3)), (torch.arange(3.0), torch.tensor(0)))
def rows_written_in_a_loop(x, n):
    y, i = torch.zeros(4), 0
    for _ in range(n):
        y[i], i = x.sum() + i, i + 1
    return y, i


test_same = cases.test()
