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


def of_two_names(net, xs, ys, n):
    s = t = xs[0, 0] * net.weight[0]
    for _ in range(n):
        (g,) = torch.autograd.grad((s * t * net.bias).sum(), s, create_graph=True)
        if g.norm() < 0.01:
            break
        s = t = s - 0.1 * g
    return s.sum() + t.sum()


def leaves_of_two_names(net, xs, ys, n):
    s = t = xs[0, 0].clone().requires_grad_()
    for _ in range(n):
        (g,) = torch.autograd.grad((s * t).sum(), s)
        s = t = (s - 0.1 * g).detach().requires_grad_()
    return s.detach()


def value(w, net):
    return ((net.weight * w - 1) ** 2).sum() + (w**4).sum() * 0.1


def left_before_the_end(net, xs, ys, n):
    w = xs[0, 0] + net.weight[0]
    loss = value(w, net)
    for i in range(2 * n):
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        if g.norm() < 1.0:
            break
        if i == 1:
            continue
        w = w - 0.05 * g
        loss = value(w, net)
    return w.sum() + loss


def returned_from_the_middle(net, xs, ys, n):
    w = xs[0, 0] * net.bias
    loss = (w**4).sum()
    for _ in range(2 * n):
        (g,) = torch.autograd.grad(loss, w, retain_graph=True)
        if g.norm() < 0.1:
            return 2 * w.sum() + loss
        w = w - 0.1 * g
        loss = (w**4).sum()
    return w.sum() + loss


def newton_with_a_break(net, xs, ys, n):
    w = xs[0, 0].clone().requires_grad_()
    loss = (w**4).sum()
    for _ in range(n):
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        if g.norm() < 0.5:
            break
        (h,) = torch.autograd.grad(g.sum(), w)
        w = (w - g.detach() / (h + 1)).detach().requires_grad_()
        loss = (w**4).sum()
    return w.detach(), loss.detach()


def accepted_or_not(net, xs, ys, n):
    w, step = xs[0, 0] + net.weight[0], 0.2
    loss = value(w, net)
    for _ in range(2 * n):
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        new = w - step * g
        new_loss = value(new, net)
        if new_loss < loss:
            w, loss, step = new, new_loss, step * 1.2
        else:
            step = step * 0.5
    return w.sum() + loss


def trust_region(net, xs, ys, n):
    w, radius = xs[0, 0].clone().requires_grad_(), torch.tensor(1.0)
    loss = value(w, net)
    for _ in range(n):
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        (hg,) = torch.autograd.grad((g * g.detach()).sum(), w, retain_graph=True)
        d = g.detach()
        t = torch.minimum(radius / d.norm(), d.dot(d) / d.dot(hg).clamp_min(1e-3))
        new = (w - t * d).detach().requires_grad_()
        new_loss = value(new, net)
        ratio = (loss - new_loss).detach() / (t * d.dot(d))
        if ratio > 0.1:
            w, loss = new, new_loss
            if ratio > 0.7:
                radius = radius * 2
        else:
            radius = radius / 2
    return w.detach(), loss.detach(), radius


def by_either_branch(net, xs, ys, n):
    w = xs[0, 0] + net.weight[0]
    loss = value(w, net)
    for _ in range(n):
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        if g.norm() > 2:
            w = w - 0.1 * g / g.norm()
            loss = value(w, net)
        else:
            w = w - 0.05 * g
            loss = value(w, net)
    return w.sum() + loss


def a_batch_in_a_branch(net, xs, ys, n):
    """What the value is computed from besides is of the last iteration that computed it, and has a history."""
    w, c = xs[0, 0] + net.weight[0], net.weight[0]
    loss, total = ((w - c) ** 4).sum(), torch.zeros(())
    for i in range(n):
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        total = total + g.square().sum()
        if i % 2 == 0:
            w, c = w - 0.01 * g, torch.sin(c) * xs[i, 1]
            loss = ((w - c) ** 4).sum()
    return w.sum() + loss + total


def one_by_another_with_a_break(net, xs, ys, n):
    w = xs[0, 0] * net.weight[0]
    h = torch.tanh(w)
    loss = (h * h).sum() * net.bias.sum()
    for _ in range(n):
        gh, gw = torch.autograd.grad(loss, (h, w), create_graph=True)
        if gw.norm() < 0.01:
            break
        w = w - 0.1 * gw - 0.05 * gh
        h = torch.tanh(w)
        loss = (h * h).sum() * net.bias.sum()
    return w.sum() + loss


def in_a_loop(net, xs, ys, n):
    w = xs[0, 0] + net.weight[0]
    loss = value(w, net)
    for i in range(n):
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        k = 0
        while loss > 0.5 and k < i:
            w = w - 0.05 * g
            loss = value(w, net)
            k += 1
    return w.sum() + loss


def line_search(net, xs, ys, n):
    w = xs[0, 0] + net.weight[0]
    loss = value(w, net)
    for _ in range(n):
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        t = torch.tensor(1.0)
        new = w - t * g
        new_loss = value(new, net)
        while new_loss > loss - 0.3 * t * g.dot(g):
            t = t / 2
            new = w - t * g
            new_loss = value(new, net)
        w, loss = new, new_loss
    return w.sum() + loss


def line_search_of_leaves(net, xs, ys, n):
    """A loop in the body makes the leaf, and its iterations compute other state from that of the one before."""
    w = xs[0, 0].clone().requires_grad_()
    loss = value(w, net)
    for _ in range(n):
        loss.backward()
        g, t = w.grad, torch.tensor(1.0)
        new = (w.detach() - t * g).requires_grad_()
        new_loss = value(new, net)
        while new_loss > loss.detach() - 0.3 * t * g.dot(g) and t > 1e-4:
            t = t / 2
            new = (w.detach() - t * g).requires_grad_()
            new_loss = value(new, net)
        w, loss = new, new_loss
    return w.detach(), loss.detach()


PROGRAMS = [
    adapted, with_a_break, newton, a_batch_for_each, in_branches, another_one_before, one_by_another, without_create_graph, left_before_the_end, returned_from_the_middle, newton_with_a_break,
    accepted_or_not, trust_region, by_either_branch, a_batch_in_a_branch, of_two_names, leaves_of_two_names, one_by_another_with_a_break, in_a_loop, line_search, line_search_of_leaves,
]  # fmt: skip


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


def test_branches_that_compute_it_in_two_ways():
    @tg.function
    def f(x, n):
        w = x.clone().requires_grad_()
        loss = (w**4).sum()
        for _ in range(n):
            (g,) = torch.autograd.grad(loss, w, create_graph=True)
            if g.sum() > 0:
                w = w - 0.1 * g
                loss = (w**4).sum()
            else:
                w = w - 0.1 * g
                loss = (w**2).sum()
        return loss

    with pytest.raises(GradientError, match="is not the same in every iteration"):
        f(torch.ones(3), torch.tensor(2))


def test_what_it_uses_besides_follows_from_the_same_tensor():
    """The branch takes `y`, which was computed of `w` before it."""

    def f(x, n):
        w = x * 1
        loss = (w * (w * 2)).sum()
        for _ in range(n):
            (g,) = torch.autograd.grad(loss, w, create_graph=True)
            w = w - 0.1 * g
            y = w * 2
            loss = (w * y).sum() if y.sum() > -100 else (w * y).sum()
        return loss

    x = torch.ones(3, requires_grad=True)
    for trips in (1, 3):
        torch.testing.assert_close(tg.function(f)(x, torch.tensor(trips)), f(x, torch.tensor(trips)))  # fmt: skip


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
