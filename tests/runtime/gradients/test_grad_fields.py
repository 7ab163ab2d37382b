"""``.grad`` fields that a call leaves as they are, on some of its paths: eager PyTorch against `tg.function`."""

import pytest
import torch
from torch import nn

import tograph as tg


def trained(net, opt, x, n):
    for _ in range(n):
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()


def cleared_behind(net, opt, x, n):
    for _ in range(n):
        net(x).sum().backward()
        opt.step()
        opt.zero_grad()


def in_a_branch(net, opt, x, n):
    if n > 0:
        opt.zero_grad()
    if n == 2:
        net(x).sum().backward()


def read_behind(net, opt, x, n):
    if n == 1:
        opt.zero_grad()
    elif n == 2:
        for p in net.parameters():
            p.grad = torch.ones_like(p)
    return [None if p.grad is None else p.grad * 2 for p in net.parameters()]


def added_behind(net, opt, x, n):
    if n > 1:
        opt.zero_grad()
    net(x).sum().backward()


FUNCTIONS = [trained, cleared_behind, in_a_branch, read_behind, added_behind]


def _seen(function, decorator):
    torch.manual_seed(0)
    net = nn.Linear(2, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    made = decorator(function)
    rows = []
    for n in (0, 2, 0, 1, 2, 0):
        result = made(net, opt, torch.ones(2), torch.tensor(n))
        grads = [None if p.grad is None else p.grad.tolist() for p in net.parameters()]
        rows.append((result and [None if g is None else g.tolist() for g in result], grads))
    return rows, made


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_field_that_a_run_leaves_as_it_is(function):
    native, _ = _seen(function, lambda f: f)
    staged, made = _seen(function, tg.function)
    assert native == staged
    assert made.trace_count <= 2


def test_a_loop_that_clears_gradients_has_one_trace():
    _, made = _seen(trained, tg.function)
    assert made.trace_count == 1
