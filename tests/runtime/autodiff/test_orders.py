"""Gradients with `create_graph=True` that go on into earlier iterations of a staged loop: native against `tg.function`."""

import pytest
import torch
from torch.nn import functional as F

import tograph as tg
from tograph.errors import GradientError

pytestmark = pytest.mark.filterwarnings("ignore:Using backward")


def arguments():
    torch.manual_seed(0)
    return (
        torch.randn(3, requires_grad=True),
        torch.randn(3, 3).mul(0.5).requires_grad_(),
        torch.tensor(0.1, requires_grad=True),
    )


def penalty(x, w, lr, n):
    h, total = torch.zeros(3), torch.zeros(())
    for _ in range(n):
        h = torch.tanh(w @ h + x)
        (g,) = torch.autograd.grad(h.square().sum(), w, create_graph=True)
        total = total + g.square().sum()
    return total


def penalty_in_a_branch(x, w, lr, n):
    h, total = torch.zeros(3), torch.zeros(())
    for i in range(n):
        if i % 2 == 0:
            h = h.detach()
        h = torch.tanh(w @ h + x)
        if h.sum() > -1:
            (g,) = torch.autograd.grad(h.square().sum(), w, create_graph=True)
            total = total + g.square().sum()
    return total


def backward_behind(x, w, lr, n):
    h, total = torch.zeros(3), w.sum() * 0
    for _ in range(n):
        h = F.gelu(w @ h + x)
        grads = torch.autograd.grad(F.mse_loss(h, x.detach()), [w, x], create_graph=True)
        total = total + lr * torch.sqrt(sum((g**2).sum() for g in grads) + 1e-6)
    total.backward()
    return total.detach()


def products_with_hessians(x, w, lr, n):
    h, total, v = torch.zeros(3), torch.zeros(3, 3), torch.ones(3, 3)
    for _ in range(n):
        h = torch.tanh(w @ h + x)
        (g,) = torch.autograd.grad(h.square().sum(), w, create_graph=True)
        (hv,) = torch.autograd.grad((g * v).sum(), w, retain_graph=True)
        total = total + hv
    return total


def of_cotangents_that_are_zero(x, w, lr, n):
    h, total = torch.zeros(3), torch.zeros(3, 3)
    for _ in range(n):
        h = torch.tanh(w @ h + x)
        (g,) = torch.autograd.grad((h - h.detach()).square().sum(), w, create_graph=True)
        (hv,) = torch.autograd.grad((g * w.detach()).sum(), w, retain_graph=True)
        total = total + hv
    return total


def third_order(x, w, lr, n):
    h, total = torch.zeros(3), torch.zeros(())
    for _ in range(n):
        h = torch.sin(w @ h + x)
        (g,) = torch.autograd.grad(h.square().sum(), w, create_graph=True)
        (g2,) = torch.autograd.grad(g.square().sum(), x, create_graph=True)
        (g3,) = torch.autograd.grad(g2.square().sum(), w, create_graph=True)
        total = total + g2.sum() + g3.sum()
    return total


def step_size(x, w, lr, n):
    y, total = x, torch.zeros(())
    for _ in range(n):
        (g,) = torch.autograd.grad((w @ y).square().sum(), y, create_graph=True)
        y = y - lr * g
        (h,) = torch.autograd.grad((y - 1).square().sum(), lr, create_graph=True)
        total = total + h
    return total, y


def step_size_of_each(x, w, lr, n):
    y, rate = x, lr.detach()
    for _ in range(n):
        (g,) = torch.autograd.grad((w @ y).square().sum(), y, create_graph=True)
        y = y - rate * lr * g
        (h,) = torch.autograd.grad(y.square().sum(), lr, create_graph=True)
        rate = rate - 0.01 * h.detach()
    return y


def state_and_weights(x, w, lr, n):
    y, total = x, torch.zeros(())
    for _ in range(n):
        gy, gw = torch.autograd.grad((w @ y).tanh().sum(), (y, w), create_graph=True)
        y = y - lr * gy
        total = total + gw.square().sum()
    return y.sum() + total


def of_what_gradients_add_up_to(x, w, lr, n):
    """The sum is differentiated in each iteration: it goes through the gradients of those before."""
    h, total, found = torch.zeros(3), torch.zeros(()), torch.zeros(3, 3)
    for _ in range(n):
        h = torch.tanh(w @ h + x)
        (g,) = torch.autograd.grad(h.square().sum(), w, create_graph=True)
        total = total + g.square().sum()
        (s,) = torch.autograd.grad(total, w, retain_graph=True)
        found = found + s
    return found, total


def loops_in_loops(x, w, lr, n):
    h, total = torch.zeros(3), torch.zeros(())
    for _ in range(n):
        a = h
        for _ in range(n):
            a = torch.sin(w @ a + h * x)
            (g,) = torch.autograd.grad(a.sum(), w, create_graph=True)
            total = total + g.square().mean()
        h = torch.tanh(a)
    return total + h.sum()


def a_fixed_point(x, w, lr, n):
    z, k, error, total = torch.zeros(3), 0, torch.ones(()), torch.zeros(())
    while error > 1e-3 and k < n:
        new = torch.tanh(0.3 * w @ z + x)
        error, z = (new - z).abs().max().detach(), new
        (g,) = torch.autograd.grad(z.sum(), x, create_graph=True)
        total, k = total + g.norm(), k + 1
    return z.sum() + 0.1 * total


def with_fields(x, w, lr, n):
    h = torch.zeros(3)
    for _ in range(n):
        h = torch.tanh(w @ h + x)
        h.sum().backward(create_graph=True)
    return h.detach()


