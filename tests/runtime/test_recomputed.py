"""Gradients of what an iteration computed, taken in the next one with `create_graph=True` or by what is no leaf: native against `tg.function`."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tograph as tg
from tograph.errors import GradientError


def arguments():
    torch.manual_seed(0)
    return nn.Linear(3, 1), torch.randn(4, 6, 3), torch.randn(4, 6, 1), torch.tensor(3)


def adapted(net, xs, ys, n):
    """Meta-learning with as many inner steps as the loss asks for."""
    optimizer, total = torch.optim.SGD(net.parameters(), 0.1), torch.zeros(())
    for i in range(n):
        fast = dict(net.named_parameters())
        loss, k = F.mse_loss(torch.func.functional_call(net, fast, (xs[i],)), ys[i]), 0
        while loss > 0.5 and k < 3:
            grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), grads)}
            loss = F.mse_loss(torch.func.functional_call(net, fast, (xs[i],)), ys[i])
            k += 1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = total + loss.detach()
    return total


def with_a_break(net, xs, ys, n):
    total = torch.zeros(())
    for x, y in zip(xs, ys):
        w, b = net.weight, net.bias
        loss = F.mse_loss(F.linear(x, w, b), y)
        while loss > 0.1:
            gw, gb = torch.autograd.grad(loss, (w, b), create_graph=True)
            w, b = w - 0.1 * gw, b - 0.1 * gb
            new = F.mse_loss(F.linear(x, w, b), y)
            if new > 0.98 * loss:
                break
            loss = new
        total = total + F.mse_loss(F.linear(x, w, b), y)
    total.backward()
    return total.detach()


def newton(net, xs, ys, n):
    w, k = xs[0, 0].clone().requires_grad_(), 0
    loss = (w**4).sum()
    while loss > 1e-3 and k < n:
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), w)
        w = (w - g.detach() / (h + 0.1)).detach().requires_grad_()
        loss, k = (w**4).sum(), k + 1
    return w.detach(), loss.detach(), k


def a_batch_for_each(net, xs, ys, n):
    """What the value is computed from besides is that of the iteration before."""
    w = torch.ones(3, requires_grad=True)
    loss, total = net(xs[0] * w).square().sum(), torch.zeros(())
    for i in range(n):
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        (h,) = torch.autograd.grad(g.square().sum(), w)
        total, w = total + h.sum(), (w - 1e-3 * g).detach().requires_grad_()
        loss = net(xs[i + 1] * w).square().sum()
    return total


def in_branches(net, xs, ys, n):
    def value(w):
        return net(xs[0] * w).square().sum() if w.sum() > 2 else net(xs[0] * w).sum() / 2

    w = torch.ones(3, requires_grad=True)
    loss, penalty = value(w), (w**4).sum()
    for _ in range(n):
        (g,) = torch.autograd.grad(loss + penalty / 9, w, create_graph=True)
        w = w - 0.01 * g
        loss, penalty = value(w), (w**4).sum()
    (loss + penalty).backward()
    return w.detach()


def another_one_before(net, xs, ys, n):
    w = xs[0, 0] * net.weight[0]
    loss = (w**3).sum()
    for _ in range(n):
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        w = w - 0.1 * g
        loss = (w * w).sum()
    return loss


def one_by_another(net, xs, ys, n):
    w = xs[0, 0] * net.weight[0]
    h = torch.tanh(w)
    loss = (h * h).sum()
    for _ in range(n):
        gh, gw = torch.autograd.grad(loss, (h, w), create_graph=True)
        w = w - 0.1 * gw - 0.05 * gh
        h = torch.tanh(w)
        loss = (h * h).sum()
    return loss


def without_create_graph(net, xs, ys, n):
    s = xs[0, 0] * net.weight[0]
    t = (s * 2).sum() * s.sum()
    for _ in range(n):
        (g,) = torch.autograd.grad(t, s, retain_graph=True)
        s = s - 0.1 * g
        t = (s * 2).sum() * s.sum()
    return s.sum() + t


PROGRAMS = [adapted, with_a_break, newton, a_batch_for_each, in_branches, another_one_before, one_by_another, without_create_graph]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_eager(program):
    converted, found = tg.function(program), []
    for function in (program, converted):
        net, xs, ys, n = arguments()
        for trips in (n, n * 0, n):
            outs = function(net, xs, ys, trips)
            outs = outs if isinstance(outs, tuple) else (outs,)
            found.append([])
            for y in outs:
                if isinstance(y, torch.Tensor) and y.requires_grad:
                    y.backward()
                found[-1].append(y.detach() if isinstance(y, torch.Tensor) else y)
            grads = [
                torch.zeros(()) if p.grad is None else p.grad.clone() for p in net.parameters()
            ]
            found[-1] += [*grads, *(p.detach().clone() for p in net.parameters())]
    torch.testing.assert_close(found[:3], found[3:])


def test_a_value_with_random_numbers_is_not_computed_again():
    @tg.function
    def f(x, n):
        w = x.clone().requires_grad_()
        loss = (F.dropout(w, 0.5) * w).sum()
        for _ in range(n):
            (g,) = torch.autograd.grad(loss, w, create_graph=True)
            w = w - 0.1 * g
            loss = (F.dropout(w, 0.5) * w).sum()
        return loss

    with pytest.raises(GradientError, match="does more than compute"):
        f(torch.ones(3), torch.tensor(2))
