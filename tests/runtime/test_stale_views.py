"""Views of what is written after they were made: of the caller's tensors in loops, and those that gradients go through."""

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


def by_the_method(y, v):
    return y * v.detach()


def by_the_function(y, v):
    return y * torch.detach(v)


def without_gradients(y, v):
    with torch.no_grad():
        w = v * 2
    return y * w + v


def asked(y, v):
    return y * 2 if v.requires_grad and not v.is_leaf else y


@pytest.mark.parametrize("use", [by_the_method, by_the_function, without_gradients, asked])
@pytest.mark.parametrize("k", range(3))
def test_the_history_is_that_of_what_was_written(use, k):
    def f(x):
        y = x * 2
        v = y[0]
        if k == 0:
            y.exp_()
        elif k == 1:
            y.view(-1)[1:].mul_(x.view(-1)[1:])
        elif x.sum() > 0:
            y.mul_(x)
        return use(y, v).sum()

    found = []
    for g in (f, tg.function(f)):
        x = torch.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)
        g(x).backward()
        found.append(x.grad)
    torch.testing.assert_close(*found)


DETACHED = [torch.detach, torch.Tensor.detach, torch.ops.aten.detach, torch.detach_, torch.Tensor.detach_]  # fmt: skip


@pytest.mark.parametrize("detach", DETACHED, ids=range(len(DETACHED)))
@pytest.mark.parametrize("inside", [False, True])
def test_functions_that_detach(detach, inside):
    def f(x):
        if x.sum() > 0:
            y = (x * detach(x * 2)).sum()
        else:
            y = (x * 3).sum()
        return torch.autograd.grad(y, x)[0] if inside else y

    x = torch.tensor([0.1, 0.2], requires_grad=True)
    found = [g(x) for g in (f, tg.function(f))]
    if not inside:
        found = [torch.autograd.grad(y, x)[0] for y in found]
    torch.testing.assert_close(*found)
