"""a if c else b."""

import torch

from tests.converters.both import Cases

cases = Cases()


@cases((1,), (-1,))
def simple(x):
    return x if x > 0 else -x


@cases((1,), (-1,), (0,))
def nested(x):
    return 1 if x > 0 else (2 if x < 0 else 3)


@cases((1,), (-1,), (5,))
def nested_in_test_and_body(x):
    return (10 if x > 3 else 20) if (x > 0 if x != 2 else False) else 30


@cases((1,), (-1,))
def lazy(x):
    def said(v):
        print(v)
        return v

    return said(1) if x > 0 else said(2)


@cases((1,), (-1,))
def kinds_differ(x):
    return None if x > 0 else "minus"


@cases((2,), (0,))
def guards_a_division(x):
    return 10 // x if x != 0 else 0


@cases((1,), (-1,))
def in_arguments_and_subscripts(x):
    l = [5, 6, 7]
    return l[0 if x > 0 else 2], max(x if x > 0 else 3, 2), (lambda v: v + (1 if v > 0 else 2))(x)


@cases((1,), (-1,))
def function_chosen(x):
    f = abs if x > 0 else (lambda v: v * 3)
    return f(x)


@cases((True,), (False,))
def python_structure(c):
    a, b = (1, 2) if c else (3, [4])
    return a, b


@cases((1,), (-1,))
def raises(x):
    def fail():
        raise ValueError("minus")

    return x if x > 0 else fail()


@cases((1,), (-1,))
def walrus(x):
    r = (y := x + 1) if x > 0 else (y := 5)
    return r, y


@cases((3,), (0,))
def none_first_in_a_loop(n):
    v = None
    for i in range(n):
        v = i + 10 if v is None else v + 1
    return v


@cases.tensors((torch.tensor([1.0, 2.0]),), (torch.tensor([-1.0, 2.0]),))
def tensors(x):
    return x + 1 if x[0] > 0 else x.sum()


test_same = cases.test()
