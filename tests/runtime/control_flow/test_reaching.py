"""Which tensors from outside of a staged loop a gradient in its body comes to by way of the state: native against `tg.function`."""

import pytest
import torch

import tograph as tg


def arguments():
    torch.manual_seed(0)
    return (
        torch.randn(4, requires_grad=True),
        torch.randn(4, 4).mul(0.5).requires_grad_(),
        torch.tensor(0.1, requires_grad=True),
    )


def taken(y, *inputs):
    """The sum of the gradients that there are, and how many."""
    found = torch.autograd.grad(y, inputs, retain_graph=True, allow_unused=True)
    return sum(g.square().sum() for g in found if g is not None) + 0.0


def changing_places(x, w, lr, n):
    a, b, c, total = x * 1, w @ x, lr * torch.ones(4), torch.zeros(())
    for _ in range(n):
        total = total + taken(a.sum(), x, w, lr)
        a, b, c = b, c * 2, torch.sin(a)
    return total


def after_two_iterations(x, w, lr, n):
    a, b, c, total = x * 1, w[0] * 1, w[1] * 1, torch.zeros(())
    for _ in range(n):
        a, b, c = a + b, b + c, c * lr
        total = total + taken(a.square().sum(), x, w, lr)
    return total


def in_containers(x, w, lr, n):
    state, total = {"h": x * 1, "c": (w[0] * 1, lr * 1)}, torch.zeros(())
    for _ in range(n):
        a, b = state["c"]
        state = {"h": torch.tanh(state["h"] + a), "c": (a * b, b)}
        total = total + taken(state["h"].sum(), x, w, lr)
    return total


def views_of_one(x, w, lr, n):
    """Of two views of a tensor from outside, both lead to it."""
    v, u, total = w[0], w[1], torch.zeros(())
    for _ in range(n):
        v, u = torch.sin(v) * u, u * lr
        total = total + taken(v.square().sum(), x, w, lr)
    return total


def views_at_numbers_of_the_run(x, w, lr, n):
    v, u, total = w[n % 4], w[(n + 1) % 4], torch.zeros(())
    for _ in range(n):
        v, u = torch.sin(v) * u, u * lr
        total = total + taken(v.square().sum(), x, w, lr)
    return total


def written_in_place(x, w, lr, n):
    h, k, total = x * 1, w[0] * 1, torch.zeros(())
    for _ in range(n):
        h.add_(torch.sin(k) * lr)
        k = k + 1
        total = total + taken(h.square().sum(), x, w, lr)
    return total, h


def in_branches(x, w, lr, n):
    a, total = x * 1, torch.zeros(())
    for _ in range(n):
        a = a * lr if a.sum() > 0 else a + w[0]
        total = total + taken(a.square().sum(), x, w, lr)
    return total


def by_what_is_no_leaf(x, w, lr, n):
    y = w @ x
    z = torch.sin(y)
    h, total = z, torch.zeros(())
    for _ in range(n):
        h = torch.sin(h) * lr + z
        total = total + taken(h.square().sum(), y, z, lr)
    return total


PROGRAMS = [changing_places, after_two_iterations, in_containers, views_of_one, views_at_numbers_of_the_run, written_in_place, in_branches, by_what_is_no_leaf]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_eager(program):
    converted = tg.function(program)
    for trips in (0, 1, 2, 4):
        found = []
        for function in (program, converted):
            outs = function(*arguments(), torch.tensor(trips))
            outs = outs if isinstance(outs, tuple) else (outs,)
            found.append([y.detach() for y in outs])
        torch.testing.assert_close(found[1], found[0])
