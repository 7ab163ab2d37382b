"""Ops on lists of tensors are those on each item."""

import pytest
import torch

import tograph as tg


def many(a, b, c, w):
    xs, ys, zs = [a.clone(), b.clone()], [b, a], [c, c + 1]
    torch._foreach_add_(xs, ys, alpha=2)
    torch._foreach_mul_(xs, [2.0, 3.0])
    torch._foreach_sub_(xs, 1)
    torch._foreach_addcmul_(xs, ys, zs, value=0.5)
    torch._foreach_addcdiv_(xs, ys, zs, [0.5, 0.25])
    torch._foreach_lerp_(xs, ys, w)
    q = torch._foreach_sqrt(torch._foreach_abs(xs))
    torch._foreach_div_(q, [1.5, 2.5])
    torch._foreach_clamp_min_(q, 0.1)
    torch._foreach_add_(q, torch.tensor(1.0), alpha=0.5)
    torch._foreach_copy_(zs, q)
    made = torch._foreach_maximum(q, xs), torch._foreach_norm(q), torch._foreach_pow(2.0, q)
    if a.sum() > 20:
        torch._foreach_zero_(xs)
    return xs, q, zs, made, torch._foreach_pow(q, 2), torch._foreach_pow(q, [2, 3])


def test_each_item_by_itself():
    a, b, c, f = torch.rand(3, 4), torch.rand(3, 4), torch.rand(3, 4), tg.function(many)
    for x in (a, a + 2):
        torch.testing.assert_close(
            f(x, b, c.clone(), 0.3), many(x, b, c.clone(), 0.3), rtol=1e-4, atol=1e-5
        )
    graph = f.concrete_functions[0].graph
    assert not any(n.op.startswith("aten._foreach_add") for n in graph.nodes)


def test_lists_of_different_lengths_are_an_error_of_the_op():
    with pytest.raises(RuntimeError, match="must have the same number of tensors, got 2 and 1"):
        tg.function(lambda x: torch._foreach_add([x, x], [x]))(torch.ones(2))


@pytest.mark.parametrize("op", [torch._foreach_add_, torch._foreach_mul])
def test_empty_lists_are_the_error_that_they_are_in_eager_pytorch(op):
    staged = tg.function(lambda xs: op(xs, 2))
    for f in (lambda xs: op(xs, 2), staged):
        with pytest.raises(RuntimeError, match="must have at least one tensor"):
            f([])
