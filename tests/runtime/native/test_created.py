"""Tensors of one number that are made like another one, of sizes that only the run knows too; ranges whose step only the run knows."""

import pytest
import torch
from torch.nn import functional as F

import tograph as tg

E, W = torch.randn(20, 8), torch.randn(8, 20)


def generate(ids):
    for _ in range(6):
        h = E[ids]
        h = h + F.scaled_dot_product_attention(h, h * 0.5, h, is_causal=True)
        new = (h @ W)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, new], 1)
        if new.item() == 0:
            break
    return ids


def filled(x, n):
    while n > 5:
        n = n - 1
    n = int(n)
    y = x.new_zeros(n, n) + x.new_ones((n,), dtype=torch.int32)
    y[0] += x.new_full((n,), 2.5)
    z = torch.cat([x, -x / 0])
    return y.sum(0), x.new_full((2,), 7, dtype=torch.int64), z.isposinf(), z.isneginf()


def stepped(start, stop, step):
    out = []
    for i in range(int(start), int(stop), int(step)):
        out.append(i)
    return out


def merge_sort(x):
    xs, w = x.tolist(), 1
    while w < len(xs):
        out = []
        for low in range(0, len(xs), 2 * w):
            a, b = xs[low : low + w], xs[low + w : low + 2 * w]
            while a and b:
                out.append(a.pop(0) if a[0] <= b[0] else b.pop(0))
            out += a + b
        xs, w = out, 2 * w
    return xs


def native(f, calls):
    g = tg.function(f)
    for args in calls:
        for _ in range(3):
            found, expected = g(*args), f(*args)
            assert str(found) == str(expected)
    (cf,) = g.concrete_functions
    assert cf.scheduled.level == "native", cf.scheduled.reason
    return g


def test_generation_without_a_cache():
    native(generate, [(torch.randint(20, (1, n)),) for n in (4, 4, 4)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_like_another_tensor(dtype):
    native(filled, [(torch.randn(2, dtype=dtype), torch.tensor(n)) for n in (3, 1, 4, 9)])


def test_steps_that_only_the_run_knows():
    numbers = [(0, 9, 2), (9, 0, -2), (0, 9, -1), (9, 0, 1), (3, 3, 5), (-7, 8, 4), (8, -7, -4), (0, 1, 2**62)]  # fmt: skip
    g = native(stepped, [tuple(map(torch.tensor, row)) for row in numbers])
    with pytest.raises(ValueError, match="must not be zero"):
        g(torch.tensor(0), torch.tensor(3), torch.tensor(0))
    far = torch.tensor(-(2**62)), torch.tensor(-(2**62) + 1), torch.tensor(-(2**63))
    assert g(*far) == stepped(*far)


def test_sorting_by_merging():
    native(merge_sort, [(torch.randn(12),) for _ in range(4)])
