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


def test_a_variable_that_another_function_assigns():
    def f(x):
        n = 0

        def step():
            nonlocal n
            n += 1
            return n

        return step, lambda: n

    staged = tg.function(f)
    step, shown = staged(torch.tensor(1.0))
    other_step, other = staged(torch.tensor(1.0))
    assert [step(), step(), shown(), other(), other_step(), other()] == [1, 2, 2, 0, 1, 1]


def test_the_attributes_of_a_partial_object():
    def f(x):
        add = functools.partial(torch.add, x)
        add.note = [x]
        return add

    staged = tg.function(f)
    first, second = staged(torch.tensor(1.0)), staged(torch.tensor(2.0))
    assert [first.note[0], second.note[0], first(1), second(1)] == [1, 2, 2, 3]


def test_functions_that_call_each_other_are_refused():
    def f(x):
        def a(k):
            return x if k == 0 else b(k - 1)

        def b(k):
            return a(k)

        return a

    with pytest.raises(tg.errors.StructureError, match="a function that holds itself"):
        tg.function(f)(torch.tensor(1.0))


class Owner:
    def __init__(self):
        self.rows = [0]

    def get(self):
        return self.rows


def test_methods_and_partial_objects_of_the_caller_hold_what_they_held():
    def f(get, later, x):
        if x.sum() > 3:
            get().append(1)
        return get, (later, 1)

    staged = tg.function(f)
    for v in (1.0, 4.0, 5.0, 2.0, 4.0, 1.0):
        owner, rows = Owner(), [2]
        get, (later, _) = staged(owner.get, functools.partial(len, rows), torch.tensor(v))
        assert get.__self__ is owner and later.args[0] is rows
        assert owner.rows == ([0, 1] if v > 3 else [0])
