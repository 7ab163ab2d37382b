"""Results that read items of lists whose length depends on data: they require a gradient, and have one, by the item that is read, as in eager PyTorch."""

import pytest
import torch

import tograph as tg


def first_and_last(x, y, n):
    xs = [y]
    for i in range(n):
        xs.append(y * x * i)
    return xs[0] * 2, xs[-1] * 2


def put_in_by_branches(x, y, n):
    xs = [y, y + 1]
    for i in range(n):
        if i % 2 == 0:
            xs.append(x * i)
        else:
            xs[0] = xs[-1] * 2
    if n > 2:
        xs.insert(0, y)
    return xs[0] * 3, xs[1] + y, xs[-1].sum()


def taken_out(x, y, n):
    xs, s = [y, x * 2, y * 3], y
    while n > 0 and len(xs) > 0:
        s = s + xs.pop()
        n = n - 1
    return s, s * y


def of_a_list_of_another_one(x, y, n):
    xs, ys = [y, x], []
    for i in range(n):
        xs.append(y * i)
    for t in xs[1:]:
        ys.append(t * 2)
    return ys[0], ys[-1], torch.stack(ys).sum()


def one_of_two_lists(x, y, n):
    xs, ys = [y], [x]
    for _ in range(n):
        xs.append(x * 1)
        ys.append(y * 1)
    zs = xs if n > 1 else ys
    return zs[0] + 1, zs[-1] + 1


PROGRAMS = [
    first_and_last,
    put_in_by_branches,
    taken_out,
    of_a_list_of_another_one,
    one_of_two_lists,
]


def outcome(f, n):
    x = torch.tensor([0.5, -0.3], requires_grad=True)
    y = torch.tensor([1.5, 0.7])
    outs = f(x, y, torch.tensor(n))
    found = [(o.detach(), o.requires_grad) for o in outs]
    if any(o.requires_grad for o in outs):
        sum(o.sum() for o in outs).backward()
    return found, x.grad


@pytest.mark.parametrize("f", PROGRAMS)
def test_requires_grad_follows_the_item(f):
    converted = tg.function(f)
    for n in (2, 0, 1, 3):
        torch.testing.assert_close(outcome(converted, n), outcome(f, n))


def test_the_gradient_of_an_item_that_was_computed_of_something_else_is_none():
    @tg.function
    def f(x, y, w, n):
        xs = [y * w]
        for _ in range(n):
            xs.append(x * w)
        return xs[0] * 2, xs[-1] * 2

    x, w = (torch.tensor([0.5, -0.3], requires_grad=True) for _ in "xw")
    first, last = f(x, torch.ones(2), w, torch.tensor(2))
    assert torch.autograd.grad(first.sum(), x, allow_unused=True, retain_graph=True) == (None,)
    (g,) = torch.autograd.grad(last.sum(), x)
    torch.testing.assert_close(g, 2 * w)
