"""What a program asks of torch's modes is answered for the call that it is in."""

import pytest
import torch

import tograph as tg

X = torch.tensor([1.0, 2.0])


def asked(x):
    with torch.no_grad():
        inside = torch.is_grad_enabled()
    with torch.inference_mode():
        inferring = torch.is_inference_mode_enabled()
    scale = 2 if torch.is_grad_enabled() else 3
    return x * scale, inside, inferring, torch.is_grad_enabled(), torch.is_inference_mode_enabled()


def same(a, b):
    assert torch.equal(a[0], b[0])
    assert a[1:] == b[1:]


def test_the_gradient_and_the_inference_mode_of_the_call():
    for first in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        f = tg.function(asked)
        for mode in (first, torch.enable_grad, torch.no_grad, torch.inference_mode) * 2:
            with mode():
                for _ in range(4):
                    same(f(X.clone()), asked(X.clone()))
        assert f.trace_count == 3


def test_a_function_that_asks_in_a_staged_branch():
    def f(x):
        if x.sum() > 0 and torch.is_grad_enabled():
            x = x * 2
        return x

    g = tg.function(f)
    for _ in range(4):
        assert torch.equal(g(X), f(X))
        with torch.no_grad():
            assert torch.equal(g(X), f(X))


def test_functions_that_ask_nothing_have_one_trace():
    @tg.function
    def f(x):
        return x * 2

    f(X)
    with torch.no_grad():
        f(X)
    assert f.trace_count == 1


def test_the_history_of_what_is_computed_where_gradients_are_off():
    def f(x):
        with torch.no_grad():
            leaf = x.detach().requires_grad_(True)
            with torch.enable_grad():
                (g,) = torch.autograd.grad((leaf**3).sum(), leaf, create_graph=True)
            known = g.requires_grad, g.grad_fn is None, (g * 2).requires_grad
            with torch.enable_grad():
                (h,) = torch.autograd.grad(g.sum(), leaf)
        return h, known

    g = tg.function(f)
    for _ in range(3):
        assert torch.equal(g(X)[0], f(X)[0]) and g(X)[1] == f(X)[1] == (True, False, False)


W = torch.tensor([3.0, 4.0], requires_grad=True)


def enabled(x):
    if x.sum() > 0:
        with torch.enable_grad():
            y = x * W
    else:
        y = x * 3
    return y, x * W


@torch.enable_grad()
def decorated(x):
    return x * W


def by_a_flag(x):
    with torch.set_grad_enabled(True):
        y = (x * W).sin()
    with torch.no_grad():
        return y * 2 if y.sum() > 0 else y, y


inner = tg.function(decorated)


def called(x):
    with torch.no_grad():
        y = inner(x)
    return y if x.sum() > 0 else inner(x), x * W


def tried(x):
    try:
        with torch.enable_grad():
            y = x * W
            if x.sum() > 50:
                raise ValueError
    except ValueError:
        y = x
    return y, x * W


def gradient(x):
    return torch.autograd.grad((x * W).sum(), W)[0]


def hooked(x):
    y = x * W
    y.register_hook(lambda g: g * 2)
    return y


def transformed(x):
    return torch.func.grad(lambda u: (u * W).sin().sum())(x)


def outcome(f):
    try:
        found = f(X)
    except RuntimeError as error:
        return str(error).partition("\n")[0]
    found = found if isinstance(found, tuple) else (found,)
    ways = [
        torch.autograd.grad(y, W, torch.ones_like(y))[0].tolist() if y.requires_grad else None
        for y in found
    ]
    return [y.tolist() for y in found], ways


@pytest.mark.parametrize(
    "f", [enabled, decorated, by_a_flag, called, tried, gradient, hooked, transformed]
)
def test_gradients_in_a_call_that_begins_with_gradients_off(f):
    g = tg.function(f)
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode) * 2:
        with mode():
            wanted, found = outcome(f), outcome(g)
            if (
                f is transformed
                and torch.is_inference_mode_enabled()
                and torch.__version__.startswith("2.11")
            ):
                continue  # eager gives zeros there
        assert found == wanted
