"""Pooling as loop nests: values, places and gradients beside eager PyTorch, also at edges, of NaN, ties and infinities."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.kernels import jit

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
WINDOWS = list(itertools.product([2, (3, 2)], [None, 1, 3], [0, 1], [False, True]))


def _strides(x):
    return [s for s, n in zip(x.stride(), x.shape) if n > 1]


def _compare(f, *args, native=True, **tolerance):
    """``f`` in the graph gives what it gives eagerly, without a call of torch's pooling."""
    g = tg.function(f)
    for _ in range(2):
        found = g(*args)
    torch.testing.assert_close(found, f(*args), equal_nan=True, **tolerance)
    both = zip(found, f(*args)) if isinstance(found, tuple) else [(found, f(*args))]
    assert all(_strides(a) == _strides(b) for a, b in both)
    code = g.concrete_functions[-1].scheduled.native
    calls = [c.node.op for c in code._calls] if code is not None else ["pool"]
    assert any("pool" in op for op in calls) is not native


def _images():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 7, 8)
    x[0, 0, 2, 3] = x[0, 0, 2, 4] = torch.nan
    x[0, 1] = -torch.inf
    x[1, 1] = 1.0
    return x


def test_maxima_and_where_they_are():
    def f(x):
        return tuple(y for w in WINDOWS for y in F.max_pool2d(x * 1, w[0], w[1], w[2], 1, w[3], return_indices=True))  # fmt: skip

    _compare(f, _images(), rtol=0, atol=0)


@pytest.mark.parametrize(("padded", "divisor"), [(True, None), (False, None), (True, 5)])
def test_means(padded, divisor):
    def f(x):
        return tuple(F.avg_pool2d(x * 1, *w, padded, divisor) for w in WINDOWS)

    _compare(f, torch.randn(2, 3, 7, 8))


def _gradient(x, pool):
    x = x.detach().requires_grad_()
    y = pool(x)
    return torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum(), x)[0]


def test_gradients():
    def f(x):
        found = [_gradient(x, lambda y, w=w: F.max_pool2d(y, w[0], w[1], w[2], 1, w[3])) for w in WINDOWS]  # fmt: skip
        for padded, divisor in [(True, None), (False, None), (True, 5)]:
            found += [_gradient(x, lambda y, w=w: F.avg_pool2d(y, *w, padded, divisor)) for w in WINDOWS]  # fmt: skip
        return tuple(found)

    _compare(f, torch.randn(2, 3, 7, 8))


def test_sequences_volumes_and_one_image():
    _compare(lambda x: F.max_pool1d(x * 1, 3, 2, 1, return_indices=True), torch.randn(2, 3, 19))
    _compare(lambda x: F.avg_pool1d(x * 1, 3, 2, 1), torch.randn(2, 3, 19))
    _compare(lambda x: F.max_pool3d(x * 1, 2, 1, return_indices=True), torch.randn(2, 3, 4, 5, 3))
    _compare(lambda x: F.avg_pool3d(x * 1, 2, 2, 1), torch.randn(2, 3, 4, 5, 3))
    _compare(lambda x: F.max_pool2d(x * 1, 2), torch.randn(3, 6, 8))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8], ids=str)  # fmt: skip
def test_dtypes(dtype):
    x = (torch.randn(2, 3, 9, 9) * 9).to(dtype)
    _compare(lambda x: F.max_pool2d(x * 1, 3, 2, 1, return_indices=True), x)
    if dtype.is_floating_point:
        _compare(lambda x: F.avg_pool2d(x * 1, 3, 2, 1), x)


def test_images_in_the_order_of_their_pixels():
    x = torch.randn(2, 3, 6, 8).to(memory_format=torch.channels_last)
    _compare(lambda x: F.max_pool2d(x + 1, 2), x)
    _compare(lambda x: _gradient(x, lambda y: F.max_pool2d(y, 2)), x)
    _compare(lambda x: F.avg_pool2d(x + 1, 3, 1, 1), x)


def test_what_is_left_to_torch():
    def f(x):
        y = (x * 2).sin() + x.cos().exp()
        return F.max_pool2d(y, 3, 1, 1, 2), F.avg_pool2d(y, 7)

    _compare(f, torch.randn(2, 3, 9, 9), native=False)
