"""Ops of libraries with gradients of their own."""

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.runtime.symbols import library_ops


@torch.library.custom_op("tograph_tests::sine", mutates_args=())
def sine(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.sin(x.numpy()))


@sine.register_fake
def _(x):
    return torch.empty_like(x)


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


sine.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=keep)


def staged(x):
    while x.sum() < 3:
        x = sine(x) + 1 if x[0] > 0 else x + 1
    return x * 2


def without(x):
    with torch.no_grad():
        y = sine(x)
    return y * x


sine_outside = tg.do_not_convert(lambda x: sine(x) * x)


@tg.do_not_convert
def without_outside(x):
    with torch.no_grad():
        y = sine(x)
    return y * x


CASES = {
    "the op": sine,
    "its packet": lambda x: torch.ops.tograph_tests.sine(x) * x,
    "its overload": lambda x: torch.ops.tograph_tests.sine.default(x) * x,
    "twice": lambda x: sine(sine(x)),
    "with gradients off": without,
    "in a loop": staged,
    "by code that is not converted": lambda x: sine_outside(x),
    "by such code with gradients off": lambda x: without_outside(x),
}


def gradients(f, x):
    x = x.clone().requires_grad_()
    y = f(x)
    (first,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
    return y.detach(), first, torch.autograd.grad(first.sum(), x)[0]


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_of_a_library_is_that_of_the_op(name):
    f, x = CASES[name], torch.tensor([0.2, -0.4, 1.1])
    g = tg.function(f if name != "the op" else lambda x: sine(x))
    for _ in range(3):
        for found, right in zip(gradients(g, x), gradients(f, x)):
            torch.testing.assert_close(found, right)


def test_inside():
    def f(x):
        x = x.clone().requires_grad_()
        sine(x).pow(2).sum().backward()
        return x.grad

    x = torch.tensor([0.2, -0.4])
    torch.testing.assert_close(tg.function(f)(x), f(x))


def test_gradients_off_around_the_call():
    g, x = tg.function(lambda x: sine(x)), torch.tensor([0.2], requires_grad=True)
    with torch.no_grad():
        assert not g(x).requires_grad
    assert g(x).requires_grad
    assert not g(x.detach()).requires_grad


def test_without_the_code_of_torch_that_puts_gradients_around(monkeypatch):
    assert library_ops._AROUND
    monkeypatch.setattr(library_ops, "_AROUND", library_ops._forwards(keep.__code__))
    x = torch.tensor([0.2], requires_grad=True)
    assert tg.function(lambda x: sine(x))(x).requires_grad
    alone = tg.do_not_convert(lambda x: sine(x))
    assert not tg.function(lambda x: alone(x))(x).requires_grad
