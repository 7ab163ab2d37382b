"""Staged bools where torch takes a Python bool, and where it takes a number."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg

X = torch.tensor([[1.0, 5.0, 2.0], [4.0, 3.0, 6.0]])


def of_function(x, up):
    return torch.sum(x, 1, keepdim=up).sum() + torch.cumsum(x, 0).sum()


def of_method(x, up):
    return x.std(up).sum() + x.topk(2, 1, up)[0]


def of_python_code(x, up):
    return F.layer_norm(x, (3,)) + F.interpolate(x[None], 3, mode="linear", align_corners=up)[0]


def two(x, up):
    return torch.sort(x, dim=1, descending=up, stable=not up)[0]


def known(x, up):
    if up:
        return torch.sort(x, 1, descending=up)[0]
    return torch.sort(x, 1, descending=not up)[0] * 2


def a_number(x, up):
    return torch.full((2,), up).sum() + x * up


def none_or_a_tensor(x, up):
    return F.layer_norm(x, (3,), None if up else x[0])


def where_it_depends(x, up):
    mask = None if up else torch.ones(2, 2, dtype=torch.bool)
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask, is_causal=mask is None)


@pytest.mark.parametrize("f", [of_function, of_method, of_python_code, two, known, a_number, none_or_a_tensor, where_it_depends])  # fmt: skip
def test_same(f):
    def plain(x, t):
        return f(x, bool(t > 0))

    staged = tg.function(plain)
    for t in (1.0, -1.0):
        torch.testing.assert_close(staged(X, torch.tensor(t)), plain(X, torch.tensor(t)))
    assert staged.trace_count == 1


def test_known_flags_make_no_branches():
    @tg.function
    def f(x, t):
        return known(x, bool(t > 0))

    graph = str(f.get_concrete_function(X, torch.tensor(1.0)).graph)
    assert graph.count("If(") == 1


def test_a_flag_that_compares_a_size():
    def f(x, n):
        total, begin = 0, 0
        for end in range(3, 7):
            y = x[:, :, begin:end]
            total = total + F.scaled_dot_product_attention(y, y, y, is_causal=y.shape[2] > 1).sum()
            begin = end
            if total > n:
                break
        return total

    staged, x = tg.function(f), torch.rand(1, 2, 8, 4)
    for n in (1.0, 100.0):
        torch.testing.assert_close(staged(x, torch.tensor(n)), f(x, n))
