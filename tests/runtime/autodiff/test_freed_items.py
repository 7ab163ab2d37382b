"""A gradient by an item of a list frees that item, and no other one: as in eager PyTorch, else an error at the user's line."""

import pytest
import torch

import tograph as tg


def another_item(x, w, n):
    y = x * w
    xs = [y]
    for i in range(n):
        xs.append((x + 1 + i) * w)
    (g,) = torch.autograd.grad((y * w).sum(), w)
    (h,) = torch.autograd.grad((xs[-1] * w).sum(), w)
    return g, h


def item_and_then_the_name(x, w, n):
    y = x * w
    xs = [y]
    for i in range(n):
        xs.append((x + 1 + i) * w)
    (g,) = torch.autograd.grad((xs[-1] * w).sum(), w)
    (h,) = torch.autograd.grad((y * w).sum(), w)
    return g, h


def first_and_last(x, w, n):
    xs = []
    for i in range(n + 1):
        xs.append((x * w * (i + 1)).sum())
    xs[0].backward()
    xs[-1].backward()
    return w.grad


def freed_in_a_branch(x, w, n):
    y = x * w
    xs = [y]
    for i in range(n + 1):
        xs.append(torch.sin(w) * i)
    if n > 1:
        y.sum().backward()
    (g,) = torch.autograd.grad(xs[-1].sum(), w)
    return g


def one_after_the_other(x, w, n):
    xs = [(x - w).square().sum()]
    for i in range(n):
        xs.append((torch.sin(x * w) * i).sum())
    xs.append((x * w).sum())
    for t in xs:
        t.backward()
    return w.grad


def one_twice(x, w, n):
    xs = []
    for i in range(n + 1):
        xs.append((x * w * i).sum())
    for t in xs:
        t.backward()
    xs[-1].backward()
    return w.grad


def by_position(x, w, n):
    xs = []
    for i in range(n):
        xs.append((x * w * i).sum())
    for i in range(len(xs)):
        xs[i].backward()
        if xs[i] > 2:
            break
    return w.grad


CASES = [another_item, item_and_then_the_name, first_and_last, freed_in_a_branch, one_after_the_other, one_twice, by_position]  # fmt: skip


def arguments():
    x = torch.tensor([0.5, -0.3, 1.2], dtype=torch.float64, requires_grad=True)
    return x, torch.tensor([0.7, 1.1, -0.2], dtype=torch.float64, requires_grad=True)


def outcome(f, n):
    x, w = arguments()
    try:
        return f(x, w, torch.tensor(n)), w.grad, x.grad
    except RuntimeError as error:
        return str(error)[:45]


@pytest.mark.parametrize("case", CASES)
def test_as_in_eager(case):
    f = tg.function(case)
    for n in (2, 0, 1, 3):
        got, expected = outcome(f, n), outcome(case, n)
        if isinstance(expected, str):
            assert got == expected
        else:
            torch.testing.assert_close(got, expected, rtol=1e-12, atol=0)


def sharing_state(x, w, n):
    xs, s = [], x
    for _ in range(n):
        s = s * w
        xs.append(s.sum())
    for t in xs:
        t.backward()
    return w.grad


def sharing_what_was_before(x, w, n):
    xs, h = [], x * w
    for i in range(n):
        xs.append((h * i).sum())
    for t in xs:
        t.backward()
    return w.grad


def at_two_positions(x, w, n):
    xs = []
    for i in range(n + 1):
        xs.append((x * w * i).sum())
    i, j = 0, 1
    while j <= n:
        xs[i].backward()
        xs[j].backward()
        i, j = i + 1, j + 1
    return w.grad


def from_the_end_too(x, w, n):
    xs = []
    for i in range(n):
        xs.append((x * w * i).sum())
    for i in range(-n, n):
        xs[i].backward()
    return w.grad


def the_same_item(x, w, n):
    xs = []
    for i in range(n):
        xs.append((x * w * i).sum())
    for _ in range(n):
        xs[0].backward()
    return w.grad


@pytest.mark.parametrize("case", [sharing_state, sharing_what_was_before, at_two_positions, from_the_end_too, the_same_item])  # fmt: skip
def test_items_that_may_share_what_is_freed_are_refused(case):
    with pytest.raises(tg.errors.GradientError, match="whether an earlier iteration"):
        tg.function(case)(*arguments(), torch.tensor(2))
