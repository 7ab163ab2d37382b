"""Leaves that staged branches and loops make."""

import pytest
import torch

import tograph as tg
from tograph.errors import GradientError

D = torch.float64
X = torch.tensor([0.3, -1.2], dtype=D)


def in_branches(x, n):
    y = x.clone().requires_grad_() if n > 1 else torch.ones(2, dtype=D, requires_grad=True)
    z = (y * y).sum()
    z.backward()
    return y.grad, z.detach()


def returned(x, n):
    if n > 1:
        y = x.detach().requires_grad_()
    else:
        y = (x * 2).detach().requires_grad_()
    return y


def in_a_loop(x, n):
    y = x.detach().requires_grad_()
    while n > 0:
        (g,) = torch.autograd.grad((y * y).sum(), y)
        y = (y - 0.1 * g).detach().requires_grad_()
        n = n - 1
    return torch.autograd.grad(y.sin().sum(), y)[0], y


def sign_steps(x, n):
    y = x.detach()
    for _ in range(n):
        y = y.detach().requires_grad_()
        y.cos().sum().backward()
        y = (y.detach() + 0.1 * y.grad.sign()).clamp(-1, 1)
    return y


def in_an_attribute(x, n):
    class Held:
        y = x.detach().requires_grad_()

    held = Held()
    if n > 1:
        held.y = (x * 3).detach().requires_grad_()
    else:
        held.y = (x + 1).detach().requires_grad_()
    return torch.autograd.grad(held.y.exp().sum(), held.y)[0]


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("f", [in_branches, returned, in_a_loop, sign_steps, in_an_attribute])
def test_as_in_eager(f, n):
    found, wanted = tg.function(f)(X, torch.tensor(n)), f(X, torch.tensor(n))
    torch.testing.assert_close(found, wanted)
    for a, b in zip(*([x] if isinstance(x, torch.Tensor) else x for x in (found, wanted))):
        assert (a.requires_grad, a.is_leaf) == (b.requires_grad, b.is_leaf)


def test_a_gradient_that_it_got_there_is_refused():
    @tg.function
    def f(x, n):
        if n > 1:
            y = x.detach().requires_grad_()
        else:
            y = (x + 1).detach().requires_grad_()
        if n > 0:
            (y * y).sum().backward()
        return y

    @tg.function
    def g(x, n):
        if n > 1:
            y = x.detach().requires_grad_()
            (y * y).sum().backward()
        else:
            y = (x + 1).detach().requires_grad_()
        return y.grad

    with pytest.raises(GradientError, match="got a gradient there"):
        g(X, torch.tensor(2))
    assert f(X, torch.tensor(2)).requires_grad
