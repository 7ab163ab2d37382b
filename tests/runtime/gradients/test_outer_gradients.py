"""Gradients in the body of a staged loop by state that begins as a tensor which is used by other names, too."""

import pytest
import torch

import tograph as tg
from tograph.errors import GradientError

D = torch.float64


def beside_the_state(x, w, n):
    fast = w
    for _ in range(n):
        (g,) = torch.autograd.grad((fast * w * x).sum(), fast, create_graph=True)
        fast = fast - 0.1 * g
    return fast


def from_before(x, w, n):
    p = x.detach().requires_grad_()
    prior = p.exp().sum()
    while n > 0:
        loss = (p * p * w.detach()).sum() + prior
        loss.backward(retain_graph=True)
        p = (p - 0.1 * p.grad).detach().requires_grad_()
        n = n - 1
    return p.detach()


def no_leaf(x, w, n):
    a = w.sin()
    b = a.exp()
    for _ in range(n):
        (g,) = torch.autograd.grad((a * x + b * b).sum(), a, retain_graph=True)
        a = a - 0.1 * g
    return a


def heavy_ball(x, w, n):
    """Both names hold one tensor at first."""
    p = q = w
    for _ in range(n):
        y = p + 0.9 * (p - q)
        (g,) = torch.autograd.grad((y.sin() * x).sum(), p, retain_graph=True)
        q, p = p, (y - 0.1 * g).detach().requires_grad_()
    return p.detach(), q.detach()


def tied(x, w, n):
    """Parameters of which one is computed from the other, in a dict."""
    fast = {"w": w, "b": w * 2}
    for _ in range(n):
        loss = ((fast["w"] * x + fast["b"]) - 1).square().sum()
        gs = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
        fast = {k: p - 0.1 * g for (k, p), g in zip(fast.items(), gs)}
    return ((fast["w"] * x + fast["b"]) - 2).square().sum()


def tied_items(x, w, n):
    s = [w, w * 2]
    for _ in range(n):
        g, h = torch.autograd.grad((s[0] * s[1] * x).sum(), s, create_graph=True)
        s[0] = s[0] - 0.1 * g
        s[1] = s[1] - 0.1 * h
    return s[0], s[1]


def in_a_branch(x, w, n):
    fast, i = w, 0
    while i < n:
        if x.sum() > -100:
            (g,) = torch.autograd.grad((fast * w * x).sum(), fast, create_graph=True)
            if g.sum() < -1000:
                return fast * 3
            fast = fast - 0.1 * g
        else:
            fast = fast * 2
        i = i + 1
    return fast


def tasks(x, w, n):
    total = x.sum() * 0
    for t in range(n):
        fast = w
        for _ in range(n + 1):
            loss = (fast * w * x).sum() + (fast * fast).sum() * t
            (g,) = torch.autograd.grad(loss, fast, create_graph=True)
            fast = fast - 0.1 * g
        total = total + (fast * fast).sum()
    return total


def one_leaf(x, w, n):
    """Each iteration leaves one leaf by two names."""
    s, t = (w.detach().clone().requires_grad_() for _ in range(2))
    for _ in range(n):
        (s * t * x).sum().backward()
        s = (s - 0.1 * s.grad).detach().requires_grad_()
        t = s
    return s.detach()


PROGRAMS = [
    beside_the_state, from_before, no_leaf, heavy_ball, tied, tied_items, in_a_branch, tasks, one_leaf,
]  # fmt: skip


def outcome(f, n):
    """What a function gives, and the gradients of orders 1 and 2 where it gives something with a history."""
    rng = torch.Generator().manual_seed(1)
    x, w = (torch.randn(3, dtype=D, generator=rng) for _ in range(2))
    found = f(x, w.requires_grad_(), n)
    outs = found if isinstance(found, tuple) else (found,)
    seen = [o.detach() for o in outs]
    total = sum(o.square().sum() for o in outs if o.requires_grad)
    for _ in range(2):
        if isinstance(total, torch.Tensor) and total.requires_grad:
            (g,) = torch.autograd.grad(total, w, create_graph=True)
            seen.append(g.detach())
            total = g.square().sum()
    return seen


@pytest.mark.parametrize("f", PROGRAMS)
def test_state_that_begins_as_what_is_used_besides(f):
    converted = tg.function(f)
    for n in (2, 0, 1, 3):
        torch.testing.assert_close(outcome(converted, torch.tensor(n)), outcome(f, n))
    assert converted.trace_count == 1


@pytest.mark.parametrize("start", [lambda w: (w, w), lambda w: (w.clone(), w.clone())])
def test_state_that_each_iteration_leaves_by_two_names(start):
    def f(x, w, n):
        s, t = start(w)
        for _ in range(n):
            (g,) = torch.autograd.grad((s * t).sum(), s, create_graph=True)
            s = t = s - 0.1 * g
        return s

    converted = tg.function(f)
    for n in (2, 0, 1, 3):
        torch.testing.assert_close(outcome(converted, torch.tensor(n)), outcome(f, n))


def test_of_state_that_a_later_iteration_has_by_another_name_it_is_refused():
    """In the second iteration `v` is `p`, so a gradient by either name is one of both."""
    p = torch.tensor([0.5, 2.0], requires_grad=True)

    @tg.function
    def f(x, n):
        w, v, g = p, x.detach().clone().requires_grad_(), x
        for _ in range(n):
            (g,) = torch.autograd.grad((v * v * p).sum(), v)
            v, w = w, v
        return g

    with pytest.raises(GradientError, match="in the first iteration or a later one"):
        f(torch.ones(2), torch.tensor(2))
