"""Functions that call themselves, in native code: values, results that are arguments, limits, and what is left to the host."""

import sys

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def count(n):
    """Numbers of Python."""
    return 0 if n < 1 else 1 + count(n - 1)


def counted(n):
    return count(int(n)) * 2


def power(x, n):
    if n == 0:
        return torch.ones_like(x)
    if n % 2 == 0:
        return power(x * x, n // 2)
    return x * power(x, n - 1)


def powers(n):
    return power(torch.arange(5) * 0.5, n)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, torch.ones_like(n))
    return ackermann(m - 1, ackermann(m, n - 1))


def ackermanns(n):
    return ackermann(torch.tensor(2), n)


def sums(x, low, high):
    """Two results, a loop, and a tensor of a size that only the run knows kept out."""
    if high - low <= 2:
        total = torch.zeros(())
        for i in range(low, high):
            total = total + x[i]
        return total, 1
    middle = (low + high) // 2
    a, n = sums(x, low, middle)
    b, m = sums(x, middle, high)
    return a + b, n + m + 1


def in_parts(n):
    return sums(torch.arange(12) * 1.5, 0, int(n))


def captures(n):
    """What it reads from around it."""
    weight = torch.arange(3) * 0.5

    def inner(k, x):
        if k <= 0:
            return x
        return inner(k - 1, x * weight + k)

    return inner(n, torch.ones(3))


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def both(n):
    return even(int(n)), odd(int(n))


@pytest.mark.parametrize("f", [fib, counted, powers, ackermanns, in_parts, captures, both])
def test_calls_are_native(f):
    g = tg.function(f)
    for n in (6, 5, 4, 7, 3):
        torch.testing.assert_close(g(torch.tensor(n)), f(torch.tensor(n)))
    program = g.concrete_functions[-1].scheduled
    assert (program.level, program.reason, program.declined) == ("native", "", 0)


def test_a_result_that_is_the_argument_is_that():
    g, n = tg.function(fib), torch.tensor(1)
    for _ in range(4):
        assert g(n) is n and g(torch.tensor(7)) == 13


def test_the_limit_is_that_of_python():
    g = tg.function(counted)
    for n in (3, 50, 700):
        assert g(torch.tensor(n)) == 2 * n
    with pytest.raises(RecursionError):
        g(torch.tensor(sys.getrecursionlimit() + 5))
    assert g(torch.tensor(20)) == 40


def test_errors_and_prints_are_the_hosts():
    def inner(n, x):
        if n < 0:
            raise ValueError("too far")
        return x if n == 0 else inner(n - 1, x + 1)

    def f(n):
        return inner(n, torch.zeros(()))

    g = tg.function(f)
    assert [g(torch.tensor(n)).item() for n in (3, 2, 4)] == [3, 2, 4]
    with pytest.raises(ValueError, match="too far"):
        g(torch.tensor(-1))

    def says(n):
        print(int(n))
        return n if n < 1 else says(n - 1)

    g = tg.function(says)
    for _ in range(3):
        assert g(torch.tensor(3)) == 0


def test_gradients_go_through():
    g = tg.function(powers_of)
    for n in (3, 4, 5):
        x = torch.tensor([1.5, -2.0], requires_grad=True)
        y = torch.tensor([1.5, -2.0], requires_grad=True)
        g(x, torch.tensor(n)).sum().backward()
        power(y, torch.tensor(n)).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


def powers_of(x, n):
    return power(x, n)
