"""Gradients of the user's own under transforms of torch and in forward mode."""

import pytest
import torch
from torch import func
from torch.autograd import forward_ad

import tograph as tg

D = torch.float64
X, V = torch.tensor([0.3, 0.8, -0.4], dtype=D), torch.tensor([1.0, 2.0, -0.5], dtype=D)


class Rounded(torch.autograd.Function):
    """Its derivative is not that of what it computes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, k):
        return (x * k).round() / k, x * 2

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, g, h):
        return g * ctx.saved_tensors[0].cos() + 2 * h, None

    @staticmethod
    def jvp(ctx, t, _):
        return t * ctx.saved_tensors[0].cos(), 2 * t


class Backward(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 2


def rounded(x):
    y, z = Rounded.apply(x, 10)
    while y.sum() < 2:
        y, z = Rounded.apply(y + 0.5, 10)
    return y * z


def hooked(x):
    y = x.sin()
    y.register_hook(lambda g: g * 2)
    return y * x if y.sum() > 0 else y


def tangent(f):
    with forward_ad.dual_level():
        return tuple(forward_ad.unpack_dual(f(forward_ad.make_dual(X, V))))


def test_tangents():
    g = tg.function(rounded)
    torch.testing.assert_close(func.jvp(g, (X,), (V,)), func.jvp(rounded, (X,), (V,)))
    torch.testing.assert_close(tangent(g), tangent(rounded))


def test_a_hook_lets_tangents_through():
    def gradient(f):
        return func.grad(lambda x: f(x).sum())

    want = func.jvp(gradient(hooked), (X,), (V,))
    torch.testing.assert_close(func.jvp(gradient(tg.function(hooked)), (X,), (V,)), want)


@pytest.mark.parametrize(
    "transform",
    [func.jacfwd, func.hessian, lambda f: func.jacfwd(func.jacfwd(f)), lambda f: func.jacrev(func.jacfwd(f))],
    ids=["jacfwd", "hessian", "twice forward", "reverse over forward"],
)  # fmt: skip
def test_transforms_of_tangents(transform):
    torch.testing.assert_close(transform(tg.function(rounded))(X), transform(rounded)(X))


def test_none_where_the_function_has_none():
    for f in (Backward.apply, tg.function(lambda x: Backward.apply(x))):
        with pytest.raises(NotImplementedError, match="jvp"):
            tangent(f)
