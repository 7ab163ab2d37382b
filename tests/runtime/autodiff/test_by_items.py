"""Gradients that come to a tensor by an item of a list alone: zeros may be None there, which is refused."""

import pytest
import torch

import tograph as tg
from tograph.errors import GradientError

NOT_KNOWN = "by way of an item of a list"


def leaf(x):
    return x.detach().clone().requires_grad_()


def _filled(first, rows, n):
    xs, i = [first], 0
    while i < n:
        i = i + 1
        xs.append(rows * i)
    return xs


def last_item(x, n):
    w = leaf(x)
    return torch.autograd.grad(_filled(w * 3, x * 2, n)[-1].sum(), w)


def last_item_unused(x, n):
    w = leaf(x)
    return torch.autograd.grad(_filled(w * 3, x * 2, n)[-1].sum(), w, allow_unused=True)


def weight_decay(x, n):
    w, p = leaf(x), leaf(x + 1)
    optimizer = torch.optim.SGD([w, p], lr=0.1, weight_decay=0.5, momentum=0.9)
    _filled(w * p, w * 2, n)[-1].sum().backward()
    optimizer.step()
    return w, p


def in_a_branch(x, n):
    w = leaf(x)
    y = x * 1
    if n >= 0:
        xs = _filled(w * 3, x * 2, n)
        y = xs[-1] * 2
    return torch.autograd.grad(y.sum(), w, allow_unused=True)


@pytest.mark.parametrize("f", [last_item, last_item_unused, weight_decay, in_a_branch])
def test_zeros_that_may_be_none_are_refused(f):
    x, staged = torch.tensor([0.5, -0.3], requires_grad=True), tg.function(f)
    torch.testing.assert_close(staged(x, torch.tensor(0)), f(x, torch.tensor(0)))
    with pytest.raises(GradientError, match=NOT_KNOWN) as error:
        staged(x, torch.tensor(2))
    assert "test_by_items.py" in error.value.__notes__[0]


def of_all_items(x, n):  # zeros
    w = leaf(x)
    return torch.autograd.grad(torch.relu(torch.stack(_filled(w, w, n)) - 9).sum(), w)


def each_is_computed_of_it(x, n):
    w = leaf(x)
    xs, total = _filled(w * 2, w, n), torch.zeros(2)
    for y in xs:
        total = total + torch.relu(y - 9)
    return torch.autograd.grad(total.sum(), w)


def also_in_another_way(x, n):
    w = leaf(x)
    return torch.autograd.grad(_filled(w * 3, x * 2, n)[-1].sum() + (w * 0).sum(), w)


def one_of_a_branch(x, n):
    w = leaf(x)
    first = w * 2 if n > 1 else w * 3
    return torch.autograd.grad((_filled(first, w * 2, n)[-1] * 0).sum(), w)


@pytest.mark.parametrize("f", [of_all_items, each_is_computed_of_it, also_in_another_way, one_of_a_branch])  # fmt: skip
def test_zeros_that_are_known_to_come_are_given(f):
    x, staged = torch.tensor([0.5, -0.3], requires_grad=True), tg.function(f)
    for n in (2, 1, 3):
        torch.testing.assert_close(staged(x, torch.tensor(n)), f(x, torch.tensor(n)))


def on_no_path(x, n):
    w = leaf(x)
    y = w * 2 if n > 1 else w.detach() * 2
    return torch.autograd.grad(y.sum(), w, allow_unused=True)


def on_no_path_with_zeros(x, n):
    w = leaf(x)
    y = w * 2 if n > 1 else w.detach() * 2
    return torch.autograd.grad(y.sum(), w, materialize_grads=True)


@pytest.mark.parametrize("f", [on_no_path, on_no_path_with_zeros])
def test_what_leads_to_no_leaf_on_the_path_that_ran_is_an_error(f):
    x, staged = torch.tensor([0.5, -0.3]), tg.function(f)
    torch.testing.assert_close(staged(x, torch.tensor(2)), f(x, torch.tensor(2)))
    for g in (f, staged):
        with pytest.raises(RuntimeError, match="does not require grad"):
            g(x, torch.tensor(0))
