"""``requires_grad`` of tensors that have a history on some paths of a run only."""

import pytest
import torch

import tograph as tg


def computed(x, c):
    z = x * 3 if c else x.detach()
    return z * 2, z.requires_grad


def leaf(x, c):
    z = x if c else x * 2
    return z * 2, z.requires_grad


def asked(x, c):
    z = x if c else x.detach()
    if z.requires_grad:
        return z * 5
    return z * 2


def on_every_path(x, c):
    z = x * 3 if c else x.sin()
    return z * 2, z.requires_grad, z.is_leaf, z.grad_fn is None


def one_of_several(x, c):
    z, y, o = x if c else x * 2, x if c else x.detach(), x if c else torch.zeros(2)
    return z.is_leaf, y.is_leaf, o.is_leaf, (z * 1).is_leaf


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
@pytest.mark.parametrize("f", [computed, leaf, asked, on_every_path, one_of_several])
def test_is_that_of_the_path_taken(f, mode):
    staged, x = tg.function(f), torch.ones(2, requires_grad=True)
    for c in (True, False, True):
        with mode():
            torch.testing.assert_close(staged(x, torch.tensor(c)), f(x, torch.tensor(c)))
