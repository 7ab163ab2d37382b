"""Masks beside other indices, as plain Python reads them."""

import pytest
import torch

import tograph as tg

X = torch.arange(12.0).reshape(4, 3)
MASK = torch.tensor([True, False, True, True])
LABELS = torch.tensor([0, 2, 1, 1])


def written(x, m, i):
    x = x.clone()
    x[m, i[m]] += 1
    x[m, 0] = x[m, 1] * 2
    x[i[:2], m[:3]] = 7.0
    return x


def in_a_loop(x, m, i):
    p, total, n = x.log_softmax(-1), x.new_zeros(()), 0
    while n < 3:
        total, n = total - p[m, i[m]].mean(), n + 1
    return total


PROGRAMS = {
    "picked": lambda x, m, i: x[m, i[m]],
    "as_many": lambda x, m, i: x[m, i[:3]],
    "behind": lambda x, m, i: x[i[:2], m[:3]],
    "two_dims": lambda x, m, i: torch.stack([x, x + 1], -1)[x > 3, (x > 3).sum() * 0],
    "apart": lambda x, m, i: (x[:, None][m, :, i[m]], x[None][:, m, i[m]], x[m, i[m], None]),
    "lists": lambda x, m, i: (
        x[[True, False, True, True], [2, 1, 0]],
        x[m, torch.tensor([True, True, True])],
    ),
    "written": written,
    "in_a_loop": in_a_loop,
}


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
def test_same(f):
    g = tg.function(f)
    for mask in (MASK, torch.tensor([False, True, True, True])):
        torch.testing.assert_close(g(X, mask, LABELS), f(X, mask, LABELS))


def test_gradients():
    found = []
    for f in (in_a_loop, tg.function(in_a_loop)):
        x = X.clone().requires_grad_()
        found.append(torch.autograd.grad(f(x, MASK, LABELS), x))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, m, i: x[torch.ones(5, dtype=torch.bool), i],
        lambda x, m, i: x[:, torch.ones(2, dtype=torch.bool), i] if x.dim() > 2 else x[i[:1], m],
        lambda x, m, i: x[m, i[:2]],
    ],
)
def test_errors_are_those_of_torch(f):
    for g in (f, tg.function(f)):
        with pytest.raises(IndexError, match="does not match|mismatch"):
            g(X, MASK, LABELS)
