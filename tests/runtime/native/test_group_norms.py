"""Group normalisation in native code, beside eager PyTorch: values, statistics and gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
# Gradients of groups of two elements are differences of large numbers.
TOLERANCES = {torch.float32: {"rtol": 1e-3, "atol": 1e-4}, torch.float64: {"rtol": 1e-9, "atol": 1e-9}}  # fmt: skip
SHAPES = {
    "rows": (8, 6),
    "sequences": (4, 6, 7),
    "images": (3, 6, 5, 9),
    "volumes": (2, 6, 3, 4, 2),
}


def _is_native(run):
    native = run.concrete_functions[0].scheduled.native
    return native is not None and not any("group_norm" in call.node.op for call in native._calls)


def _step(groups, dtype, affine):
    """A function that gives what a layer, what follows it and their gradients are."""
    torch.manual_seed(0)
    layer = nn.GroupNorm(groups, 6, affine=affine, dtype=dtype)
    for x in layer.parameters():
        x.data.copy_(torch.rand_like(x) + 0.5)

    def f(x):
        layer.zero_grad()
        x = x.detach().requires_grad_()
        y = F.silu(layer(x * 2 + 1) + x)
        (y * torch.linspace(-1, 1, y.numel(), dtype=dtype).view(y.shape)).sum().backward()
        return y.detach(), x.grad, [p.grad for p in layer.parameters()]

    return f


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_values_and_gradients(shape, groups):
    for dtype, affine in [(torch.float32, True), (torch.float64, True), (torch.float32, False)]:
        f = _step(groups, dtype, affine)
        g, x = tg.function(f), torch.randn(shape, dtype=dtype)
        for _ in range(3):
            torch.testing.assert_close(g(x), f(x), **TOLERANCES[dtype])
        assert _is_native(g)


def test_second_derivatives():
    def f(x):
        x = x.detach().requires_grad_()
        y = F.group_norm(x, 2).exp().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return torch.autograd.grad((g * g).sum(), x)[0]

    g, x = tg.function(f), torch.randn(2, 4, 3, dtype=torch.float64)
    for _ in range(2):
        torch.testing.assert_close(g(x), f(x))


def test_images_in_the_order_of_their_pixels():
    def f(x):
        return F.relu(F.group_norm(x * 2, 3)), F.group_norm(x, 2)

    g = tg.function(f)
    x = torch.randn(2, 6, 4, 5).to(memory_format=torch.channels_last)
    for _ in range(3):
        for a, b in zip(g(x), f(x)):
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride()


@pytest.mark.parametrize("x", [torch.randn(0, 6, 4), torch.randn(2, 6, 4).half()], ids=["none", "half"])  # fmt: skip
def test_what_is_left_to_torch(x):
    f = lambda x: F.group_norm(x, 3) + 1  # noqa: E731
    g = tg.function(f)
    for _ in range(2):
        torch.testing.assert_close(g(x), f(x))


def test_an_instance_of_each_channel():
    f = lambda x: F.instance_norm(x * 2) + F.group_norm(x, 6)  # noqa: E731
    g, x = tg.function(f), torch.randn(3, 6, 8)
    for _ in range(2):
        torch.testing.assert_close(g(x), f(x), rtol=1e-4, atol=1e-5)
    assert _is_native(g)
