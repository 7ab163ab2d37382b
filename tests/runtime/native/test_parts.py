"""Parts of concatenations that loop nests compute: each is where it belongs, without a copy."""

import pytest
import torch

import tograph as tg
from tests.runtime.native.checks import compiled, r
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def nests(f, *args):
    """The loop nests of ``f``, whose results have eager PyTorch's strides too."""
    return compiled(f, *args, check_stride=True).kernels


X = r(5, 64), r(5, 64, seed=1)


def test_one_nest_writes_all_parts():
    def gates(x, y):
        return torch.cat([torch.sin(x), y * 2, x - y], 1)

    assert len(nests(gates, *X)) == 1


def test_parts_of_several():
    def two(x, y):
        a, b = x * y, torch.exp(x)
        return torch.cat([a, b, a], 1), torch.cat([b, a + 1], 1), torch.cat([b, x])

    assert len(nests(two, *X)) == 1  # the part that is an argument is moved as it is


def test_a_part_that_others_need():
    def used(x, y):
        a, b = x * y, torch.exp(x)
        c = torch.cat([a, b], 1)
        return c, a, b.sum(0), a.view(-1), c @ c.t()

    nests(used, *X)


def test_a_part_that_is_a_view_elsewhere():
    def viewed(x, y):
        a = torch.sin(x)
        return torch.cat([a, y + 1], 1), a.view(2, -1) * 2, (a.t() + 1).sum(1)

    nests(viewed, *X)


@pytest.mark.parametrize("columns", [1, 3, 31, 33])
def test_rows_of_any_length(columns):
    def joined(x, y):
        return torch.cat([x + 1, y * 2, x - y], 1), torch.cat([x * y, y - 1], 0)

    nests(joined, r(6, columns), r(6, columns, seed=1))


def test_in_a_loop():
    def steps(x, w, n):
        total = torch.zeros(4, 96)
        for i in tg.range(n):
            a, b, c = torch.sigmoid(x), torch.tanh(x), x * i
            g = torch.cat([a, b, c], 1)
            h = torch.cat([a, b, c * a], 1)
            total = total * 0.5 + g - h
            x = torch.sin(g @ w)
        return x, total, g, h

    g = tg.function(steps)
    args = r(4, 32), r(96, 32) * 0.05
    for n in (1, 2, 7):
        torch.testing.assert_close(g(*args, torch.tensor(n)), steps(*args, torch.tensor(n)))
    assert g.get_concrete_function(*args, torch.tensor(3)).scheduled.level == "native"


def test_carried_returned_and_pushed():
    def steps(x, n):
        c, seen = torch.cat([x, x], 1), []
        for _ in tg.range(n):
            x = torch.cos(x) + c.sum()
            c = torch.cat([x, c[:, :64] * 2], 1)
            seen.append(torch.cat([x + 1, x], 1))
        return c, torch.stack(seen)

    g = tg.function(steps)
    for n in (1, 2, 5):
        torch.testing.assert_close(g(X[0], torch.tensor(n)), steps(X[0], torch.tensor(n)))


def test_a_variable_and_a_part():
    held = r(5, 64, seed=3)

    def update(x, y):
        new = x * y
        held.copy_(new)
        return torch.cat([new, x + 1], 1)

    g, start = tg.function(update), held.clone()
    want, after = update(*X), held.clone()
    for _ in range(3):
        held.copy_(start)
        torch.testing.assert_close(g(*X), want)
        torch.testing.assert_close(held, after)


def test_a_branch_between():
    def branch(x, y):
        a = torch.sin(x)
        if a.sum() > 0:
            b = a * 2
        else:
            b = y
        return torch.cat([a, b, torch.cos(b)], 1)

    g = tg.function(branch)
    for s in (1.0, -1.0):
        torch.testing.assert_close(g(X[0].abs() * s, X[1]), branch(X[0].abs() * s, X[1]))
