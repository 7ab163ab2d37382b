"""Gradients with respect to leaves that a staged branch or loop makes, of what it computed of them."""

import pytest
import torch

import tograph as tg
from tograph.errors import GradientError

X = torch.tensor([0.3, -0.6, 1.1])
W = torch.tensor([0.5, 1.5, -0.7])


def energy(x, w):
    return (x.sin() * w).sum() + (x * x).sum() * 0.5


def by_backward(x, w, n):
    x = x.detach().requires_grad_()
    loss = energy(x, w)
    for _ in range(n):
        (g,) = torch.autograd.grad(loss, x)
        x = (x - 0.1 * g).detach().requires_grad_()
        loss = energy(x, w)
    loss.backward()
    return x.grad, x.detach()


def attack_with_a_test(x, w, n):
    adv = (x + 0.01).detach().requires_grad_()
    loss = (adv * w.detach()).tanh().sum()
    while n > 0 and loss < 2:
        loss.backward()
        with torch.no_grad():
            adv = torch.max(torch.min(adv + 0.1 * adv.grad.sign(), x + 0.3), x - 0.3)
        adv = adv.detach().requires_grad_()
        loss = (adv * w.detach()).tanh().sum()
        n = n - 1
    loss.backward()
    return adv.grad, adv.detach()


def of_an_argument(x, w, n):
    y, loss = x, energy(x, w)
    for _ in range(n):
        (g,) = torch.autograd.grad(loss, y, retain_graph=True)
        y = (y - 0.1 * g).detach().requires_grad_()
        loss = energy(y, w)
    return torch.autograd.grad(loss, y, create_graph=True)


def accumulated(x, w, n):
    y = x.detach().requires_grad_()
    loss = (y * w).sum()
    for _ in range(n):
        y = (y * 0.9).detach().requires_grad_()
        loss = loss + (y.cos() * w).sum() * loss
    return torch.autograd.grad(loss, y, create_graph=True)


def sometimes(x, w, n):
    y = x.detach().requires_grad_()
    loss = (y * w).sum()
    for i in range(n):
        if i % 2 == 0:
            y = (y * 0.9).detach().requires_grad_()
        loss = loss + (y.cos() * w).sum() * loss
    return torch.autograd.grad(loss, y, create_graph=True)


def one_of_two(x, w, n):
    y = x.detach().requires_grad_()
    loss = (y * w).sum()
    for i in range(n):
        if i % 2 == 0:
            y = (y * 0.5).detach().requires_grad_()
        else:
            y = (y + 1).detach().requires_grad_()
        loss = (y.sin() * w).sum() + 0.1 * loss
    return torch.autograd.grad(loss, y, create_graph=True)


def the_best(x, w, n):
    best = x.detach().requires_grad_()
    least = (best * best).sum() * w.sum()
    for i in range(n):
        y = (x * (1 - 0.2 * i)).detach().requires_grad_()
        loss = (y * y).sum() * w.sum()
        if loss < least:
            best, least = y, loss
    return torch.autograd.grad(least, best, create_graph=True)


def of_branches(x, w, n):
    y = x.detach().requires_grad_()
    loss = (y * w).sum()
    if n > 1:
        y = (y * 2).detach().requires_grad_()
        loss = energy(y, w) * w.sum()
    elif n > 0:
        y = x
        loss = (y.cos() * w).sum()
    return torch.autograd.grad(loss, y, create_graph=True)


def in_a_dict(x, w, n):
    p = {"x": x.detach().requires_grad_(), "w": w.detach().requires_grad_()}
    loss = (p["x"] * p["w"]).sum()
    for _ in range(n):
        gs = torch.autograd.grad(loss, list(p.values()))
        p = {k: (v - 0.1 * g).detach().requires_grad_() for (k, v), g in zip(p.items(), gs)}
        loss = energy(p["x"], p["w"])
    loss.backward()
    return [v.grad for v in p.values()]


def of_a_search(x, w, n):
    t = 1.0
    while True:
        y = (x * t).detach().requires_grad_()
        loss = (y**2 * w).sum() * 0.1
        if loss < 0.1 * n or t < 1e-2:
            break
        t = t * 0.5
    loss.backward()
    return y.grad


def of_a_search_in_a_loop(x, w, n):
    y = x.detach().requires_grad_()
    loss = energy(y, w.detach())
    for _ in range(n):
        (g,) = torch.autograd.grad(loss, y)
        t = 1.0
        while True:
            z = (y - t * g).detach().requires_grad_()
            new = energy(z, w.detach())
            if new < loss or t < 1e-2:
                break
            t = t * 0.5
        y, loss = z, new
    (g,) = torch.autograd.grad(loss, y)
    return g, y.detach()


def steps_of_two_names(x, w, n):
    y = x.detach().requires_grad_()
    for i in range(3):
        if i >= n:
            break
        energy(y, w.detach()).backward()
        with torch.no_grad():
            stepped = y - 0.1 * y.grad
        y = stepped.requires_grad_()
    (g,) = torch.autograd.grad(energy(y, w.detach()), y)
    return g, y.detach()


PROGRAMS = [
    by_backward, attack_with_a_test, of_an_argument, accumulated, sometimes, one_of_two, the_best, of_branches, in_a_dict, of_a_search, of_a_search_in_a_loop, steps_of_two_names,
]  # fmt: skip


def outcome(f, n):
    """What a program gives, the ``.grad`` that it leaves, and the gradients of its results."""
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    outs = f(x, w, n)
    outs = outs if isinstance(outs, (tuple, list)) else [outs]
    found = [[o.detach() for o in outs], [None if p.grad is None else p.grad.clone() for p in (x, w)]]  # fmt: skip
    again = [o for o in outs if o.requires_grad]
    if again:
        total = sum(o.sin().sum() for o in again)
        grads = torch.autograd.grad(total, [x, w], allow_unused=True)
        found.append([torch.zeros(3) if g is None else g for g in grads])
    return found


@pytest.mark.parametrize("f", PROGRAMS)
def test_a_leaf_of_a_branch_or_loop_and_a_loss_of_it(f):
    converted = tg.function(f)
    for n in (2, 0, 1, 3):
        torch.testing.assert_close(outcome(converted, torch.tensor(n)), outcome(f, n))


def test_the_field_of_an_item_of_a_list_is_refused():
    @tg.function
    def f(x, n):
        ws = []
        for i in range(n):
            ws.append((x * i).detach().requires_grad_())
        sum([(w * x).sum() for w in ws], torch.zeros(())).backward()
        return [w.grad is None for w in ws]

    with pytest.raises(GradientError, match="an item of a list whose length depends on data"):
        f(X.clone().requires_grad_(), torch.tensor(2))
