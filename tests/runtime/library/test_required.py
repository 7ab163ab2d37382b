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


W = torch.ones(3, requires_grad=True)


def of_iterations(x, n):
    for _ in range(n):
        if not x.requires_grad:
            x = x.clone().requires_grad_()
        x = x * 2
    return x


def differentiated(x, n):
    for _ in range(n):
        x = x.clone().requires_grad_()
        (g,) = torch.autograd.grad(x.square().sum(), x, create_graph=True)
        x = x + g
    return x


def of_a_branch(x, n):
    if n > 1:
        x = x * W
    return x.clone().requires_grad_() * 2


@pytest.mark.parametrize("f", [of_iterations, differentiated, of_a_branch])
def test_what_has_a_history_in_some_runs_is_made_no_leaf_in_others(f):
    with pytest.raises(tg.errors.GradientError, match="would be a leaf"):
        tg.function(f)(torch.ones(3), torch.tensor(2))


def surely(x, n):
    h = x
    for _ in range(n):
        h = (h * W).requires_grad_()
        h = h.sin()
    if n > 1:
        h = h * W
    return (h * W).requires_grad_(), (x * 1).requires_grad_() * 2


def test_what_surely_has_a_history_stays_what_it_is():
    for n in map(torch.tensor, (0, 2)):
        found, expected = tg.function(surely)(torch.ones(3), n), surely(torch.ones(3), n)
        torch.testing.assert_close(found, expected)
        assert [y.requires_grad for y in found] == [y.requires_grad for y in expected]
