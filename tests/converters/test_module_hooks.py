"""Hooks of modules that torch's own tools register around a call."""

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import tograph as tg


def test_flops_of_a_call_with_gradients():
    layer = torch.nn.Linear(3, 3)

    def f(x):
        y = layer(x)
        if y.sum() > -1e9:
            y = y @ layer.weight
        return y.sum()

    staged, counts = tg.function(f), []
    for g in (f, staged, staged):
        with FlopCounterMode(display=False) as mode:
            g(torch.randn(4, 3, requires_grad=True)).backward()
        counts.append(mode.get_total_flops())
    assert counts[0] == counts[1] == counts[2] > 0


def test_a_list_of_the_module_that_hooks_fill_and_empty():
    def made():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

        def before(module, given, result):
            if not hasattr(module, "inputs"):
                module.inputs = []
            module.inputs.append(given[0].detach())

        def behind(module, grad_input, grad_output):
            x = module.inputs.pop()
            module.weight.of_each = torch.einsum("ni,nj->nij", grad_output[0].detach(), x)

        for layer in (net[0], net[2]):
            layer.register_forward_hook(before)
            layer.register_full_backward_hook(behind)

        def f(x):
            loss = net(x).square().mean()
            loss.backward()
            norms = [layer.weight.of_each.flatten(1).norm(dim=1) for layer in (net[0], net[2])]
            net.zero_grad()
            return loss.detach() * 2 if loss > 0.1 else loss.detach(), norms

        return f

    plain, staged = made(), tg.function(made())
    for _ in range(3):
        x = torch.randn(5, 3, requires_grad=True)
        torch.testing.assert_close(staged(x), plain(x))


def test_hooks_that_a_call_registers_and_removes_are_traced_once():
    layer = torch.nn.Linear(3, 3)

    @tg.function
    def f(x, n):
        seen = []
        handle = layer.register_forward_hook(lambda m, args, out: seen.append(out.sum()))
        while x.sum() < n:
            x = x + layer(x).abs() + 1
        handle.remove()
        return x, layer(x), seen

    for n in (20.0, 30.0, 20.0):
        x, y, seen = f(torch.ones(3), torch.tensor(n))
        torch.testing.assert_close(y, layer(x))
        assert seen
    assert f.trace_count == 1
    layer.register_forward_hook(lambda m, args, out: out * 0)
    assert not f(torch.ones(3), torch.tensor(0.0))[1].any()
