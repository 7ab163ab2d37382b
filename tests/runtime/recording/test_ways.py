"""Gradients of tensors that the path of a run does not use: none, where zeros would become NaN."""

import pytest
import torch

import tograph as tg

CASES = []


def case(function):
    CASES.append(pytest.param(function, id=function.__name__))
    return function


@case
def of_an_expression(x):
    a, b = x[:1].pow(2).mean().sqrt(), x[1:].pow(2).mean().sqrt()
    return a if a > b else b


@case
def of_the_larger(x):
    return max(x[0].sqrt(), x[1].sqrt())


@case
def of_an_item(x):
    return [x[0].sqrt(), x[1].sqrt()][int(x[1] > 1)]


@case
def of_a_quotient(x):
    y, z = 1 / x[1], x[0] * 2
    if x[1] != 0:
        z = z * y
    return z


@case
def of_a_product(x):
    n = x[1:].square().sum().sqrt()
    y = (torch.ones(3, 3) * n @ torch.ones(3)).sum() / n
    return y if n > 0 else x[0] ** 2


@case
def in_steps(x):
    t = x.sum() * 0
    for i in range(2):
        s = x[i].sqrt()
        if x[i] > 0:
            t = t + s
    return t


@case
def by_elif(x):
    u, v = x[0].sqrt(), x[1].sqrt()
    if x[0] > 10:
        y = u
    elif x[1] > 0:
        y = v
    else:
        y = x[0] * 3
    return y


@case
def twice_and_never(x):
    v, y = x[1].sqrt(), x.sum()
    for i in range(3):
        if x[1] > 0:
            if i > 0:
                y = y + v
        else:
            y = y * 2
            if y > 100:
                break
    return y


@case
def by_match(x):
    u, v = x[0].sqrt(), 1 / x[1]
    match int(x[1]):
        case 0:
            y = u
        case 2:
            y = u * v
        case _:
            y = v
    return y


@case
def by_try(x):
    v = x[1].sqrt()
    try:
        if x[1] == 0:
            raise ValueError
        return x[0] * v
    except ValueError:
        return x[0] * 2


@case
def in_a_loop(x):
    y = x[0]
    for _ in range(x[1].int() + 2):
        v = x[1].sqrt()
        y = y * 2 if x[1] == 0 else y * v
    return y


@case
def of_an_invariant(x):
    v, y = x[1].sqrt(), x[0]
    for _ in range(x[1].int()):
        y = y + v
    return y


@case
def of_an_invariant_in_some_iterations(x):
    v, y, k = x[1].sqrt(), x[0], 0
    while k < x[0]:
        if x[1] > 1:
            y = y + v * k
        elif x[1] > 5:
            y = y - v
        k += 1
    return y * 2


@case
def of_invariants_of_two_loops(x):
    v, w, y = x[1].sqrt(), x[0].sqrt(), x.sum()
    for i in range(x[1].int() + 2):
        for _ in range(x[0].int()):
            if i > 0:
                y = y + w
            if x[1] > 0:
                y = y + v
    return y


@case
def of_a_start_that_is_replaced(x):
    y = x[1].sqrt()
    for _ in range(x[0].int()):
        y = x[0] * 2
    return y


@case
def of_state_that_the_last_iteration_leaves_unused(x):
    t, y = x[0], x[1] * x[1]
    for _ in range(x[0].int() - 2):
        t = t + y
        y = y.sqrt()
    return t


@case
def of_states_in_turn(x):
    a, b = x[1].sqrt(), x[0]
    for _ in range(x[0].int()):
        a, b = b, b * x[0]
    return a


@case
def of_the_best(x):
    best, y = x[1].sqrt(), x[0]
    for i in range(x[0].int() + 1):
        y = y * 1.5
        if i > 1 or x[1] > 3:
            best = y
    return best


@case
def of_a_loop_behind_a_loop(x):
    a, y = x[0], x[1].sqrt()
    for _ in range(x[0].int()):
        a = a * x[0]
        y = a
    for _ in range(x[1].int() + 1):
        y = y * x[0]
    return y


@pytest.mark.parametrize("function", CASES)
def test_as_eagerly(function):
    def inside(x):
        x = x.detach().requires_grad_()
        (grad,) = torch.autograd.grad(function(x), x)
        return grad

    outside, within = tg.function(function), tg.function(inside)
    for numbers in ([3.0, 0.0], [0.0, 2.0], [1.0, 4.0]):
        x, y = (torch.tensor(numbers, requires_grad=True) for _ in range(2))
        function(x).backward()
        outside(y).backward()
        torch.testing.assert_close(y.grad, x.grad, equal_nan=True)
        torch.testing.assert_close(within(x.detach()), inside(x), equal_nan=True)


@pytest.mark.parametrize(
    "function", [of_an_expression, by_match, of_the_best, of_a_loop_behind_a_loop]
)
def test_higher_orders(function):
    def orders(f, x):
        found, y = [], f(x)
        for _ in range(3):
            (y,) = torch.autograd.grad((y * y).sum(), x, create_graph=True, materialize_grads=True)
            found.append(y.detach())
        return found

    f = tg.function(function)
    for numbers in ([3.0, 0.0], [1.0, 4.0]):
        x = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
        torch.testing.assert_close(orders(f, x), orders(function, x), equal_nan=True)


def test_a_gradient_that_is_there_keeps_its_infinity():
    x = torch.tensor([3.0, 0.0], requires_grad=True)
    tg.function(lambda x: x[1].sqrt() if x[0] > 0 else x[0])(x).backward()
    assert x.grad[1] == torch.inf
