"""The gradient of layer normalisation in native code: eager PyTorch's, with no call of torch."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def gradients(x, w, b):
    x, w, b = (v.detach().requires_grad_() for v in (x, w, b))
    y = F.layer_norm(torch.tanh(x), w.shape, w, b)
    return torch.autograd.grad((y**2).sum(), (x, w, b))


def plain(x, w, b):
    x = x.detach().requires_grad_()
    y = F.layer_norm(x, w.shape)
    return torch.autograd.grad((y * y.detach().exp()).sum(), x)


def turned(x, w, b):
    x = x.detach().requires_grad_()
    y = F.layer_norm(x.transpose(0, -2), w.shape, w.expand(w.shape), b)
    return torch.autograd.grad((y**3).mean(), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("shape", "dims"), [((5, 7), 1), ((3, 4, 33), 1), ((3, 4, 33), 2), ((1, 200), 1), ((300, 9), 1)])  # fmt: skip
@pytest.mark.parametrize("f", [gradients, plain, turned])
def test_values(f, shape, dims, dtype):
    if f is turned and dims > 1:
        shape = (shape[1], *shape[1:])
    x = torch.randn(shape, dtype=dtype) * 3 + 1
    w, b = torch.randn(shape[-dims:], dtype=dtype), torch.randn(shape[-dims:], dtype=dtype)
    g = tg.function(f)
    cf = g.get_concrete_function(x, w, b)
    cf.scheduled.compile()
    assert cf.scheduled.level == "native", cf.scheduled.reason
    assert not cf.scheduled.native.low.asked
    for _ in range(2):
        for got, want in zip(g(x, w, b), f(x, w, b), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
            assert got.stride() == want.stride()


def test_a_loss_outside():
    layer = torch.nn.LayerNorm(12)
    f = tg.function(lambda x: torch.sin(layer(x)))
    found = []
    for run in (f, lambda x: torch.sin(layer(x))):
        layer.zero_grad()
        x = torch.linspace(-2, 3, 60).view(5, 12).requires_grad_()
        (run(x) ** 2).sum().backward()
        found.append([x.grad, *(p.grad for p in layer.parameters())])
    torch.testing.assert_close(*found)
