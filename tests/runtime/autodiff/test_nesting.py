"""Lists that leave a function with a gradient: which of their items are tensors of the caller's."""

import pytest
import torch
from torch.utils._pytree import tree_leaves

import tograph as tg


def leaf(x):
    return x.detach().clone().requires_grad_()


def a_trajectory(x, p, n):
    xs = [x]
    for _ in range(n):
        x = torch.sin(x) * p
        xs.append(x)
    return xs


def put_in_before_the_step(x, p, n):
    xs = []
    for _ in range(n):
        xs.append(x)
        x = x * p
    return {"path": xs[::-1]}, tuple(xs)


def by_branches(x, p, n):
    xs = [x, x * 2]
    for i in range(n):
        if i % 2 == 0:
            xs.append(p)
        elif i < 3:
            xs.insert(0, x)
        else:
            xs.append(leaf(x))
    return xs


def in_lists_of_lists(x, p, n):
    xs = []
    for _ in range(n):
        xs.append([x * p, p, x])
        x = x * p
    return xs


def beside_numbers(x, p, n):
    xs = []
    for i in range(n):
        xs.append((x, {"i": i, "p": p}))
        x = x * p
    return xs


def told(f, x, p, n):
    out = [y for y in tree_leaves(f(x, p, n)) if isinstance(y, torch.Tensor)]
    total = sum((y * y).sum() for y in out if y.requires_grad)
    if out:
        total.backward()
    seen = [(y is x, y is p, y.requires_grad, y.is_leaf, y.detach(), y.grad if y.is_leaf else None) for y in out]  # fmt: skip
    return [seen, x.grad, p.grad]


@pytest.mark.parametrize(
    "program",
    [a_trajectory, put_in_before_the_step, by_branches, in_lists_of_lists, beside_numbers],
)
def test_items_that_are_arguments_are_the_callers_own(program):
    converted = tg.function(program)
    for n in (0, 1, 4):
        rows = []
        for f in (converted, program):
            x = torch.tensor([1.0, 2.0], requires_grad=True)
            p = torch.tensor([0.5, 3.0], requires_grad=True)
            rows.append(told(f, x, p, torch.tensor(n)))
        torch.testing.assert_close(*rows)


def test_a_captured_tensor_in_a_list_is_itself():
    p = torch.tensor([0.5, 3.0], requires_grad=True)

    @tg.function
    def f(x, n):
        xs = []
        for _ in range(n):
            xs += [p, x * p]
        return xs

    found = f(torch.ones(2), torch.tensor(2))
    assert [y is p for y in found] == [True, False, True, False]
