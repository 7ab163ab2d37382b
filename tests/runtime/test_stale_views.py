"""Views of the caller's tensors from before a loop whose body writes them."""

import pytest
import torch

import tograph as tg

OUTSIDE = torch.ones(4)


def detached(x, n):
    p = x.detach()
    for _ in range(n):
        p.sub_(0.1 * p)
    return p * 1


def by_the_whole(x, n):
    v, s = x[1:], torch.zeros(())
    for _ in range(n):
        s = s + v.sum()
        x.mul_(0.9)
    return s


def by_another_view(x, n):
    v, u, s = x.view(2, 2).t(), x[2:], torch.zeros(())
    while n > 0:
        s = s + v[1].sum()
        if n > 1:
            u.mul_(0.5)
        n = n - 1
    return s


def of_a_captured_tensor(x, n):
    v = OUTSIDE[:2]
    while v.sum() < n:
        OUTSIDE.add_(1)
    return v * x[:2]


def nested(x, n):
    v, s = x.detach()[1:3], torch.zeros(())
    for _ in range(n):
        for _ in range(n):
            s = s + v.sum()
            x.mul_(0.9)
        s = s * v[0]
    return s


def descent(x, n):
    p = x.detach().requires_grad_()
    for _ in range(n):
        (g,) = torch.autograd.grad((p * p).sum(), p)
        with torch.no_grad():
            p.sub_(0.1 * g)
    return p.detach()


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("f", [detached, by_the_whole, by_another_view, of_a_captured_tensor, nested, descent])  # fmt: skip
def test_as_in_eager(f, n):
    found = []
    for g in (f, tg.function(f)):
        x = torch.arange(1.0, 5.0)
        OUTSIDE.fill_(1)
        found.append((g(x, torch.tensor(n)), x, OUTSIDE.clone()))
    torch.testing.assert_close(*found)
