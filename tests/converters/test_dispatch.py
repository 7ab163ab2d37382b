"""``functools.singledispatch`` of a value that is of one kind or another when the graph runs."""

import functools

from .both import Cases

cases = Cases()


@functools.singledispatch
def shown(v):
    return "other"


@shown.register
def _(v: int):
    return v * 10


@shown.register
def _(v: list):
    return len(v)


@shown.register(type(None))
def _(v):
    return -1


@cases.tensors((1,), (-1,), (0,))
def one_of_several(x):
    v = None
    if x > 0:
        v = 3
    elif x < 0:
        v = [1, 2]
    return shown(v), [shown(i) for i in (v, True, 2.5)]


test_same = cases.test()
