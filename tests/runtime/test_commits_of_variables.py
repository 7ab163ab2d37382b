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
