"""Images and sequences in another size as loop nests: values and gradients beside eager PyTorch, for all modes and many ratios."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
SIZES = [(3, 3), (7, 8), (14, 16), (21, 4), (5, 9), (10, 23), (1, 1)]
FACTORS = [2, 0.5, 1.5, (3, 1.3), (0.3, 0.7)]
IMAGES = ["nearest", "nearest-exact", "bilinear"]


def _compare(f, *args, native=True, **tolerance):
    """``f`` in the graph gives what it gives eagerly, without a call of torch's op."""
    g = tg.function(f)
    for _ in range(2):
        found = g(*args)
    expected = f(*args)
    torch.testing.assert_close(found, expected, **tolerance)
    assert all(a.stride() == b.stride() for a, b in zip(found, expected))
    code = g.concrete_functions[-1].scheduled.native
    calls = [c.node.op for c in code._calls] if code is not None else ["upsample"]
    assert any("upsample" in op for op in calls) is not native


def _resized(x, mode, **how):
    return F.interpolate(x * 1, mode=mode, **how)


@pytest.mark.parametrize("mode", IMAGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_images(mode, dtype):
    def f(x):
        made = [_resized(x, mode, size=size) for size in SIZES]
        made += [_resized(x, mode, scale_factor=by) for by in FACTORS]
        made += [_resized(x, mode, scale_factor=by, recompute_scale_factor=True) for by in FACTORS]
        if mode == "bilinear":
            made += [_resized(x, mode, size=size, align_corners=True) for size in SIZES]
            made += [_resized(x, mode, scale_factor=by, align_corners=True) for by in FACTORS]
        return tuple(made)

    exact = {"rtol": 0, "atol": 0} if "nearest" in mode else {}
    _compare(f, torch.randn(2, 3, 7, 8, dtype=dtype), **exact)


def _gradient(x, mode, **how):
    x = x.detach().requires_grad_()
    y = F.interpolate(x, mode=mode, **how)
    return torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum(), x)[0]


@pytest.mark.parametrize("mode", IMAGES)
def test_gradients_of_images(mode):
    def f(x):
        made = [_gradient(x, mode, size=size) for size in SIZES[:2]]
        made += [_gradient(x, mode, scale_factor=by) for by in FACTORS]
        if mode == "bilinear":
            made += [_gradient(x, mode, size=size, align_corners=True) for size in SIZES[:2]]
            made += [_gradient(x, mode, scale_factor=1.5, align_corners=True)]
        return tuple(made)

    _compare(f, torch.randn(2, 3, 7, 8))


def test_a_gradient_of_many_elements_is_torchs():
    _compare(lambda x: (_gradient(x, "nearest", scale_factor=8) * 2 + 1,) * 1, torch.randn(1, 2, 4, 4), native=False)  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
def test_sequences(mode):
    def f(x):
        made = [_resized(x, mode, size=n) for n in (1, 4, 9, 18, 13)]
        made += [_gradient(x, mode, size=n) for n in (4, 9, 18, 13)]
        return tuple(made + [_resized(x, mode, scale_factor=0.37)])

    _compare(f, torch.randn(2, 3, 9))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "trilinear"])
def test_volumes(mode):
    def f(x):
        return _resized(x, mode, scale_factor=2), _resized(x, mode, size=(2, 7, 3)), _gradient(x, mode, size=(3, 4, 3))  # fmt: skip

    _compare(f, torch.randn(1, 2, 3, 4, 2))


def test_every_ratio_of_small_sizes():
    """The places are those that torch finds in f32, also where a product of it falls short of an integer."""
    for n in (5, 6, 29):

        def f(x):
            return tuple(_resized(x, m, size=k) for k in range(1, 60) for m in ("nearest", "nearest-exact"))  # fmt: skip

        _compare(f, torch.arange(n * 1.0).view(1, 1, n), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(dtype):
    def f(x):
        return tuple(_resized(x, mode, scale_factor=2) for mode in IMAGES)

    _compare(f, torch.randn(2, 3, 4, 5).to(dtype))


def test_bytes():
    _compare(lambda x: (_resized(x, "nearest", scale_factor=3),), torch.randint(0, 255, (1, 2, 4, 5), dtype=torch.uint8))  # fmt: skip


def test_images_whose_channels_are_last():
    def f(x):
        x = x.contiguous(memory_format=torch.channels_last)
        return tuple(F.interpolate(x, scale_factor=2, mode=mode) for mode in IMAGES)

    _compare(f, torch.randn(2, 3, 4, 5))
