"""Writes whose regions may fail: which calls leave every written tensor the history that it has."""

import pytest
import torch
from torch import nn

import tograph as tg


class Router(nn.Module):
    """Experts with a running load, of which an index may be out of range."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
        self.register_buffer("load", torch.zeros(2))
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x, at, table):
        y = torch.zeros_like(x)
        for e, net in enumerate(self.experts):
            found = (at == e).nonzero(as_tuple=True)[0]
            if found.numel() == 0:
                continue
            self.load[e] = 0.5 * self.load[e] + found.numel()
            y = y.index_add(0, found, net(x[found]) * table[found[0] + 1])
            self.last = self.last * 0.5 + self.load[e]
        return y


def run(wrap, calls):
    m, found = Router(), []
    f = wrap(m)
    for x, at, table in calls:
        x = x.clone().requires_grad_()
        try:
            y = f(x, at, table)
            if y.requires_grad:
                y.square().sum().backward()
        except (IndexError, RuntimeError) as error:
            found.append(type(error))
        found += [x.grad, m.load.clone(), m.last.clone(), m.load.requires_grad, m.last.requires_grad]  # fmt: skip
    found += [p.grad for p in m.parameters()]
    return found, f


def same(xs, ys):
    pairs = list(zip(xs, ys, strict=True))
    return all(torch.allclose(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in pairs)


def calls_of(*rows):
    torch.manual_seed(1)
    return [(torch.randn(4, 3), torch.tensor(at), torch.linspace(1, 2, 4)) for at in rows]


def test_a_buffer_without_history_in_a_branch_that_may_fail():
    calls = calls_of([0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1], [1, 0, 0, 0])
    ((expected, _), (found, f)) = run(lambda m: m, calls), run(tg.function, calls)
    assert IndexError in expected  # in the third call: what was written before is written
    assert same(expected, found)
    (cf,) = f.concrete_functions
    assert cf.by_autograd  # and not op by op


def written_by_two(a, b, x, n):
    """``b`` gets the history of ``x`` by way of ``a``, in the iteration after the one in which that is written."""
    for i in range(n):
        b.mul_(0.5).add_(a[i])
        a[i + 1] = x[i]
        if x[i] > 9:
            a.zero_()
    return x * 2


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("grad", [False, True])
def test_histories_by_way_of_other_writes(n, grad):
    found = []
    for wrap in (lambda f: f, tg.function):
        f = wrap(written_by_two)
        a, b, w = torch.zeros(4), torch.ones(()), torch.ones(3, requires_grad=True)
        x = w * 3 if grad else w.detach() * 3
        y = torch.ones(3, requires_grad=True)
        try:
            f(a, b, x + (0 if grad else 1), torch.tensor(n))
        except IndexError:
            found.append("failed")
        found += [a.requires_grad, b.requires_grad, a.detach().clone(), b.detach().clone()]
        if b.requires_grad:
            (b * y.sum()).backward()
            found.append(w.grad)
    half = len(found) // 2
    assert same(found[:half], found[half:])
