"""What torch.func.linearize gives, in staged loops and branches: as torch.func.jvp at the point gives it."""

import pytest
import torch
from torch.func import jvp, linearize

import tograph as tg

D = torch.float64
torch.manual_seed(0)
LAYER = torch.nn.Linear(3, 3).double()


def branched(v):
    return (LAYER(v) * v).sin() if v.sum() > 0 else v.exp()


def repeated(v):
    for _ in range(torch.tensor(2)):
        v = v.sin() * v + 0.1
    return v


def powers(f, lin, x, t):
    y, push = lin(f, x)
    for _ in range(torch.tensor(3)):
        t = push(t)
    return y, t


def in_a_branch(f, lin, x, t):
    y, push = lin(f, x)
    if x.sum() > 0:
        t = push(t) * 2
    return y, t


def until(f, lin, x, t):
    y, push = lin(f, x)
    s, k = t * 0, 0
    while s.abs().sum() < 3 and k < 5:
        s = s + push(t) + t
        k += 1
    return y, s


def conjugate_gradients(f, lin, x, t):
    y, push = lin(lambda v: f(v) * 0.1 + v * v * v + 2 * v, x)
    u = t * 0
    r = t - push(u)
    p, rs = r, r @ r
    for _ in range(torch.tensor(3)):
        q = push(p)
        a = rs / (p @ q)
        u, r = u + a * p, r - a * q
        new = r @ r
        p, rs = r + (new / rs) * p, new
    return y, u


def by_jvp(f, x):
    return f(x), lambda t: jvp(f, (x,), (t,))[1]


@pytest.mark.parametrize("f", [branched, repeated])
@pytest.mark.parametrize("g", [powers, in_a_branch, until, conjugate_gradients])
def test_values_and_gradients(g, f):
    found = []
    for lin, wrap in ((by_jvp, lambda h: h), (linearize, tg.function)):
        torch.manual_seed(1)
        h = wrap(lambda x, t, lin=lin: g(f, lin, x, t))
        for sign in (1, -1):
            x = (sign * (torch.rand(3, dtype=D) + 0.2)).requires_grad_()
            t = torch.rand(3, dtype=D).requires_grad_()
            made = h(x, t)
            grads = torch.autograd.grad(sum((y * y).sum() for y in made), [x, t])
            found.append((made, grads))
    assert h.trace_count == 1
    torch.testing.assert_close(found[2:], found[:2])


def test_second_derivatives():
    x = (torch.rand(3, dtype=D) + 0.2).requires_grad_()
    t = torch.rand(3, dtype=D).requires_grad_()
    f = tg.function(lambda x, t: powers(branched, linearize, x, t))
    assert torch.autograd.gradgradcheck(f, (x, t))


def test_what_it_uses_is_read_where_it_is_made():
    def f(x, t):
        w = x * 1
        _, push = linearize(lambda v: v * w * v if v.sum() > 0 else v, x)
        w = w * 100
        for _ in range(torch.tensor(2)):
            t = push(t) + w * 0
        return t

    x, t = torch.tensor([0.5, 2.0], dtype=D), torch.ones(2, dtype=D)
    torch.testing.assert_close(tg.function(f)(x, t), (2 * x * x) ** 2)
