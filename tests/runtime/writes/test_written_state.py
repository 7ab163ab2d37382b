"""Gradients that are taken in a loop's body and go back through what earlier iterations wrote in place, as in eager PyTorch."""

import pytest
import torch

import tograph as tg
from tests.random_functions import eager

D = torch.float64


def written_since(s, v, n):
    h = v * 1
    for _ in range(n):
        h.sin().sum().backward(retain_graph=True)
        h = h.detach().clone()
        h += s


def written_row(s, v, n):
    h = torch.stack([v, v * 2])
    for _ in range(n):
        h.sin().sum().backward(retain_graph=True)
        h = h.detach().clone()
        h[0] += s
        h[1].mul_(s)


def written_by_a_branch(s, v, n):
    h = v * 1
    for _ in range(n):
        h.sin().sum().backward(retain_graph=True)
        h = torch.zeros(3, dtype=D)
        if s > -99:
            h += s
        else:
            h *= v


def written_itself(s, v, n):
    h = v * 1
    for _ in range(n):
        h.sum().backward(retain_graph=True)
        h.add_(s)


def view_of_what_was_written(s, v, n):
    h = v * 1
    for _ in range(n):
        h.sin().sum().backward(retain_graph=True)
        y = torch.zeros(2, 3, dtype=D)
        y[1] = s
        h = y[1]


def item_of_a_list(s, v, n):
    rows = [v * 1]
    for _ in range(n):
        rows[0].sin().sum().backward(retain_graph=True)
        y = rows[0].detach().clone()
        y += s
        rows[0] = y


FUNCTIONS = [written_since, written_row, written_by_a_branch, written_itself, view_of_what_was_written, item_of_a_list]  # fmt: skip


def gradients(f, n):
    s = torch.tensor(0.7, dtype=D, requires_grad=True)
    v = torch.tensor([0.3, -0.2, 1.1], dtype=D, requires_grad=True)
    f(s, v, torch.tensor(n))
    return [
        torch.zeros_like(x) if x.grad is None else x.grad for x in (s, v)
    ]  # which of them, see docs/limits/state.md


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradients_go_through_writes_of_earlier_iterations(f):
    g = tg.function(f)
    for n in (0, 1, 3):
        torch.testing.assert_close(gradients(g, n), eager(lambda n=n: gradients(f, n)))
