"""A ``torch.autograd.Function`` that code calls which is not converted has its gradient outside of the function too."""

import threading

import pytest
import torch

import tograph as tg


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x >= 0).to(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.sigmoid(x)


@tg.do_not_convert
def helper(x):
    return Spike.apply(x * 2) + x


library = torch.library.Library("tograph_spikes", "DEF")
library.define("spike(Tensor x) -> Tensor")
library.impl("spike", lambda x: Spike.apply(x * 2), "AutogradCPU")
library.impl("spike", lambda x: (x >= 0).to(x), "CPU")


def by_a_loop(x):
    while x.sum() < 20:
        x = x * (helper(x) + 1)
    return x


def by_a_library(x):
    return torch.ops.tograph_spikes.spike(x)


def inside(x):
    (g,) = torch.autograd.grad(helper(x).sum(), x, create_graph=True)
    return g * x


@pytest.mark.parametrize("f", [helper, by_a_loop, by_a_library, inside])
def test_gradient(f):
    x, y = (torch.tensor([1.0, -0.2], requires_grad=True) for _ in range(2))
    staged = tg.function(f)
    for _ in range(2):
        a, b = f(x), staged(y)
        a.sum().backward()
        b.sum().backward()
        torch.testing.assert_close(b, a)
        torch.testing.assert_close(y.grad, x.grad)


def test_apply_is_torchs_own_again_and_in_other_threads():
    own, seen = torch.autograd.Function.__dict__["apply"], []

    @tg.do_not_convert
    def elsewhere(x):
        def run():
            made = Spike.apply(torch.ones(2, requires_grad=True))
            seen.append(made.grad_fn.name())

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return x * 2

    tg.function(lambda x: elsewhere(x))(torch.ones(2))
    assert seen[0] == "SpikeBackward"
    assert torch.autograd.Function.__dict__["apply"] is own
