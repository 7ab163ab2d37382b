"""Ops without a derivative: the error comes where a gradient comes to one, not where the function is called."""

import pytest
import torch

import tograph as tg


def leaf(*numbers):
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


def beside(x):
    return x * 2, x // 2, x.unique()


def test_a_call_gives_what_needs_no_such_gradient():
    x = leaf(1, -2, 3, 0.5)
    twice, half, single = tg.function(beside)(x)
    assert twice.requires_grad and half.requires_grad and single.requires_grad
    assert torch.equal(torch.autograd.grad(twice.sum(), x)[0], torch.full_like(x, 2))
    for result, kind in (half, RuntimeError), (single, NotImplementedError):
        with pytest.raises(kind, match="derivative for .* is not implemented"):
            result.sum().backward()


def in_a_branch(x):
    if x.sum() > 0:
        y = x // 2
    else:
        y = x * 2
    return y


def in_a_loop(x):
    y, total = x, x.sum()
    for v in x:
        total = total + v // 2
        y = y + v // 2 if v > 2 else y * v
    return y


@pytest.mark.parametrize("f", [in_a_branch, in_a_loop])
def test_only_the_path_that_was_taken_counts(f):
    staged = tg.function(f)
    x = leaf(-1, -2, 0)
    found = [torch.autograd.grad(g(x).sum(), x)[0] for g in (f, staged)]
    assert torch.equal(*found)
    for g in (f, staged):
        y = g(leaf(1, 2, 3))
        with pytest.raises(RuntimeError, match="floor_divide is not implemented"):
            y.sum().backward()


@torch.library.custom_op("tograph_missing::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


def test_an_op_of_a_library_that_has_no_gradient():
    x = leaf(1, -2)
    y, z = tg.function(lambda x: (x * 3, twice(x)))(x)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], torch.full_like(x, 3))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        z.sum().backward()
