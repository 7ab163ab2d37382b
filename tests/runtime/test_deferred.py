"""Weight gradients of a loop are one product after it."""

import pytest
import torch

import tograph as tg
from tograph.runtime.autodiff import vjp


def network(x, w, b, n):
    for _ in range(n):
        x = torch.tanh(torch.nn.functional.linear(x, w, b)) + x
    return x


def test_weights_are_not_summed_in_the_loop():
    args = [torch.randn(2, 3), torch.randn(3, 3), torch.randn(3), torch.tensor(2)]
    graph = tg.function(network).get_concrete_function(*args).graph
    backward = vjp(graph, [0, 1, 2]).backward
    loop = next(n for n in backward.nodes if n.op == "While")
    ops = [n.op for n in loop.regions["body"].nodes]
    assert ops.count("aten.mm.default") == 1  # the one of the state
    assert "aten.sum.dim_IntList" not in ops
    assert sum(n.op == "tg.list_concat" for n in backward.nodes) >= 2


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_orders_as_in_eager(trips):
    found = []
    for f in (network, tg.function(network)):
        torch.manual_seed(0)
        args = [
            torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, 3), (3, 3), (3,))
        ]
        y = f(*args, torch.tensor(trips)).sin().sum() + sum(0 * a.sum() ** 2 for a in args)
        first = torch.autograd.grad(y, args, create_graph=True)
        second = torch.autograd.grad(sum((g * g).sum() for g in first), args)
        found.append((y, *first, *second))
    torch.testing.assert_close(*found)
