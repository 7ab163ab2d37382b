"""Gradients with respect to items of lists that grow in staged code."""

import pytest
import torch

import tograph as tg
from tograph.errors import GradientError


def sines(w, n):
    xs = [torch.tanh(w)]
    for _ in range(n):
        xs.append(torch.sin(xs[-1] * w))
    return xs


def one_reading(w, n):
    y = sines(w, n)[-1]
    return torch.autograd.grad((y * w).sum(), y)[0]


def each(w, n):
    total = torch.zeros(3)
    for x in sines(w, n):
        total = total + torch.autograd.grad((x * x * w).sum(), x)[0]
    return total


@pytest.mark.parametrize("f", [one_reading, each])
def test_an_item_that_is_read_once(f):
    g = tg.function(f)
    for n in (2, 0, 1):
        w = torch.tensor([0.5, -0.2, 1.0], requires_grad=True)
        torch.testing.assert_close(g(w, torch.tensor(n)), f(w, n))


def two_readings(w, n):
    xs = sines(w, n)
    return torch.autograd.grad((xs[-1] * w).sum(), xs[-1], allow_unused=True)


def another_item(w, n):
    xs = sines(w, n)
    y = xs[0]
    return torch.autograd.grad((y * xs[-1]).sum(), y)


def the_tensor_itself(w, n):
    xs = [w]
    if n > 0:
        xs.append(w * 2)
    y = xs[-1]
    return torch.autograd.grad((y * w).sum(), y)


def appended_in_a_branch(w, n):
    xs = [w * 2]
    for i in range(n):
        if i > 0:
            xs.append(w)
        else:
            xs.append(w * 3)
    y = xs[-1]
    return torch.autograd.grad((y * w).sum(), y)


def state_too(w, n):
    y, xs = torch.tanh(w), []
    for _ in range(n):
        y = torch.sin(y)
        xs.append(y)
    z = xs[-1]
    return torch.autograd.grad((z * y).sum(), z)


REFUSED = [two_readings, another_item, the_tensor_itself, appended_in_a_branch, state_too]


@pytest.mark.parametrize("f", REFUSED)
def test_an_item_by_another_name_is_refused(f):
    w = torch.ones(3, requires_grad=True)
    with pytest.raises(GradientError, match="an item of a list that grows") as error:
        tg.function(f)(w, torch.tensor(2))
    assert "test_list_items.py" in str(error.value)


def leaf_that_an_earlier_iteration_read(x, n):
    w = x.detach().clone().requires_grad_()
    v, xs, i = w, [w], 0
    while i < n:
        i = i + 1
        xs.append(x)
        (v**2).sum().backward()
        v = xs[0]
    return w.grad


def item_that_an_earlier_iteration_read(x, n):
    w = x.sin()
    v, xs, i, g = w, [w], 0, x * 0
    while i < n:
        i = i + 1
        xs.append(x)
        (g,) = torch.autograd.grad((v**2).sum(), x, retain_graph=True)
        v = xs[0]
    return g


def item_that_iterations_put_in(x, n):
    v, xs, i, g = x * 1, [x.detach()], 0, x * 0
    while i < n:
        i = i + 1
        xs.append(v * 2)
        (g,) = torch.autograd.grad((v**2).sum(), x, retain_graph=True, create_graph=True)
        v = xs[-1]
    return g


@pytest.mark.parametrize(
    "f, refused",
    [(leaf_that_an_earlier_iteration_read, True), (item_that_an_earlier_iteration_read, True), (item_that_iterations_put_in, False)],
)  # fmt: skip
def test_an_item_from_before_the_loop_by_what_an_earlier_iteration_read(f, refused):
    x, staged = torch.tensor([0.5, -0.3], requires_grad=True), tg.function(f)
    torch.testing.assert_close(staged(x, torch.tensor(1)), f(x, torch.tensor(1)))
    if refused:
        with pytest.raises(GradientError, match="an item of a list that was there before the loop"):
            staged(x, torch.tensor(2))
    else:
        torch.testing.assert_close(staged(x, torch.tensor(2)), f(x, torch.tensor(2)))
