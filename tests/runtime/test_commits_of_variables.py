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


def shown(f, n):
    global COUNT
    COUNT = 0
    found = []
    for _ in range(2):
        with pytest.raises((ValueError, IndexError)) as error:
            f(torch.tensor(n))
        found.append((type(error.value).__name__, COUNT))
    return repr(found)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("f", [between_ops, by_the_op, nonlocal_one])
def test_as_natively(f, n):
    assert shown(tg.function(f), n) == shown(f, n)


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
