"""What a ``torch.autograd.Function`` has saved and is written in place since."""

import pytest
import torch

import tograph as tg


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


def an_input(x, c):
    w = x.detach() * 3
    y = Product.apply(x, w)
    if c:
        w.add_(1)
    return y.sum()


def in_a_branch(x, c):
    w = x.detach() * 3
    if c:
        y = Product.apply(x, w)
        w[0] = 2.0
    else:
        y = Product.apply(x, w)
    return y.sum()


def after_a_loop(x, c):
    y, w = x, x.detach() * 3
    for _ in range(2 + c.long()):
        y = Product.apply(y, w)
    if c:
        w.mul_(2)
    return y.sum()


def a_result(x, c):
    y = Exp.apply(x)
    if c:
        y.mul_(2)
    return y.sum()


def another_tensor(x, c):
    y = Exp.apply(x)
    z = y.clone()
    z.mul_(2)
    return (y + z).sum() if c else y.sum()


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("f", [an_input, in_a_branch, after_a_loop, a_result, another_tensor])
def test_written_since(f, inside):
    def run(x, c):
        return torch.autograd.grad(f(x, c), x)[0]

    def outcome(g, c):
        x = torch.tensor([0.3, 0.5], requires_grad=True)
        try:
            y = g(x, torch.tensor(c))
            return y if inside else torch.autograd.grad(y, x)[0]
        except RuntimeError as error:
            return str(error).partition(":")[0]

    native, staged = (run, tg.function(run)) if inside else (f, tg.function(f))
    for c in (False, True):
        want, got = outcome(native, c), outcome(staged, c)
        if isinstance(want, str):
            assert got == want and "modified by an inplace operation" in got
        else:
            torch.testing.assert_close(got, want)


def test_surely_written_names_the_line():
    @tg.function
    def f(x):
        w = x.detach() * 3
        y = Product.apply(x, w)
        w.add_(1)
        return y.sum()

    with pytest.raises(RuntimeError, match="is at version .*expected version 0") as caught:
        f(torch.ones(2, requires_grad=True)).backward()
    assert "w.add_(1)" in str(caught.value) or __file__ in str(caught.value)
