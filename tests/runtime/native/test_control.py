"""What a loop carries in one place and gives to the caller is carried in the caller's memory."""

import itertools

import pytest
import torch

import tograph as tg


def summed(a, b, n):
    total = torch.ones(a.size(1), b.size(1))
    while n > 0:
        total = torch.addmm(total, a.t(), b)
        n = n - 1
    return total


def chosen(a, b, n):
    if a.sum() > 0:
        total = summed(a, b, n)
    else:
        total = summed(-a, b, n + 1)
    return total


def twice(a, b, n):
    total = summed(a, b, n)
    return total, total * 2, summed(b, a, n)


def nested(a, b, n):
    total = torch.zeros(a.size(1), b.size(1))
    while n > 0:
        total = total + summed(a, b, n)
        n = n - 1
    return total


def viewed(a, b, n):
    return summed(a, b, n).view(-1)


def begun(a, b, n):
    """The sum begins with an argument, which stays what it is."""
    total = a
    while n > 0:
        total = torch.addmm(total, a, b)
        n = n - 1
    return total


def code(f):
    return f.concrete_functions[-1].scheduled.llvm


@pytest.mark.parametrize("f", [summed, chosen, twice, nested, viewed])
def test_values(f):
    a, b, g = torch.randn(5, 20), torch.randn(5, 24), tg.function(f)
    for n, x in itertools.product(map(torch.tensor, (0, 1, 3)), (a, -a, a * 2)):
        found, expected = g(x, b, n), f(x, b, n)
        for y, z in zip(*((found, expected) if isinstance(found, tuple) else ([found], [expected]))):  # fmt: skip
            torch.testing.assert_close(y, z)
    assert g.concrete_functions[-1].scheduled.level == "native"


@pytest.mark.parametrize("trips", [0, 2])
def test_an_argument_that_a_sum_begins_with(trips):
    a, b, n = torch.randn(20, 20), torch.randn(20, 20), torch.tensor(trips)
    before, g = a.clone(), tg.function(begun)
    for _ in range(4):
        torch.testing.assert_close(g(a, b, n), begun(a, b, n))
        assert torch.equal(a, before)
        assert (g(a, b, n) is a) == (trips == 0)


def test_the_sum_is_not_copied_at_the_end():
    a, b, n = torch.randn(5, 20), torch.randn(5, 24), torch.tensor(3)
    g = tg.function(summed)
    first = g(a, b, n)
    assert "memmove" not in code(g)
    assert torch.equal(g(a, b, n), first)
    assert g(a, b, n).data_ptr() != first.data_ptr()
