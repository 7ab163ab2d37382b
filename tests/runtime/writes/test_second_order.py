"""Second derivatives of gradients that are taken inside, through tensors that staged branches and loops write in place."""

import pytest
import torch

import tograph as tg

D = torch.float64


def written(x, w, n):
    y = x * w
    if n > 0:
        y.mul_(x)
    return (y * y).sum()


def a_view(x, w, n):
    y = torch.stack([x, x * w])
    v = y[1]
    if n > 0:
        v.mul_(w)
    y[0] = x.cos()
    return (y.sin().sum(0) + v).square().sum()


def in_each_other(x, w, n):
    y = x * w
    z = y.cos()
    if n > 0:
        y.mul_(x)
        if n > 1:
            y[0] = x[1] * w[0]
        y.add_(z)
    while n > 0:
        y.mul_(w)
        n = n - 1
    return (y * x).sum()


def saved_before(x, w, n):
    y = x * w
    if n < 2:
        z = y.sin().sum()
    else:
        z = (y * w).sum()
    if n == 1:
        y.mul_(x)
    return z + y.sum()


def saved_result(x, w, n):
    y = (x * w).exp()
    z = y * y
    while n > 1:
        y.mul_(x)
        n = n - 1
    return (z + y).sum()


def detached(x, w, n):
    y = x * w
    v = y.detach()
    z = (v * x * x).sum()
    if n > 1:
        v.mul_(x)
    return z + (y * x).sum()


def plain(x, w, n):
    y = (x * w).detach()
    z = (y * x * x).sum()
    if n > 1:
        y.mul_(2)
    return z


def without_gradients(x, w, n):
    y = x * w
    z = y.sum()
    if n > 0:
        with torch.no_grad():
            y.mul_(2)
    return (y * x).sum() * z


FUNCTIONS = [written, a_view, in_each_other, saved_before, saved_result, detached, plain, without_gradients]  # fmt: skip


def derivatives(f, n, staged):
    """The gradients of the first two orders, taken inside, and one of these that is taken outside; or the type of an error."""

    def inside(x, w, n):
        first = torch.autograd.grad(f(x, w, n), [x, w], create_graph=True, materialize_grads=True)
        total = sum((g * g).sum() for g in first)
        second = torch.autograd.grad(total, [x, w], create_graph=True, materialize_grads=True)
        return [*first, *second]

    leaves = [torch.tensor(v, dtype=D, requires_grad=True) for v in ([0.3, 0.4], [0.7, -0.4])]
    try:
        found = (tg.function(inside) if staged else inside)(*leaves, torch.tensor(n))
        third = torch.autograd.grad(sum(g.sin().sum() for g in found), leaves)
        return [g.detach() for g in (*found, *third)]
    except RuntimeError as error:
        return type(error)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_as_in_eager(f, n):
    want, got = (derivatives(f, n, staged) for staged in (False, True))
    if isinstance(want, type):
        assert got is want
    else:
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_hessian(n):
    def hessian(x, w, n):
        return torch.func.hessian(lambda x: written(x, w, n))(x)

    args = torch.tensor([0.3, 0.4]), torch.tensor([0.7, -0.4]), torch.tensor(n)
    torch.testing.assert_close(tg.function(hessian)(*args), hessian(*args))
