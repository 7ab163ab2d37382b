"""Backward hooks of whole modules for gradients that are taken outside of the function, branch or body: as eager PyTorch."""

import pytest
import torch
from torch import nn

import tograph as tg

D = torch.float64


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3).to(D)

    def forward(self, a, b, k=1):
        if a.sum() > 0:
            return self.layer(a) * b, b * k
        return self.layer(a) + b, b * b


def scaled(m, gi, go):
    return tuple(None if g is None else g * 2 + (0 if go[0] is None else go[0].sum()) for g in gi)


def weighted(m, gi, go):
    return tuple(None if g is None else g * m.layer.weight.sum() for g in gi)


def looking(m, gi, go):
    return None


def clipped(m, gi, go):
    if gi[0].norm() > 1:
        return (gi[0] / gi[0].norm(), *gi[1:])
    return None


def before(m, go):
    return tuple(None if g is None else g * 3 for g in go)


def one(m, x, z):
    return m(x, z)[0]


def both(m, x, z):
    a, b = m(x, z)
    return a + b + x


def one_input(m, x, z):
    return m(x, z.detach())[0]


def in_a_loop(m, x, z):
    for _ in range(torch.tensor(3)):
        x = m(x, z)[0].tanh()
    return x


def in_a_branch(m, x, z):
    y = x * 2
    if z.sum() > 0.1:
        y = m(y, z)[0] + y
    return y * y


def twice(m, x, z):
    return m(m(x, z)[0], z)[0]


@pytest.mark.parametrize("f", [one, both, one_input, in_a_loop, in_a_branch, twice])
@pytest.mark.parametrize(
    "hooks",
    [[scaled], [weighted], [looking], [clipped], [before], [scaled, before, clipped]],
    ids=lambda hooks: "-".join(h.__name__ for h in hooks),
)
def test_gradients_outside(hooks, f):
    """One trace serves both ways of the branch in the module."""
    found = []
    for wrap in (lambda g: g, tg.function):
        torch.manual_seed(0)
        m = Two()
        for h in hooks:
            register = m.register_full_backward_pre_hook if h is before else m.register_full_backward_hook  # fmt: skip
            register(h)
        g = wrap(lambda x, z, m=m: f(m, x, z))
        for sign in (1, -1):
            x = (sign * torch.rand(3, dtype=D)).requires_grad_()
            z = torch.rand(3, dtype=D).requires_grad_()
            y, given = g(x, z), [x, z, *m.parameters()]
            found.append((y, torch.autograd.grad((y * y).sum(), given, allow_unused=True)))
    assert g.trace_count == 1
    torch.testing.assert_close(found[2:], found[:2])


def test_gradients_inside_go_through_once():
    m = Two()
    m.register_full_backward_hook(scaled)

    def f(x, z):
        return torch.autograd.grad(m(x, z)[0].sum(), [x, z])

    args = [torch.rand(3, dtype=D, requires_grad=True) for _ in range(2)]
    torch.testing.assert_close(tg.function(f)(*args), f(*args))


def test_effects_are_refused():
    m, seen = Two(), []
    m.register_full_backward_hook(lambda m, gi, go: seen.append(1))
    args = [torch.rand(3, dtype=D, requires_grad=True) for _ in range(2)]
    with pytest.raises(tg.errors.GradientError, match="cannot be part of a graph"):
        tg.function(lambda x, z: m(x, z)[0])(*args).sum().backward()
