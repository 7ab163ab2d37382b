"""break, continue, return, and else of loops."""

import torch

import tograph as tg
from tests.converters.both import Cases
from tograph.converters import jumps
from tograph.transpiler.anno import get_fact
from tograph.transpiler.syntax import parse_statements

cases = Cases()


@cases((5,), (0,))
def return_of_an_outer_value_in_every_iteration(n):
    k = 0
    while k < n:
        k += 1
        return n


@cases((5, 2), (5, 9), (0, 0))
def break_in_while(n, k):
    i = 0
    while i < n:
        if i == k:
            break
        i += 1
    return i


@cases((5, 2), (5, 9), (0, 0))
def break_in_for(n, k):
    s = 0
    for i in range(n):
        if i == k:
            break
        s += i
    return s, k


@cases((6,), (0,))
def continue_in_while(n):
    s = 0
    while n > 0:
        n -= 1
        if n % 2 == 0:
            continue
        s += n
    return s


@cases((6,), (0,))
def continue_in_for(n):
    s = 0
    for i in range(n):
        if i % 3 == 0:
            continue
        s += i
        if i == 4:
            continue
        s += 100
    return s


@cases(([2, 4, 5, 6],), ([2],), ([],))
def tensor_break_in_python_loop(l):
    s = 0
    for v in l:
        if v % 2 == 1:
            break
        s += v
    return s


@cases(([2, 4, 5, 6],), ([2],), ([],))
def tensor_return_in_python_loop(l):
    for v in l:
        if v % 2 == 1:
            return v
    return -1


@cases((5, 2), (5, 9))
def return_in_while(n, k):
    i = 0
    while i < n:
        if i == k:
            return i * 100
        i += 1
    return -1


@cases((5, 2), (5, 9))
def return_in_nested_for(n, k):
    for i in range(n):
        for j in range(n):
            if i * j == k:
                return i, j
    return None


@cases((1,), (-1,), (0,))
def early_returns(x):
    if x > 0:
        return x
    if x < 0:
        return -x * 2
    return 7


@cases((1,), (-1,))
def return_on_one_path(x):
    if x > 0:
        return x


@cases((1,), (-1,))
def bare_return(x):
    if x > 0:
        print("plus")
        return
    print("minus")


@cases((3, 1), (3, 5), (0, 1))
def while_else(n, k):
    i = 0
    while i < n:
        if i == k:
            r = "found"
            break
        i += 1
    else:
        r = "none"
    return r


@cases((3, 1), (3, 5), (0, 1))
def for_else(n, k):
    for i in range(n):
        if i == k:
            r = 1
            break
    else:
        r = 2
    return r


@cases((3, 1), (3, 5))
def for_else_return(n, k):
    for i in range(n):
        if i == k:
            return i
    else:
        return -5


@cases((4, 2), (2, 7))
def break_of_outer_only(n, k):
    s = 0
    for i in range(n):
        j = 0
        while True:
            j += 1
            if j > i:
                break
            s += 1
        if i == k:
            break
        s += 10
    return s


@cases((4,), (0,))
def infinite_with_break(n):
    i = 0
    while True:
        if i >= n:
            break
        i += 1
    return i


@cases((6, 3), (2, 3))
def both_jumps(n, k):
    s = 0
    i = 0
    while i < n:
        i += 1
        if i == k:
            continue
        if i > k + 1:
            break
        s += i
    else:
        s += 1000
    return s


@cases((5, 2), (5, 9))
def no_test_after_break(n, k):
    calls = []

    def more(i):
        calls.append(i)
        return i < n

    i = 0
    while more(i):
        if i == k:
            break
        i += 1
    return i, len(calls)


@cases((2,), (-2,))
def return_kinds(x):
    if x > 0:
        return "text"
    return [x]


@cases((5, 2), (5, 9), (0, 0))
def continue_in_try(n, k):
    s = 0
    for i in range(n):
        try:
            if i == k:
                continue
            s += i
        finally:
            s += 100
    return s


@cases((3,), (0,))
def statements_after_return(n):
    return n
    n = n / 0
    return n


@cases.tensors((torch.tensor([1.0, -2.0, 3.0]),), (torch.tensor([1.0, 2.0]),))
def return_while_iterating_rows(x):
    s = torch.tensor(0.0)
    for v in x:
        if v < 0:
            return s
        s = s + v
    return s * 10


@cases((3,), (-3,))
def return_of_lambda(x):
    f = lambda v: v if v > 0 else -v
    return f(x)


@cases((5, 3), (2, 3))
def break_leaves_target(n, k):
    for i in range(n):
        if i == k:
            break
    return i


@cases((3,), (1,))
def yields_that_are_never_reached(n):
    def empty():
        return
        yield n

    def failing():
        raise ValueError(n)
        yield n

    made = failing()
    try:
        return list(empty()), next(made)
    except ValueError:
        return "its first item"


@cases((3, 4.5), (2, 0.5))
def del_at_the_end_of_an_iteration_behind_a_break(n, c):
    k = 0
    while True:
        k += 1
        if k > n:
            break
        for _ in range(n):
            c = c - 0.5
        if c:
            print(c < 2)
        else:
            return c
        d = k
        del d
    return k


test_same = cases.test()


def test_one_while():
    f = tg.function(return_in_while)
    f(torch.tensor(5), torch.tensor(2))
    assert str(f.concrete_functions[0].graph).count("While") == 1


def test_branches_in_a_row_are_not_compared_with_each_other(monkeypatch):
    asked = []
    monkeypatch.setattr(jumps, "get_fact", lambda *a: asked.append(1) or get_fact(*a))

    def count(branches):
        asked.clear()
        block = parse_statements("if x:\n    y = 1\nelse:\n    y = 2\n" * branches + "z = y\n")
        assert len(jumps.tidy(block)) == branches + 1
        return len(asked)

    assert count(200) <= 2 * count(100)
