"""and, or, not."""

import runpy

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()
TRUTHS = ((True, True), (True, False), (False, True), (False, False))


@cases(*TRUTHS)
def all_three(a, b):
    return a and b, a or b, not a, not (a and not b)


@cases((0, 5), (3, 0), (3, 5), (0, 0))
def numbers_return_operands(a, b):
    return a and b, a or b, not a


@cases(([], "x"), ([1], None), (None, 0), ("", {}), kinds=("python",))
def objects_return_operands(a, b):
    return a and b, a or b, not a, a or b or 5


@cases((3, 0), (3, 2), (-3, 1))
def and_is_lazy(x, y):
    r = 0
    if y != 0 and x // y > 0:
        r = 1
    return r


def said(x, name):
    print(name)
    return x


@cases(*TRUTHS)
def printed_laziness(a, b):
    if said(a, "a") and said(b, "b"):
        print("both")
    if said(a, "c") or said(b, "d"):
        print("one")


@cases((True,), (False,))
def mixed_python_and_staged(a):
    n = None
    return (n is None and a), (n is not None and n > 3 and a), (a or n is None)


@cases((1, 2, 3), (3, 2, 1), (0, 0, 0))
def many(a, b, c):
    if a < b and b < c and not c == 0 or a == b == c:
        return 1
    return 2


@cases((1,), (-1,))
def walrus_in_and(x):
    if x > 0 and (y := x + 1) > 1:
        return y
    return 0


@cases((1,), (-1,))
def default_by_or(x):
    y = (x > 0 and "plus") or "minus"
    return y


@cases((True, 2), (False, 2))
def condition_and_number(c, x):
    return c and x


@cases((2,), (0,))
def double_not(x):
    return not not x


@cases.tensors((torch.ones(2, dtype=torch.bool), torch.tensor(True)))
def not_a_single_element(a, b):
    return a and b


@cases.tensors((torch.tensor([True]), torch.tensor([[False]])))
def operands_keep_their_shape(a, b):
    return a and b, b or a


@cases((3,), (0,))
def in_a_while(n):
    i = 0
    while not (i >= n) and i < 2:
        i += 1
    return i


def test_not_gives_a_bool():
    def f(x):
        return not x, not x > 5, [not (x > 0)]

    got = tg.function(f)(torch.tensor(1.0))
    assert got == f(torch.tensor(1.0))
    assert [type(v) for v in (*got[:2], *got[2])] == [bool] * 3


test_same = cases.test()


def bound_on_one_path(x, n):
    k = 0
    while (k < n + 1) and n % 2:
        k += 1
        i = torch.tensor(0)
        while True:
            i += 1
            if i > n:
                break
            if 1 <= k < 5:
                return x * 0.5
    return x


def test_a_test_of_what_is_one_thing_or_another():
    x = torch.tensor(1.25)
    assert tg.function(bound_on_one_path)(x, 3) == bound_on_one_path(x, 3)


LONG = """
import tograph as tg

def plain(x):
    if {ands}:
        return x + 1
    return {ors}
"""


def test_a_long_chain(tmp_path):
    """Its operands are not nested as deep as it is long."""
    terms = [f"x > {-i}" for i in range(200)], [f"x == {-i}" for i in range(200)]
    text = LONG.format(ands=" and ".join(terms[0]), ors=" or ".join(terms[1]))
    (tmp_path / "long_chain.py").write_text(text)
    plain = runpy.run_path(str(tmp_path / "long_chain.py"))["plain"]
    f = tg.function(plain)
    for x in (1.0, -1.0, -3.5, -198.5):
        assert f(torch.tensor(x)) == plain(torch.tensor(x))


def test_a_chain_that_ends_in_what_is_false_is_false():
    """Also where only the run knows the first operand: the expression is one tensor, not one of two."""

    def f(x):
        y = x[x < 0.9]
        z = y.unsqueeze(0) if y.numel() == 1 and y.ndim == 0 else y
        return z if y.numel() == 7 or z.ndim == 1 else z[0]

    staged = tg.function(f)
    x = torch.rand(5)
    assert torch.equal(staged(x), f(x))
    assert "If(" not in str(staged.concrete_functions[0].graph)


class Job:
    def __init__(self, at):
        self.at = at


def drained(x):
    """A queue of objects, asked whether it is empty behind another condition."""
    queue, done = [Job(0.0)], 0
    while queue:
        job = queue.pop()
        if job.at > 6:
            break
        queue.append(Job(job.at + x.item()))
        done += 1
    return len(queue), done


def emptied(x):
    stack, go = [Job(0.0)], True
    while go and stack:
        job = stack.pop()
        if job.at < 3:
            stack.append(Job(job.at + x.item()))
        elif not (go or stack):
            stack.append(job)
        go = job.at < 2
    return len(stack), go


@pytest.mark.parametrize("f", [drained, emptied])
def test_a_container_in_a_condition_counts_as_whether_it_has_items(f):
    g = tg.function(f)
    for x in (0.7, 2.0):
        assert g(torch.tensor(x)) == f(torch.tensor(x))