def gathered(x, w, lr, n):
    h, grads = torch.zeros(3), []
    for _ in range(n):
        h = torch.tanh(w @ h + x)
        grads.append(torch.autograd.grad(h.sum(), w, create_graph=True)[0])
    return torch.stack(grads).square().sum() if len(grads) > 0 else h.sum()


def none_by_other_state(x, w, lr, n):
    a, b, total = x, w.sum(), torch.zeros(())
    for _ in range(n):
        a, b = torch.sin(a * lr), b * 2
        ga, gb = torch.autograd.grad(a.sum(), (x, w), retain_graph=True, allow_unused=True)
        total = total + ga.sum() + (1 if gb is None else 0)
    return total, b


def fields_by_other_state(x, w, lr, n):
    a, b = x, w.sum()
    for _ in range(n):
        a, b = torch.sin(a * lr), b * 2
        a.sum().backward(retain_graph=True)
    return a.detach()


def unused(x, w, lr, n):
    a, b, total = x, w.sum(), torch.zeros(())
    for _ in range(n):
        a, b = torch.sin(a * lr), b * 2
        total = total + torch.autograd.grad(a.sum(), w, retain_graph=True)[0].sum()
    return total


def rising(x, w, lr, n):
    """Each gradient is of a higher order than the one before, in iterations whose number is known while tracing."""
    y, g = x, torch.zeros(())
    for i in range(3):
        y = y - lr * g
        (g,) = torch.autograd.grad(y.sin().sum() * lr, lr, create_graph=True)
        if i >= n:
            break
    return y.sum() + g


def rises(y, lr):
    (g,) = torch.autograd.grad((y * lr).sin().sum(), lr, create_graph=True)
    return y - lr * g


def rising_to_a_least_number(x, w, lr, n):
    y = x
    for _ in range(min(n, 3)):
        y = rises(y, lr)
    return y


def rising_to_a_clamped_number(x, w, lr, n):
    y = x
    for _ in range(torch.clamp(n, max=2)):
        y = rises(y, lr)
    return y


def rising_while(x, w, lr, n):
    y, i = x, 0
    while i < n and i < 3:
        y = rises(y, lr)
        i += 1
    return y, i


def rising_by_a_tensor(x, w, lr, n):
    y, i = x, torch.zeros(())
    while i < n and i < 3:
        y = rises(y, lr)
        i = i + 1
    return y, i


def rising_by_a_tensor_in_place(x, w, lr, n):
    y, i = x, torch.tensor(0)
    while i < 2:
        y = rises(y, lr)
        i += 1
        if y.sum() > n:
            break
    return y, i


def rising_until(x, w, lr, n):
    y, i = x, 0
    while i < 3:
        y = rises(y, lr)
        i += 1
        if y.sum() > n:
            break
    return y, i


PROGRAMS = [
    penalty, penalty_in_a_branch, backward_behind, products_with_hessians, of_cotangents_that_are_zero, third_order, step_size, step_size_of_each, state_and_weights,
    of_what_gradients_add_up_to, loops_in_loops, a_fixed_point, with_fields, gathered, none_by_other_state, fields_by_other_state, unused, rising,
    rising_to_a_least_number, rising_to_a_clamped_number, rising_while, rising_by_a_tensor, rising_by_a_tensor_in_place, rising_until,
]  # fmt: skip


def outcome(function, trips):
    """The results, `.grad` fields and gradients of a call, or the class of its error."""
    inputs = arguments()
    try:
        outs = function(*inputs, torch.tensor(trips))
    except RuntimeError as error:
        return type(error)
    outs = outs if isinstance(outs, tuple) else (outs,)
    outs = [torch.as_tensor(y) for y in outs]
    found = [y.detach() for y in outs] + [x.grad for x in inputs]
    ends = [y.sum() for y in outs if y.requires_grad]
    if ends:
        found += torch.autograd.grad(sum(ends), inputs, allow_unused=True)
    return [len(ends), *found]


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_eager(program):
    converted = tg.function(program)
    for trips in (0, 1, 3):
        found, expected = outcome(converted, trips), outcome(program, trips)
        if isinstance(expected, list):
            torch.testing.assert_close(found, expected, msg=f"{trips} trips")
        else:
            assert found is expected


@pytest.mark.parametrize("most", [None, 9])
def test_an_order_that_rises_with_each_iteration(most):
    @tg.function
    def f(y, lr, n):
        g = torch.ones(())
        for _ in range(n if most is None else min(n, most)):
            y = y - lr * g
            (g,) = torch.autograd.grad((y**3).sum(), lr, create_graph=True)
        return y

    with pytest.raises(GradientError, match="each is of a higher order than the one before"):
        f(torch.ones(3), torch.tensor(0.1, requires_grad=True), torch.tensor(3))


def test_an_order_that_rises_through_two_loops():
    @tg.function
    def f(y, lr, n):
        for _ in range(2):
            for _ in range(min(n, 2)):
                y = rises(y, lr)
        return y

    with pytest.raises(GradientError, match="gradients that another loop has taken"):
        f(torch.ones(3), torch.tensor(0.1, requires_grad=True), torch.tensor(3))


def test_by_the_state_itself():
    @tg.function
    def f(x, w, n):
        h, total = x, torch.zeros(3)
        for _ in range(n):
            old = h
            h = torch.tanh(w @ h + x)
            (g,) = torch.autograd.grad(h.sum(), w, create_graph=True)
            total = total + torch.autograd.grad(g.sum(), old, retain_graph=True)[0]
        return total

    with pytest.raises(GradientError, match="with respect to that state"):
        f(*arguments()[:2], torch.tensor(3))
