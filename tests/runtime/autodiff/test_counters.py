"""Counters of loops are computed in the gradient, not saved."""

import pytest
import torch

import tograph as tg
from tograph.runtime.graph.ir import all_nodes


def up(x, n):
    y, i = x, 0
    while i < n:
        y = torch.tanh(y * x[i]) + i
        i += 1
    return y.sum()


def down(x, n):
    y, i = x, 7
    while i > n:
        y = torch.tanh(y) * x[i] * i
        i = i - 2
    return y.sum()


def over_range(x, n):
    y = x
    for i in range(2, n, 3):
        y = y * x[i].sin() + i
    return y.sum()


def both(x, n):
    """One that every trip changes by the same, and one that it may leave as it is."""
    y, i, found = x, 1, 0
    while i < n:
        y = y * x[found] + x[i]
        if y.sum() > 0:
            found += 1
        i += 1
    return y.sum()


def nested(x, n):
    y, i = x, 0
    while i < n:
        j = 1
        while j < i:
            y = torch.sin(y) * x[j] + x[i]
            j += 2
        i += 1
    return y.sum()


def lists(graph):
    """How many lists of numbers a gradient's graphs have."""
    return sum("list<int>" in str(v.type) for n in all_nodes(graph) for v in n.outputs if n.op == "tg.list_push")  # fmt: skip


@pytest.mark.parametrize("fn", [up, down, over_range, both, nested])
def test_gradients_of_any_order_are_those_of_plain_python(fn):
    staged = tg.function(fn)
    for n in (6, 0, 1, 3, 8):
        n = min(n, 7) if fn is not over_range else n
        found = []
        for f, given in ((fn, n), (staged, torch.tensor(n))):
            x = torch.linspace(-1, 1, 8, dtype=torch.float64).requires_grad_()
            value = f(x, given)
            (g,) = torch.autograd.grad(value, x, create_graph=True)
            (h,) = torch.autograd.grad((g * g).sum(), x, allow_unused=True) if g.requires_grad else (None,)  # fmt: skip
            found.append((value, g, torch.zeros(8) if h is None else h))
        for a, b in zip(*found):
            torch.testing.assert_close(a, b, check_dtype=False)


def test_they_are_not_saved():
    x, n = torch.rand(8, requires_grad=True), torch.tensor(5)
    counts = {}
    for fn in (up, down, over_range, both):

        def step(x, n, fn=fn):
            return torch.autograd.grad(fn(x, n), x)[0]

        counts[fn.__name__] = lists(tg.function(step).get_concrete_function(x, n).graph)
    assert counts == {"up": 0, "down": 0, "over_range": 0, "both": 1}
