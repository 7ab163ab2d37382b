"""Gradients taken outside of a function whose branches and loops saved a tensor of the caller that it writes: eager's error, or its gradient."""

import pytest
import torch

import tograph as tg

D = torch.float64


def branch(x, b):
    return x * b if x.sum() > 0 else x + b


def loop(x, b):
    y = x
    for _ in range(torch.tensor(2)):
        y = y * b + 1
    return y


def add(b, x):
    b.add_(1)


def scale_without_gradients(b, x):
    with torch.no_grad():
        b.mul_(0.5)


def fill(b, x):
    b.fill_(7)


def one_item(b, x):
    b[1] = 7


def average(b, x):
    with torch.no_grad():
        b.lerp_(x.detach(), 0.1)


def by_a_condition(b, x):
    if x[0] > 0:
        b.add_(1)


def in_a_loop(b, x):
    for _ in range(torch.tensor(2)):
        b.add_(x.detach())


WRITES = [add, scale_without_gradients, fill, one_item, average, by_a_condition, in_a_loop]


def outcome(f, b, sign, calls):
    """The gradients, or the beginning of the error, and what ``b`` holds."""
    x = (torch.tensor([0.5, -0.3, 0.8], dtype=D) * sign).requires_grad_()
    try:
        results = [f(x) for _ in range(calls)]
        return [g.tolist() for g in torch.autograd.grad(sum(results), x)], b.tolist()
    except RuntimeError as error:
        return str(error)[:80], b.tolist()


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("use", [branch, loop], ids=lambda f: f.__name__)
def test_a_write_behind_what_saved_it(use, write):
    def run(wrap):
        b = torch.full((3,), 2.0, dtype=D)

        def f(x):
            y = use(x, b)
            write(b, x)
            return y.sum()

        f = wrap(f)
        return [outcome(f, b, sign, calls) for sign in (1, -1) for calls in (1, 2)]

    assert run(tg.function) == run(lambda f: f)


def used_then_written(x, b):
    y = x * b
    if x.sum() > 0:
        b.add_(1)
    return y


def both_in_the_branch(x, b):
    y = x
    if x.sum() > 0:
        y = x * b
        if y[0] > -1:
            b.add_(1)
    return y


def in_the_last_iteration(x, b):
    y = x
    for i in range(torch.tensor(3)):
        y = y * b
        if i == 2:
            b.add_(1)
    return y


def in_the_first_iteration(x, b):
    y = x
    for i in range(torch.tensor(3)):
        if i == 0:
            b.add_(1)
        y = y * b
    return y


def a_history(x, b):
    if x.sum() > 0:
        b.add_(x**3)
    return b * 1


@pytest.mark.parametrize(
    "program",
    [used_then_written, both_in_the_branch, in_the_last_iteration, in_the_first_iteration, a_history],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_a_write_in_a_branch_or_loop(program):
    def run(wrap):
        b = torch.full((3,), 2.0, dtype=D)
        f = wrap(lambda x: program(x, b).sum())
        calls = (1,) if program is in_the_first_iteration else (1, 2)
        return [outcome(f, b, sign, n) for sign in (1, -1) for n in calls]

    assert run(tg.function) == run(lambda f: f)


def a_step(x, w):
    y = torch.sin(x * w)
    if x[0] > 0:
        scale_without_gradients(w, x)
    return y


@pytest.mark.parametrize("program", [used_then_written, a_step], ids=lambda f: f.__name__)
def test_a_gradient_that_is_differentiated(program):
    def run(wrap):
        w = torch.full((3,), 2.0, dtype=D, requires_grad=program is a_step)
        f, found = wrap(lambda x: program(x, w).sum()), []
        for sign in (1, -1):
            x = (torch.tensor([0.5, -0.3, 0.8], dtype=D) * sign).requires_grad_()
            try:
                (g,) = torch.autograd.grad(f(x), x, create_graph=True)
                found.append((g.tolist(), g.requires_grad))
                found.append([h.tolist() for h in torch.autograd.grad(g.sum(), [x, w])])
            except RuntimeError as error:
                found.append(str(error)[:80])
        return found

    assert run(tg.function) == run(lambda f: f)


def scaled_in_place(x, w):
    t = x * 1.5
    t.mul_(x - w)
    return t


def scaled_in_a_branch(x, w):
    t = torch.sin(x)
    if x.sum() > 0:
        t[:2].mul_(x[1:] - w[1:])
    return t


def scaled_in_a_loop(x, w):
    t = torch.sin(x)
    for _ in range(torch.tensor(2)):
        t *= x - w
    return t


@pytest.mark.parametrize("program", [scaled_in_place, scaled_in_a_branch, scaled_in_a_loop], ids=lambda f: f.__name__)  # fmt: skip
def test_the_second_derivative_of_a_product_in_place(program):
    def run(f):
        w = torch.full((3,), 2.0, dtype=D, requires_grad=True)
        x = torch.tensor([0.5, -0.3, 0.8], dtype=D, requires_grad=True)
        (g,) = torch.autograd.grad((f(x, w) ** 2).sum(), x, create_graph=True)
        return torch.cat(torch.autograd.grad(g.sin().sum(), [x, w]))

    torch.testing.assert_close(run(tg.function(program)), run(program))


def test_a_parameter_that_is_written_behind_its_use():
    def run(wrap):
        w = torch.tensor([1.0, 2.0, 3.0], dtype=D, requires_grad=True)

        def f(x):
            y = branch(x, w)
            scale_without_gradients(w, x)
            return y.sum()

        f, found = wrap(f), []
        for sign in (1, -1):
            x = torch.full((3,), float(sign), dtype=D)
            found.append(torch.autograd.grad(f(x), w)[0].tolist())
            found.append(outcome(f, w.detach(), sign, 1))
        return found

    assert run(tg.function) == run(lambda f: f)


def test_a_tensor_of_inference_mode_is_an_argument():
    def run(wrap):
        f = wrap(lambda x, v: (x + v).sum() if x.sum() > 0 else (x - v).sum())
        with torch.inference_mode():
            v = torch.ones(3, dtype=D)
        return [outcome(lambda x: f(x, v), torch.zeros(1), sign, 1) for sign in (1, -1)]

    assert run(tg.function) == run(lambda f: f)
