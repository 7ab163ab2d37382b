"""Gradients with `create_graph=True`, outside, of functions whose staged loops and branches write arguments and buffers: the forward part is computed again of what was there before the call."""

import pytest
import torch

import tograph as tg

D = torch.float64


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(0.5, dtype=D))
        self.register_buffer("calls", torch.tensor(1))
        self.register_buffer("scale", torch.tensor(1.0, dtype=D))


def counts_down(m, x, k):
    while k > 0:
        x = x - m.w * x * x
        k -= 1
    return x


def counts_calls(m, x, k):
    if k > 1:
        m.calls += 1
        x = x * m.w if m.calls % 2 == 0 else x.sin()
    return x * x


def read_inside(m, x, k):
    m.calls += 1
    for _ in range(k):
        x = x.sin() * x if m.calls > 2 else x * m.w * x
    m.calls += 1
    return x


def floats(m, x, k):
    with torch.no_grad():
        m.scale.mul_(2)
        while m.scale < 3:
            m.scale.add_(1)
            k += 1
    for _ in range(k):
        x = torch.sin(x * m.scale * m.w)
    return x


def checks_before_it_fails(m, x, k):
    while k > 0:
        x = x * torch.cos(m.w * x)
        k -= 1
        assert x.sum() < 9 + k
    return x


@pytest.mark.parametrize("f", [counts_down, counts_calls, read_inside, floats, checks_before_it_fails])  # fmt: skip
def test_as_in_eager(f):
    modules = [Counted(), Counted()]
    functions = [f, tg.function(f)]
    for k in (0, 1, 3, 2):
        found = []
        for m, g in zip(modules, functions):
            x = torch.tensor([1.0, 2.0], dtype=D, requires_grad=True)
            count = torch.tensor(k)
            total, grads = g(m, x, count).sum(), []
            for order in range(3):
                now = torch.autograd.grad(total, [x, m.w], create_graph=order < 2, allow_unused=True, materialize_grads=True)  # fmt: skip
                grads += [y.detach() for y in now]
                total = sum(y.square().sum() for y in now)
                if not total.requires_grad:
                    break
            found.append([*grads, count, m.calls.clone(), m.scale.clone()])
        torch.testing.assert_close(*found)
