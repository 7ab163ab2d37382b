"""Gradients with respect to what a staged branch or loop gives, where that is a tensor from before it."""

import pytest
import torch

import tograph as tg
from tests.runtime.gradients.test_outer_gradients import outcome


def argument(x, w, n):
    a = w if n > 1 else w * 2
    return torch.autograd.grad((a * w * x).sum(), a, create_graph=True)


def chosen_twice(x, w, n):
    y = w.sin()
    a = y if n > 1 else y * 2
    b = a if x.sum() > -100 else a * 3
    return torch.autograd.grad((b * y * a * x).sum(), b, create_graph=True)


def nested(x, w, n):
    y = w.sin()
    if n > 0:
        if n > 2:
            a = y
        elif n > 1:
            a = y * 2
        else:
            a = w
    else:
        a = w * 2
    return torch.autograd.grad((a * y * w * x).sum(), a, create_graph=True)


def no_iteration(x, w, n):
    y = a = w.sin()
    i = 0
    while i < n and a.sum() > -100:
        a = a * 0.5
        i = i + 1
    return torch.autograd.grad((a * x - y).square().sum(), a, create_graph=True)


def in_a_body(x, w, n):
    s = w * 0
    for i in range(n):
        a = w if i % 2 == 0 else w * 2
        (g,) = torch.autograd.grad((a * w * x).sum(), a, create_graph=True)
        s = s + g
    return s


def asked_in_a_branch(x, w, n):
    y = a = w.sin()
    for _ in range(n):
        a = a * 0.5
    if x.sum() > -100:
        (y,) = torch.autograd.grad((a * y * w * x).sum(), a, create_graph=True)
    return y


def leaf_of_a_branch(x, w, n):
    p = q = x.detach().requires_grad_()
    if n > 1:
        q = (q * 0.5).detach().requires_grad_()
    (p * q * q).sum().backward()
    return q.grad, p.grad


def leaf_of_a_loop(x, w, n):
    p = q = x.detach().requires_grad_()
    while n > 0:
        q = (q * 0.5).detach().requires_grad_()
        n = n - 1
    g, h = torch.autograd.grad((p * q * q).sum(), [q, p], retain_graph=True)
    (p * p * q).sum().backward()
    return g, h, q.grad, p.grad


def goes_on_in_a_loop(x, w, n):
    p = x.clone().requires_grad_()
    if n > 2:
        p = (p * 0.5).detach().requires_grad_()
    for _ in range(n):
        (p * p).sum().backward()
        p = (p - 0.2 * p.grad).detach().requires_grad_()
    return p.detach()


def kept_by_iterations(x, w, n):
    y = a = w.sin()
    for i in range(n):
        c = a * 0.5
        if i != 1:
            a = c
    return torch.autograd.grad((a * x - y).square().sum(), a, create_graph=True)


def not_always_changed(x, w, n):
    y = a = w.sin()
    for _ in range(n):
        c = y * 0.5
        if c.sum() > a.sum():
            a = c
    return torch.autograd.grad((a * x - y).square().sum(), a, create_graph=True)


def another_one_by_a_loop(x, w, n):
    y, z = w.sin(), w.cos()
    a, b = y, z
    for i in range(n):
        a, b = b, a
        for j in range(i):
            if j == 1:
                b = y
    return torch.autograd.grad((y * z * z * x).sum(), [a, b], allow_unused=True)


def three_in_turn(x, w, n):
    a, b, c = w.sin(), w.cos(), w.tanh()
    total = (a * b * b * c * x).sum()
    for _ in range(n):
        a, b, c = b, c, a
    return torch.autograd.grad(total, [a, b, c])


PROGRAMS = [
    kept_by_iterations, not_always_changed, another_one_by_a_loop, three_in_turn,
    argument, chosen_twice, nested, no_iteration, in_a_body, asked_in_a_branch, leaf_of_a_branch, leaf_of_a_loop, goes_on_in_a_loop,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_two_names_of_one_tensor(f):
    converted = tg.function(f)
    for n in (2, 0, 1, 3):
        torch.testing.assert_close(outcome(converted, torch.tensor(n)), outcome(f, n))


def in_another_dict(x, w, n):
    params = fast = {"a": w, "b": x}
    if n > 1:
        fast = {k: v * 2 for k, v in params.items()}
    return (params["a"] * params["b"]).sum(), list(fast.values())


def beside_what_is_used(x, w, n):
    fast = [w, x] if n > 1 else [w * 2, x * 3]
    return (w * x).sum() + (fast[0] ** 2).sum(), fast


def in_a_loop(x, w, n):
    a = x
    for _ in range(n):
        a = w
    return (w.sin() * 2).sum(), [a]


@pytest.mark.parametrize("f", [in_another_dict, beside_what_is_used, in_a_loop])
def test_what_a_run_does_not_lead_to_is_none(f):
    @tg.function
    def converted(x, w, n):
        loss, wrt = f(x, w, n)
        return torch.autograd.grad(loss, wrt, allow_unused=True)

    for n in (0, 1, 2, 3):
        x, w = (torch.rand(3, requires_grad=True) for _ in range(2))
        loss, wrt = f(x, w, n)
        expected = torch.autograd.grad(loss, wrt, allow_unused=True)
        found = converted(x, w, torch.tensor(n))
        assert [g is None for g in found] == [g is None for g in expected]
        torch.testing.assert_close(found, expected)


def test_a_gradient_that_a_run_does_not_have_raises():
    @tg.function
    def f(w, c):
        a = w if c > 0 else w * 2
        return torch.autograd.grad(w.sin().sum(), a)

    w = torch.ones(3, requires_grad=True)
    torch.testing.assert_close(f(w, torch.tensor(1))[0], w.cos())
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        f(w, torch.tensor(-1))
