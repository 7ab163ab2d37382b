"""Lists as native code takes them: the elements of each item, whatever memory they lie in."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg


def chosen(xs, n):
    out = []
    for i in range(n):
        out.append(xs[i % 3].sum(1))
    return torch.stack(out), xs[n % 3][0, 1]


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_items_that_all_lie_in_another_order(order, dtype):
    f, xs = tg.function(chosen), torch.arange(360.0).reshape(3, 2, 4, 3, 5).to(dtype)
    items = [x.contiguous(memory_format=order) for x in xs]
    for n in (2, 5):
        torch.testing.assert_close(f(items, torch.tensor(n)), chosen(items, torch.tensor(n)))


def pooled(x, n):
    i = 0
    while i < n:
        y = F.max_pool2d(x, 3, 2, ceil_mode=True)
        i = i + 1
    return y


def test_what_a_loop_saves_of_images_with_their_channels_last():
    f, grads = tg.function(pooled), []
    image = torch.randn(2, 2, 3, 6, generator=torch.Generator().manual_seed(0))
    for g in (pooled, f):
        x = image.contiguous(memory_format=torch.channels_last).requires_grad_()
        grads.append(torch.autograd.grad(g(x, torch.tensor(2)).sum(), x)[0])
    torch.testing.assert_close(*grads)
