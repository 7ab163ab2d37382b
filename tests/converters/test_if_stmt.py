"""if, elif, else: state, undefined variables, None, dtype, shape, structure, effects."""

import dataclasses

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()


@cases((1,), (-1,), (0,))
def sign(x):
    if x > 0:
        y = 1
    elif x < 0:
        y = -1
    else:
        y = 0
    return y


@cases((5,), (-5,))
def no_else(x):
    y = x
    if x > 0:
        y = x * 2
        x = x + 1
    return x, y


@cases((3, True), (3, False), (-3, True))
def staged_inside_python_condition(x, flag):
    if flag:
        if x > 0:
            x = x - 1
    else:
        x = x * 3
    return x


@cases((1,), (-1,))
def undefined_in_one_branch(x):
    if x > 0:
        y = 1
    return y


@cases((1,), (-1,))
def undefined_but_unused(x):
    if x > 0:
        y = 1
        x = x + y
    return x


@cases((1,), (-1,))
def none_in_one_branch(x):
    y = None
    if x > 0:
        y = x + 1
    if y is None:
        return "none"
    return "some"


@cases((1,), (-1,))
def none_result(x):
    if x > 0:
        return x
    return None


@cases((1,), (-1,))
def different_kinds(x):
    if x > 0:
        y = 1
    else:
        y = 2.5
    return y


@cases((1,), (-1,))
def different_structure(x):
    if x > 0:
        y = (x, 1)
    else:
        y = [x]
    return y


@cases((1,), (-1,))
def different_strings(x):
    s = "plus"
    if x < 0:
        s = "minus"
    return s


@cases((1,), (-1,))
def different_shapes(x):
    if x > 0:
        y = torch.zeros(2)
    else:
        y = torch.ones(3)
    return y


@cases((1,), (-1,))
def raises_in_branch(x):
    if x < 0:
        raise ValueError("negative")
    return x


@cases((1,), (-1,))
def raises_its_own(x):
    y = 1
    if x > 0:
        y = 2
    else:
        raise KeyError("own")
    return y


@cases((1,), (-1,), (0,))
def prints_in_branches(x):
    print("start")
    if x > 0:
        print("plus", x)
    elif x < 0:
        print("minus")
    print("end")


class Box:
    def __init__(self, value):
        self.value = value
        self.items = [value, value]


@cases((1,), (-1,))
def attribute_state(x):
    b = Box(x)
    if x > 0:
        b.value = b.value + 10
    else:
        b.items[0] = 5
    return b.value, b.items


@cases((1,), (-1,))
def dict_state(x):
    d = {"a": x, "b": {"c": 0}}
    if x > 0:
        d["b"]["c"] = 1
        d["new"] = 3
    return d


@cases((1,), (-1,))
def list_appended_in_one_branch(x):
    l = [1]
    if x > 0:
        l.append(x)
        l.append(2)
    else:
        l.insert(0, 3)
    return l, len(l)


@cases((1, [4]), (-1, [4]))
def argument_changed(x, l):
    if x > 0:
        l.append(7)
    else:
        l.pop()
    return len(l)


def bump(b):
    b.value = b.value + 1
    return b.value


@cases((1,), (-1,))
def changed_by_a_helper(x):
    b = Box(0)
    if x > 0:
        bump(b)
        bump(b)
    return b.value


@cases((3, 4), (4, 3), (-3, -3))
def nested(a, b):
    r = 0
    if a > 0:
        if a > b:
            r = a - b
        elif a == b:
            r = 100
        else:
            if b > 3:
                r = b * 2
            else:
                r = b
    else:
        r = a * b
    return r


@cases((1,), (-1,))
def functions_defined_in_branches(x):
    if x > 0:

        def g(v):
            return v + 1
    else:

        def g(v):
            return v * 2

    return g(x)


@cases((2,), (-2,))
def swap(x):
    a, b = x, 1
    if a > b:
        a, b = b, a
    return a, b


@cases((0,), (0.0,), (2,), (2.5,))
def truth_of_a_number(x):
    if x:
        return 1
    return 2


@cases(([],), ([1],), ("",), ("a",), ({},), (None,), kinds=("python",))
def truth_of_an_object(x):
    return "true" if x else "false"


@cases.tensors((torch.tensor([True]),), (torch.tensor([[[False]]]),))
def one_element_of_any_rank(c):
    if c:
        return 1
    return 2


@cases.tensors((torch.tensor([1.0, 2.0]),), (torch.tensor([], dtype=torch.bool),))
def not_one_element(c):
    if c:
        return 1
    return 2


@cases((2,), (-2,))
def walrus(x):
    if (y := x * 2) > 0:
        return y + 1
    return y


@cases((1,), (-1,))
def next_in_both_branches(x):
    it = iter([10, 20, 30])
    if x > 0:
        a = next(it)
    else:
        next(it)
        a = next(it)
    return a, next(it)


@cases.tensors((torch.tensor([1.0, 2.0]),), (torch.tensor([-1.0, 2.0]),))
def in_place_in_a_branch(x):
    y = x.clone()
    if x[0] > 0:
        y.add_(1)
        x.mul_(2)
    else:
        y[1] = 9
    return y


@dataclasses.dataclass
class Record:
    x: object
    n: object = 1


@cases.tensors((1.0, 1.0), (1.0, 5.0), (-1.0, 5.0))
def an_object_replaced_beside_another_result(x, limit):
    """Objects of one class that two paths give stay apart, also inside of what is returned."""
    record = Record(x, 1)
    if x > 0:
        record = dataclasses.replace(record, n=2)
        if limit > 2:
            return x, limit
    return {"record": record}


test_same = cases.test()


def test_condition_of_many_elements_names_the_line():
    @tg.function
    def f(c):
        if c > 0:
            return 1
        return 2

    with pytest.raises(RuntimeError) as caught:
        f(torch.ones(3))
    assert "test_if_stmt.py" in str(caught.value) or "if c > 0" in str(caught.value)


def test_only_the_taken_branch_runs():
    ran = []

    def note(x, name):
        ran.append(name)
        return x

    @tg.function
    def f(x):
        if x > 0:
            return tg.py_function(lambda v: note(v, "then"), [x], tg.TensorSpec([], torch.float32))
        return tg.py_function(lambda v: note(v, "else"), [x], tg.TensorSpec([], torch.float32))

    f(torch.tensor(1.0))
    assert ran == ["then"]


def test_graph_has_an_if():
    graph = str(tg.function(nested).get_concrete_function(torch.tensor(1), torch.tensor(2)).graph)
    assert "If" in graph
