"""Local functions that assign variables of the function around them, defined and called in branches, loops and ``try``."""

import torch

from tests.converters.both import Cases

cases = Cases()


@cases((1.5,), (-1.5,))
def defined_in_a_branch(x):
    total = x
    if x > 0:

        def add():
            nonlocal total
            total = total + 10

        add()
        add()
    return total


@cases((3.5,), (-1.5,))
def defined_in_a_loop(x):
    total = x
    while x > 0:

        def step():
            nonlocal total, x
            total = total + 10
            x = x - 1

        step()
    return total, x


@cases((1.5,), (-1.5,))
def defined_in_a_try(x):
    total = x
    try:

        def add():
            nonlocal total
            total = total + 10

        add()
        assert x > 0
    except AssertionError:
        pass
    return total


@cases.tensors((torch.tensor([1.0, -2.0]),))
def defined_deeper(x):
    best, count = x[0], 0
    for v in x:

        def outer():
            def inner():
                nonlocal best
                best = best + v

            nonlocal count
            count += 1
            if v < 0:
                inner()

        outer()
    return best, count


@cases((1.5,), (-1.5,))
def of_the_function_around_the_one_with_the_branch(x):
    total = 0.5

    def outer(v):
        before = total
        if v > 0:
            after = before + 1
        else:

            def inner():
                nonlocal total
                total += v
                return total

            after = inner()
        return before + after

    return outer(x), total


test_same = cases.test()
