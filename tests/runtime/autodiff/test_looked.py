"""What a call has saved that its run would not have saved, and what it might have written and left: a write outside is an error for the rest only."""

import pytest
import torch

import tograph as tg

PROGRAMS = []


def both(program, *args):
    """What a program gives, or its error, natively and with its function converted."""
    found = []
    for wrap in (lambda f: f, tg.function):
        try:
            found.append(program(wrap, *args))
        except RuntimeError as error:
            found.append("modified by an inplace" in str(error) or str(error))
    return found


def gradient(y, x, **how):
    return torch.autograd.grad(y.sum(), x, **how)[0].tolist()


@PROGRAMS.append
def an_argument_of_a_branch(wrap, c):
    f = wrap(lambda x, w, c: x * w if c > 0 else x * 2)
    x, w = torch.ones(3, requires_grad=True), torch.ones(3)
    y = f(x, w, c)
    w.add_(1)
    return gradient(y, x)


@PROGRAMS.append
def an_argument_of_a_nested_branch(wrap, c):
    def program(x, w, c):
        if c < 3:
            if c > 0:
                x = x * w
            else:
                x = x.exp()
        return x * 3

    x, w = torch.ones(3, requires_grad=True), torch.ones(3)
    y = wrap(program)(x, w, c)
    w.add_(1)
    return gradient(y, x)


@PROGRAMS.append
def a_result(wrap, c):
    def program(x, c):
        if c > 0:
            y = x.exp()
        else:
            y = x * 2
        return y

    x = torch.ones(3, requires_grad=True)
    y = wrap(program)(x, c)
    y.add_(1)
    return gradient(y, x)


@PROGRAMS.append
def a_tensor_of_inference_mode(wrap, c):
    f = wrap(lambda x, w, c: (x * w if c > 0 else x * 2).sin())
    x = torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        w = torch.ones(3)
    return gradient(f(x, w, c), x)


@PROGRAMS.append
def again_when_it_is_as_before(wrap, c):
    f, found = wrap(lambda x, w, c: (x * w if c > 0 else x * 2).sin()), []
    x, w = torch.ones(3, requires_grad=True), torch.ones(3)
    y = f(x, w, c)
    for _ in range(2):
        w.add_(1)
        try:
            found.append(gradient(y, x, retain_graph=True))
        except RuntimeError as error:
            found.append("modified by an inplace" in str(error))
    return found


@PROGRAMS.append
def a_history_from_before_a_branch_that_writes(wrap, c):
    def program(v, c):
        if c > 0:
            v.add_(1)
        return v * v

    x = torch.ones(3, requires_grad=True)
    v = x * 1
    z = v * v
    y = wrap(program)(v, c)
    return gradient(y, x, retain_graph=True), gradient(v, x, retain_graph=True), gradient(z, x)


@PROGRAMS.append
def a_history_from_before_a_loop_that_writes(wrap, c):
    def program(v, u, c):
        u.mul_(2)
        while c > 0:
            v.mul_(2)
            c = c - 1
        return v * u

    x = torch.ones(3, requires_grad=True)
    v, u = x * 1, x * 2
    y = wrap(program)(v, u, c)
    first = gradient(y, x, create_graph=True)
    return first, gradient(v * u, x), v.tolist(), v._version > 0, u._version > 0


@pytest.mark.parametrize("c", [-1.0, 1.0])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_eager_says(program, c):
    want, got = both(program, torch.tensor(c))
    assert got == want
