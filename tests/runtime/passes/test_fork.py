"""A ``try`` whose body fails is native where it can be told before what fails, and gives what Python gives."""

import math

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def index(x, t):
    total, n = torch.tensor(0.0), 0
    for v in x:
        try:
            n += 1
            total = total + t[int(v)]
            n += 10
            total = total + t[int(v) + 1]
        except IndexError:
            total = total - n
        else:
            n += 100
        finally:
            n += 1000
    return total, n


def divides(x, t):
    out = []
    for v in x:
        try:
            a = 7 // int(v)
            b = 9 % (int(v) - 1)
            out.append(a + b)
        except ZeroDivisionError:
            out.append(-1)
    return out


def raises(x, t):
    n, seen = 0, 0
    for v in x:
        try:
            seen += 1
            if v < 0:
                raise ValueError("negative")
            n += int(v)
            if v > 3:
                seen += 10
                raise KeyError(int(v))
        except ValueError:
            n -= seen
        except (KeyError, IndexError):
            n -= 2 * seen
    return n, seen


def asserts(x, t):
    n = 0
    for v in x:
        try:
            assert v > 0
            n += 1
        except AssertionError:
            n += 100
    return n


def nested(x, t):
    n = 0
    for v in x:
        try:
            try:
                n += int(t[int(v)] * 10)
            except ZeroDivisionError:
                n += 1
            n += 8 // int(v)
        except IndexError:
            n += 1000
        except ZeroDivisionError:
            n += 10000
    return n


def in_handler(x, t):
    n = 0
    for v in x:
        try:
            n += 6 // int(v)
        except ZeroDivisionError:
            try:
                n += int(t[int(v) + 5] * 10)
            except IndexError:
                n += 7
    return n


def leaves(x, t):
    """A return and a break inside of the body."""
    n = 0
    for v in x:
        try:
            if v == 3:
                break
            n += 12 // int(v)
        except ZeroDivisionError:
            if n > 40:
                return -n
            n += 5
    return n


def roots(x, t):
    total = 0.0
    for v in x:
        try:
            total += math.sqrt(float(v) - 1) + math.log(float(v) - 2)
        except ValueError:
            total += 0.25
    return total


def written(x, t):
    """What the body wrote in place before it failed stays written."""
    t = t.clone()
    for v in x:
        try:
            t[0] += 1
            t[1] = t[int(v)]
            t[2] += 1
        except IndexError:
            t[3] -= 1
    return t


def from_list(x, t):
    items, n = [], 0
    for v in x:
        try:
            items.append(int(v))
            n += items[int(v)]
            n += items.pop()
            n += items.pop()
        except IndexError:
            n -= 1
    return n, items


@pytest.mark.parametrize("f", [index, divides, raises, asserts, nested, in_handler, leaves, roots, written, from_list])  # fmt: skip
def test_a_try_that_fails_is_native(f):
    g, t = tg.function(f), torch.arange(5) * 0.5
    for seed in range(6):
        x = torch.randint(-2, 9, (9,), generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(g(x, t), f(x, t), rtol=1e-6, atol=1e-6)
    program = g.get_concrete_function(x, t).scheduled
    assert (program.level, program.reason, program.declined) == ("native", "", 0)


class Other(ValueError):
    """A class of the program."""


def own_class(x, t):
    n = 0
    for v in x:
        try:
            if v < 0:
                raise Other("negative")
            n += 1
        except ValueError:
            n += 10
    return n


def says(x, t):
    """What the exception says is the host's to tell."""
    n = 0
    for v in x:
        try:
            n += 6 // int(v)
        except ZeroDivisionError as e:
            n += len(str(e))
    return n


def not_caught(x, t):
    n = 0
    for v in x:
        try:
            n += int(t[int(v)]) + 6 // int(v)
        except ZeroDivisionError:
            n += 1
    return n


@pytest.mark.parametrize("f", [own_class, says, not_caught])
def test_what_is_not_told_is_left_to_the_host(f):
    g, t = tg.function(f), torch.arange(5) * 1.0
    for values in ([1, 2, 3], [0, 1, -1], [4, 0, 0], [1, 7, 0]):
        x = torch.tensor(values)
        try:
            expected = f(x, t)
        except IndexError:
            with pytest.raises(IndexError):
                g(x, t)
        else:
            assert g(x, t) == expected
