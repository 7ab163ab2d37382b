"""What an exception leaves of global and nonlocal variables that were assigned more than once before it."""

import pytest
import torch

import tograph as tg

COUNT = 0


def between_ops(n):
    global COUNT
    COUNT += 1
    torch.arange(3)[n]
    COUNT += 1
    torch.arange(3)[n + 1]
    COUNT += 1
    raise ValueError


def by_the_op(n):
    global COUNT
    COUNT += 1
    COUNT //= n
    raise ValueError


def nonlocal_one(n):
    global COUNT
    count = COUNT

    def step():
        nonlocal count
        count += 1

    def done():
        global COUNT
        COUNT = count

    step()
    torch.arange(3)[n]
    step()
    done()
    torch.arange(3)[n]
    step()
    done()
    raise ValueError


def counted():
    global COUNT
    COUNT += 1


def by_a_helper_and_its_finally(n):
    try:
        counted()
        torch.arange(3)[n + 2]
    finally:
        counted()


def by_a_helper_and_a_handler_that_fails(n):
    try:
        counted()
        torch.arange(3)[n + 2]
    except IndexError:
        counted()
        raise ValueError from None


class Counted:
    def __enter__(self):
        counted()

    def __exit__(self, *error):
        counted()


def around_a_with(n):
    with Counted():
        if n > 5:
            return
        counted()
        assert n > 5


def shown(f, n):
    global COUNT
    COUNT = 0
    found = []
    for _ in range(2):
        with pytest.raises((ValueError, IndexError, AssertionError)) as error:
            f(torch.tensor(n))
        found.append((type(error.value).__name__, COUNT))
    return repr(found)


BY_HELPERS = [by_a_helper_and_its_finally, by_a_helper_and_a_handler_that_fails, around_a_with]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("f", [between_ops, by_the_op, nonlocal_one, *BY_HELPERS])
def test_as_natively(f, n):
    assert shown(tg.function(f), n) == shown(f, n)


class ByItsDict:
    def __init__(self):
        self.__dict__["n"] = 0

    def __setattr__(self, name, value):
        vars(self)[name] = value


def test_attributes_that_the_code_writes_in_the_dict_of_an_object():
    def f(o, x):
        for i in range(x.sum().int()):
            o.n += 1
            assert i < 1

    found = []
    for function in (f, tg.function(f)):
        o = ByItsDict()
        with pytest.raises(AssertionError):
            function(o, torch.ones(3))
        found.append(vars(o))
    assert found[0] == found[1] == {"n": 2}


HELD = torch.ones(3)


def copied_onto_a_written_one(x):
    HELD.mul_(0.5)
    HELD.copy_(x)


def copied_onto_one_that_nobody_reads(x):
    HELD.mul_(0.5)
    torch.ones(1).copy_(x)


@pytest.mark.parametrize("f", [copied_onto_a_written_one, copied_onto_one_that_nobody_reads])
def test_a_copy_of_another_size_fails_after_what_stands_before_it(f):
    found = []
    for function in (f, tg.function(f)):
        HELD.fill_(1)
        with pytest.raises(RuntimeError, match="match the"):
            function(torch.ones(2))
        found.append(HELD.tolist())
    assert found[0] == found[1] == [0.5] * 3


def test_a_number_that_is_an_input_by_now_is_assigned_where_the_call_that_traced_held_it_already():
    def f(n):
        global COUNT
        COUNT = n
        return COUNT + 1

    def outside():
        k = 0

        def g(n):
            nonlocal k
            k = n
            return k + 1

        return g, lambda: k

    g, look = outside()
    staged, inner = tg.function(f), tg.function(g)
    for n in (2, 2, 1, 2, 1, 3, 2):
        assert (staged(n), COUNT, inner(n), look()) == (n + 1, n, n + 1, n)
