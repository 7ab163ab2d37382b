"""Functions, methods and partial objects that leave a call hold what that call made and was given."""

import functools

import pytest
import torch

import tograph as tg


class Node:
    def __init__(self, items):
        self.items = items

    def get(self):
        return self.items


def holding(items):
    def get():
        return items

    return get


def counting(down):
    def get(k=3):
        return down if k == 0 else get(k - 1)

    return get


def with_default(items):
    def get(*, found=items):
        return found

    get.also = items
    return get


KEEPERS = [
    holding,
    counting,
    with_default,
    lambda items: Node(items).get,
    lambda items: functools.partial(Node.get, Node(items)),
    lambda items: [lambda held=items: held][0],
]


@pytest.mark.parametrize("keep", KEEPERS)
def test_the_callers_list_and_a_tensor_of_the_call(keep):
    f = tg.function(lambda x, items: (keep(items), keep([x * 2])))
    for i in range(3):
        items, x = [i], torch.ones(2) * i
        kept, made = f(x, items)
        assert kept() is items
        assert torch.equal(made()[0], x * 2)
        assert getattr(kept, "also", items) is items


def test_functions_share_a_variable_that_they_assign():
    def f(x):
        n, y = 0, x * 2

        def step(by=1):
            nonlocal n, y
            n += by
            y = y + by
            return n

        return step, lambda: (n, y)

    staged = tg.function(f)
    for i in range(3):
        x = torch.ones(2) * i
        step, shown = staged(x)
        assert shown()[0] == 0
        assert (step(), step(4)) == (1, 5)
        assert shown()[0] == 5
        assert torch.equal(shown()[1], x * 2 + 5)


def test_an_object_that_holds_a_function_which_holds_the_object():
    def f(x, items):
        node = Node(items)
        node.back = lambda: node
        node.own = node.get
        return node

    staged, items = tg.function(f), [1]
    node = staged(torch.ones(2), items)
    assert node.back() is node
    assert node.own() is items
    assert staged(torch.ones(2), [1]) is not node


def test_what_a_function_gives_has_gradients():
    w = torch.ones(2, requires_grad=True)
    f = tg.function(lambda x: (lambda y: lambda k: (y * k).sum())(x * w))
    f(torch.ones(2))(3.0).backward()
    assert w.grad.tolist() == [3.0, 3.0]


def test_the_name_and_text_of_a_function_are_those_of_its_source():
    made = tg.function(lambda x: holding([x]))(torch.ones(2))
    assert (made.__name__, made.__module__) == ("get", __name__)
    assert made.__qualname__ == "holding.<locals>.get"


def test_a_variable_that_has_no_value():
    def f(x):
        def get():
            return later, x

        return get
        later = 1

    with pytest.raises(NameError):
        tg.function(f)(torch.ones(2))()
